"""What a burn-in does and in which order: the plan that a node carries out, and whether one asks as much as another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from ..examination.registry import STRESSES
from ..host.evidence_store import valid_id
from ..words.deviation import Deviation
from ..words.evidence import expect_digest_of
from ..words.expectations import Expectations
from ..words.reader import AboveZero, Converted, ReadError, Rule, Text, at_least, plain, read, read_as, shown

# How a planned reboot is made: by the system itself, or by the BMC taking the power away.
REBOOTS = {"warm": ("systemctl", "reboot"), "power_cycle": ("ipmitool", "chassis", "power", "cycle")}
_SHORTEST_INTERVAL_SECONDS = 0.1
_STRESSES = "stresses, each with its settings"


def _stresses(data: Any) -> dict[str, Any]:
    """Return each stress' settings by its name; raises ReadError."""
    if not isinstance(data, Mapping) or not data:
        raise ReadError("", shown(data) if data else "an empty mapping", _STRESSES)
    for name in data:
        if name not in STRESSES:
            raise ReadError("", f"unknown stress {shown(name)}", f"one of {', '.join(STRESSES)}")
    return {name: read(STRESSES[name].SETTINGS, {} if own is None else own, name) for name, own in data.items()}


@dataclass(frozen=True)
class Step:
    """One step of a burn-in: stresses side by side, a time of examining alone, or a planned reboot.

    ``run`` maps a stress to its settings, an object of its ``SETTINGS``. ``seconds`` is how long they go on; those with
    a length of their own get ``limit_seconds`` instead, at most. ``reboot`` is one of REBOOTS, and then there is
    nothing else.
    """

    seconds: AboveZero = 0
    limit_seconds: AboveZero = 0
    run: Annotated[Mapping[str, Any], Converted(_STRESSES, _stresses)] = field(default_factory=dict)
    reboot: Annotated[str, Rule(f"{' or '.join(REBOOTS)}, and nothing else", REBOOTS.__contains__)] = ""

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
        run = {name: _given(own) for name, own in self.run.items()}
        return {**{key: value for key, value in data.items() if value}, **({"run": run} if run else {})}


def _given(settings: Any) -> dict[str, Any]:
    """Return what is set; null is the same as to leave a setting out."""
    return {key: value for key, value in plain(settings).items() if value is not None}


def _step(data: Any) -> Step:
    step = read(Step, data)
    if step.reboot:
        if len(data) > 1:
            raise ReadError("reboot", shown(step.reboot), f"{' or '.join(REBOOTS)}, and nothing else")
        return step
    if bool(step.seconds) == bool(step.limit_seconds) or (step.limit_seconds and not step.run):
        raise ReadError("", f"keys {', '.join(data)}", "seconds, or run and limit_seconds, or reboot")
    if step.exclusive and len(step.run) > 1:
        alone = next(name for name in step.run if getattr(STRESSES[name], "EXCLUSIVE", False))
        raise ReadError("run", ", ".join(step.run), f"{alone} alone, as it tolerates nothing beside it")
    return replace(step, seconds=float(step.seconds), limit_seconds=float(step.limit_seconds))


Steps = Annotated[
    tuple[Annotated[Step, Converted("a mapping", _step)], ...],
    Rule("a list of steps", bool),
]


def steps_of(data: Any, key: str = "steps") -> tuple[Step, ...]:
    """Return the steps of a profile as the fleet file or a plan writes them; raises ReadError naming the key."""
    steps: tuple[Step, ...] = read_as(Steps, data, key)
    return steps


@dataclass(frozen=True)
class Plan:
    """What to do on ``node``: the steps in order, an examination before, between and after them, and one every
    ``interval_seconds`` while a step goes on.

    ``id`` becomes the evidence's id: a plan is carried out once. With ``stop_on_fail`` the first failure ends the run,
    since a failed node gains nothing from more hours; one that ``waivers`` accept does not. ``allow_reboot`` is the one
    switch for planned reboots.
    """

    id: Annotated[str, Rule("letters, digits, '-', '_' and '.'", valid_id)]
    node: Text
    profile: Text
    steps: Steps
    interval_seconds: Annotated[float, at_least(_SHORTEST_INTERVAL_SECONDS)]
    expect: Expectations
    stop_on_fail: bool = True
    allow_reboot: bool = False
    waivers: tuple[Deviation, ...] = ()

    @property
    def duration_seconds(self) -> float:
        """Return how long the timed steps take together."""
        return sum(step.seconds for step in self.steps)

    @property
    def expect_digest(self) -> str:
        """Return the digest of what burn-in is judged by."""
        return expect_digest_of("burn_in", plain(self.expect))

    def __post_init__(self) -> None:
        """Raise ReadError for a planned reboot that is not allowed, or cannot be made."""
        reboots = [step.name for step in self.steps if step.reboot]
        if reboots and not self.allow_reboot:
            raise ReadError("allow_reboot", "false", f"true, as profile {self.profile} has a planned {reboots[0]}")
        if "power_cycle reboot" in reboots and self.expect.bmc is None:
            expected = f"a BMC, as profile {self.profile} has a planned power_cycle reboot"
            raise ReadError("expect.bmc", "nothing", expected)

    @classmethod
    def from_dict(cls, data: Any) -> Plan:
        """Return the plan in ``data``; raises ReadError."""
        return read(cls, data)


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
    shown_settings = {
        name: ", ".join(f"{key} {value}" for key, value in _given(own).items()) for name, own in step.run.items()
    }
    return ", ".join(f"{name} ({text})" if text else name for name, text in shown_settings.items())


def _covers(step: Step, least: Step) -> bool:
    """Return whether a step runs at least the stresses of another, none of them with less."""
    return all(name in step.run and _as_much(_given(step.run[name]), _given(own)) for name, own in least.run.items())


def _as_much(given: Mapping[str, Any], least: Mapping[str, Any]) -> bool:
    """Return whether settings ask as much as others: more of a number, and of all else the same."""
    return all(_at_least(given.get(key), least.get(key)) for key in {*given, *least})


def _at_least(value: Any, least: Any) -> bool:
    return value == least or (_is_number(value) and _is_number(least) and value > least)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
