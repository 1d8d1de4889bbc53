"""What a burn-in does and in which order: the plan that a node carries out, and whether one asks as much as another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .evidence_store import valid_id
from .expectations import ABOVE_ZERO, FLAG, TEXT, ExpectationError, Nullable, check_expectations, check_kind, shown
from .registry import STRESSES

# How a planned reboot is made: by the system itself, or by the BMC taking the power away.
REBOOTS = {"warm": ("systemctl", "reboot"), "power_cycle": ("ipmitool", "chassis", "power", "cycle")}
_SHORTEST_INTERVAL_SECONDS = 0.1


class PlanError(ExpectationError):
    """A plan that cannot be carried out: names the key, what was found and what was expected."""


@dataclass(frozen=True)
class Step:
    """One step of a burn-in: stresses side by side, a time of examining alone, or a planned reboot.

    ``run`` maps a stress to its settings. ``seconds`` is how long they go on; those with a length of their own get
    ``limit_seconds`` instead, at most. ``reboot`` is one of REBOOTS, and then there is nothing else.
    """

    seconds: float = 0
    limit_seconds: float = 0
    run: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reboot: str = ""

    @property
    def exclusive(self) -> bool:
        """Whether nothing else may happen on the host meanwhile, not even an examination."""
        return any(getattr(STRESSES[name], "EXCLUSIVE", False) for name in self.run)

    @property
    def name(self) -> str:
        """``gpu_stress, cpu_stress``, ``warm reboot`` or ``examine``."""
        return f"{self.reboot} reboot" if self.reboot else ", ".join(self.run) or "examine"

    def to_dict(self) -> dict[str, Any]:
        """Return the keys that say something, as the fleet file has them."""
        data = {"seconds": self.seconds, "limit_seconds": self.limit_seconds, "reboot": self.reboot}
        return {**{key: value for key, value in data.items() if value}, **({"run": dict(self.run)} if self.run else {})}


def steps_of(data: Any, key: str = "steps") -> tuple[Step, ...]:
    """Return the steps of a profile as the fleet file or a plan writes them; raises PlanError naming the key."""
    if not isinstance(data, (list, tuple)) or not data:
        raise PlanError(key, "an empty list" if data == [] else shown(data), "a list of steps")
    return tuple(_step(item, f"{key}[{index}]") for index, item in enumerate(data))


def _step(data: Any, key: str) -> Step:
    if not isinstance(data, Mapping):
        raise PlanError(key, shown(data), "a mapping")
    known = ("seconds", "limit_seconds", "run", "reboot")
    for name in data:
        if name not in known:
            raise PlanError(key, f"unknown key {shown(name)}", f"one of {', '.join(known)}")
    if "reboot" in data:
        if len(data) > 1 or data["reboot"] not in tuple(REBOOTS):
            raise PlanError(f"{key}.reboot", shown(data["reboot"]), f"{' or '.join(REBOOTS)}, and nothing else")
        return Step(reboot=data["reboot"])
    run = _stresses(data.get("run"), f"{key}.run")
    if ("seconds" in data) == ("limit_seconds" in data) or ("limit_seconds" in data and not run):
        raise PlanError(key, f"keys {', '.join(data)}", "seconds, or run and limit_seconds, or reboot")
    for name in ("seconds", "limit_seconds"):
        if name in data:
            _checked(data[name], ABOVE_ZERO, f"{key}.{name}")
    step = Step(float(data.get("seconds", 0)), float(data.get("limit_seconds", 0)), run)
    if step.exclusive and len(run) > 1:
        alone = next(name for name in run if getattr(STRESSES[name], "EXCLUSIVE", False))
        raise PlanError(f"{key}.run", ", ".join(run), f"{alone} alone, as it tolerates nothing beside it")
    return step


def _stresses(data: Any, key: str) -> dict[str, dict[str, Any]]:
    if data is None:
        return {}
    if not isinstance(data, Mapping) or not data:
        raise PlanError(key, shown(data) if data else "an empty mapping", "stresses, each with its settings")
    run = {}
    for name, given in data.items():
        if not isinstance(name, str) or name not in STRESSES:
            raise PlanError(key, f"unknown stress {shown(name)}", f"one of {', '.join(STRESSES)}")
        kinds = STRESSES[name].SETTINGS
        # A setting that may be null may be left out.
        unset = {setting: None for setting, kind in kinds.items() if isinstance(kind, Nullable)}
        settings = {} if given is None else given
        _checked({**unset, **settings} if isinstance(settings, Mapping) else settings, dict(kinds), f"{key}.{name}")
        run[name] = dict(settings)
    return run


def _checked(data: Any, kind: Any, key: str) -> None:
    try:
        check_kind(data, kind, key)
    except ExpectationError as exc:
        raise PlanError(exc.key, exc.found, exc.expected) from exc


@dataclass(frozen=True)
class Plan:
    """What to do on ``node``: the steps in order, an examination before, between and after them, and one every
    ``interval_seconds`` while a step goes on.

    ``id`` becomes the evidence's id: a plan is carried out once. With ``stop_on_fail`` the first failure ends the run,
    since a failed node gains nothing from more hours. ``allow_reboot`` is the one switch for planned reboots.
    """

    id: str
    node: str
    profile: str
    steps: tuple[Step, ...]
    interval_seconds: float
    expect: Mapping[str, Any]
    stop_on_fail: bool = True
    allow_reboot: bool = False

    @property
    def duration_seconds(self) -> float:
        """Return how long the timed steps take together."""
        return sum(step.seconds for step in self.steps)

    @classmethod
    def from_dict(cls, data: Any) -> Plan:
        """Return the plan in ``data``; raises PlanError."""
        kinds = {"id": TEXT, "node": TEXT, "profile": TEXT, "interval_seconds": ABOVE_ZERO}
        kinds.update(stop_on_fail=FLAG, allow_reboot=FLAG)
        if not isinstance(data, Mapping):
            raise PlanError("", shown(data), "a mapping")
        given = {"stop_on_fail": True, "allow_reboot": False, **data}
        rest = {key: given.pop(key, None) for key in ("steps", "expect")}
        _checked(given, kinds, "")
        if not valid_id(given["id"]):
            raise PlanError("id", shown(given["id"]), "letters, digits, '-', '_' and '.'")
        if given["interval_seconds"] < _SHORTEST_INTERVAL_SECONDS:
            least = f"a number of at least {_SHORTEST_INTERVAL_SECONDS}"
            raise PlanError("interval_seconds", shown(given["interval_seconds"]), least)
        try:
            check_expectations(rest["expect"], "expect")
        except ExpectationError as exc:
            raise PlanError(exc.key, exc.found, exc.expected) from exc
        plan = cls(**given, steps=steps_of(rest["steps"]), expect=rest["expect"])
        reboots = [step.name for step in plan.steps if step.reboot]
        if reboots and not plan.allow_reboot:
            raise PlanError("allow_reboot", "false", f"true, as profile {plan.profile} has a planned {reboots[0]}")
        if "power_cycle reboot" in reboots and not plan.expect.get("bmc"):
            raise PlanError(
                "expect.bmc", "nothing", f"a BMC, as profile {plan.profile} has a planned power_cycle reboot"
            )
        return plan


def shortfall(done: Sequence[Step], wanted: Sequence[Step]) -> str:
    """Return in what the steps ``done`` ask less of a node than those ``wanted``, "" if in nothing.

    Stresses that are wanted side by side have to have run side by side, since power and cooling fail together: for as
    long in sum, or as often where they have a length of their own. Reboots count by their kind.
    """
    for name, unit, measure in _measures(wanted):
        got, asked = measure(done), measure(wanted)
        if not got >= asked:
            return f"{name}: {got:g} of {asked:g}{unit}"
    return ""


def _measures(wanted: Sequence[Step]) -> list[tuple[str, str, Any]]:
    def seconds(least: Step) -> Any:
        return lambda steps: sum(step.seconds for step in steps if _covers(step, least))

    def runs(least: Step) -> Any:
        return lambda steps: sum(bool(step.limit_seconds) and _covers(step, least) for step in steps)

    def reboots(kind: str) -> Any:
        return lambda steps: sum(step.reboot == kind for step in steps)

    measures: list[tuple[str, str, Any]] = [("time in all", " s", seconds(Step()))]
    for step in wanted:
        if step.run and step.seconds:
            measures.append((f"time of {_load(step)}", " s", seconds(step)))
        elif step.run:
            measures.append((_load(step), " runs", runs(step)))
    return [*measures, *((f"{kind} reboots", "", reboots(kind)) for kind in REBOOTS)]


def _load(step: Step) -> str:
    """Return the stresses of a step with their settings: ``dcgm_diag (level 3)``."""
    shown_settings = {name: ", ".join(f"{key} {value}" for key, value in own.items()) for name, own in step.run.items()}
    return ", ".join(f"{name} ({text})" if text else name for name, text in shown_settings.items())


def _covers(step: Step, least: Step) -> bool:
    """Return whether a step runs at least the stresses of another, none of them with less."""
    return all(name in step.run and _as_much(step.run[name], own) for name, own in least.run.items())


def _as_much(given: Mapping[str, Any], least: Mapping[str, Any]) -> bool:
    """Return whether settings ask as much as others: more of a number, and of all else the same."""
    return all(_at_least(given.get(key), least.get(key)) for key in {*given, *least})


def _at_least(value: Any, least: Any) -> bool:
    return value == least or (_is_number(value) and _is_number(least) and value > least)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
