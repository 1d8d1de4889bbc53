"""The declared policy: what a site asks before it admits a node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, Literal

from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import Step, Steps
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import ELEMENT_BYTES
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CHECKS,
    COHORT_CHECKS,
    ROUND_CHECKS,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.deviation import Deviation
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import STAGES
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import (
    AboveZero,
    Converted,
    Number,
    ReadError,
    Rule,
    Text,
    at_least,
    check_keys,
    one_of,
    read,
    read_as,
    shown,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import (
    Pattern,
    choice,
    each_once,
    faults_of,
    filled,
    names,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import Fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import (
    Scheduler,
    shipped_health_interval,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_storage import Storage
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_defaults import shipped_defaults

# A preflight belongs to its run; the limit only keeps last week's from being handed in again.
PREFLIGHT_FRESH_HOURS = 24.0


# That the parts of the machine are known, and that somebody looked at it since it booted.
NOT_WAIVED = ("fingerprint", "boot_preflight")


class PolicyError(MusterError, ValueError):
    """A policy by which nothing can be judged; names the key, what was found and what was expected."""


@dataclass(frozen=True)
class BurnInProfile:
    """What a burn-in does, in order, with an examination every ``interval_seconds`` while a step goes on."""

    steps: Steps
    interval_seconds: Annotated[float, at_least(0.1)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, each step with the keys that say something."""
        return {"interval_seconds": self.interval_seconds, "steps": [step.to_dict() for step in self.steps]}


@dataclass(frozen=True)
class PowerBudget:
    """The most that nodes under burn-in may draw together, in kW; None: no limit."""

    rack: AboveZero | None = None
    feed: AboveZero | None = None
    site: AboveZero | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return the limits by what they hold for: rack, feed, site."""
        return {"rack": self.rack, "feed": self.feed, "site": self.site}

    @property
    def declared(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in self.to_dict().values())


@dataclass(frozen=True)
class BurnInRamp:
    """What burn-in may draw, how steeply it begins, and the command that says whether the site has an alarm."""

    kilowatts: PowerBudget = field(default_factory=PowerBudget)
    ramp_seconds: Annotated[float, at_least(0)] = 15.0
    # Exit status 0 says that there is none.
    alarm: Annotated[tuple[Text, ...], Rule("a command and its arguments", bool, of_value=True)] | None = None

    def __post_init__(self) -> None:
        # Where nobody knows from which directory a playbook is run.
        if self.alarm is not None and not self.alarm[0].startswith("/"):
            raise ReadError("alarm[0]", shown(self.alarm[0]), "an absolute path")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that reads back the same."""
        alarm = None if self.alarm is None else list(self.alarm)
        return {"kilowatts": self.kilowatts.to_dict(), "ramp_seconds": self.ramp_seconds, "alarm": alarm}


Size = Annotated[
    int,
    Rule(
        f"a whole number of at least 1 that {ELEMENT_BYTES} divides",
        lambda size: size >= 1 and size % ELEMENT_BYTES == 0,
    ),
]


@dataclass(frozen=True)
class LatencyLimit:
    """Longest p99 of groups of so many GPUs."""

    gpus: Annotated[int, at_least(2)]
    microseconds: Annotated[
        float,
        Rule("a number of microseconds", math.isfinite),
        Rule("a number of at least 0.001", (0.001).__le__, of_value=True),
    ]


def _sizes(data: Any) -> tuple[int, ...]:
    sizes: tuple[int, ...] = read_as(Annotated[tuple[Size, ...], Rule("a list of sizes in bytes", bool)], data)
    each_once("", sizes, "each size once")
    return sizes


def _limits(data: Any) -> tuple[LatencyLimit, ...]:
    entries = Rule("at least one entry", bool, of_value=True)
    limits: tuple[LatencyLimit, ...] = read_as(Annotated[tuple[LatencyLimit, ...], entries], data)
    for index, limit in enumerate(limits):
        if limit.gpus in (other.gpus for other in limits[:index]):
            raise ReadError(f"[{index}].gpus", str(limit.gpus), "each number of GPUs once")
    return tuple(sorted(limits, key=lambda limit: limit.gpus))


@dataclass(frozen=True, kw_only=True)
class LatencyBudget:
    """A latency profile as it is declared, its limits by number of GPUs."""

    # Every collective is judged by its own budget; the one that a token waits for is this.
    collective: Literal["all_reduce"] = "all_reduce"
    sizes_bytes: Annotated[tuple[int, ...], Converted("a list of sizes in bytes", _sizes)]
    limits: Annotated[tuple[LatencyLimit, ...], Converted("a list", _limits)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that reads back the same."""
        limits = [asdict(limit) for limit in self.limits]
        return {"collective": self.collective, "sizes_bytes": list(self.sizes_bytes), "limits": limits}


@dataclass(frozen=True, kw_only=True)
class Waiver(Deviation):
    """A deviation on some nodes, with who accepts it and why."""

    nodes: Annotated[Pattern, names("node names or a pattern such as gpu-[01-04]", bool)]
    reason: Text
    who: Text

    def __post_init__(self) -> None:
        if self.check not in CHECKS and self.check not in (*ROUND_CHECKS, *COHORT_CHECKS):
            raise ReadError("check", shown(self.check), "the name of a check (docs/checks.md)")
        if self.check in NOT_WAIVED:
            raise ReadError("check", shown(self.check), "another: without it nothing else is known of the node")

    def covers(self, node: str, finding: Finding, now: float) -> bool:
        """Return whether it accepts this finding; ``now`` is in seconds since the epoch."""
        return node in self.nodes.names and self.accepts(finding, now)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that reads back the same."""
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "nodes": self.nodes.text}


@dataclass(frozen=True)
class Policy:
    """What a site asks before it admits a node; the profile of burn-in is the least that counts."""

    stages: Annotated[
        tuple[Annotated[str, Rule(one_of(STAGES), STAGES.__contains__)], ...],
        Rule("a list of texts", lambda _value: True),
    ]
    burn_in_profile: Text
    burn_in_profiles: Mapping[str, BurnInProfile]
    fresh_hours: Mapping[str, Number]
    retest: bool
    # Age up to which the last health check of a node in service counts; None where Slurm runs none.
    heartbeat_seconds: Annotated[float, at_least(1)] | None
    close_limit_percent: Number = 0
    burn_in: BurnInRamp = field(default_factory=BurnInRamp)
    # Name of the profile that groups of GPUs must keep; None: none.
    latency_profile: Text | None = None
    latency_profiles: Mapping[str, LatencyBudget] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()

    def __post_init__(self) -> None:
        if not self.stages:
            raise ReadError("stages", "an empty list", "at least one stage")
        each_once("stages", self.stages, "each stage once")
        if self.stages[0] != "preflight":
            raise ReadError("stages[0]", shown(self.stages[0]), "preflight, which every run begins with")
        try:
            check_keys(self.fresh_hours, STAGES)
        except ReadError as exc:
            raise exc.under("fresh_hours") from None
        choice("burn_in_profile", self.burn_in_profile, tuple(self.burn_in_profiles))
        if self.latency_profile is not None:
            choice("latency_profile", self.latency_profile, tuple(self.latency_profiles))
            if "acceptance" not in self.stages:
                expected = "stage acceptance in policy.stages, which measures it"
                raise ReadError("latency_profile", shown(self.latency_profile), expected)

    @property
    def burn_in_steps(self) -> tuple[Step, ...]:
        """The least that a burn-in has to have done."""
        return self.burn_in_profiles[self.burn_in_profile].steps

    @property
    def latency(self) -> LatencyProfile | None:
        """The latency that mini-clusters have to keep, None where nothing is asked of them."""
        if self.latency_profile is None:
            return None
        asked = self.latency_profiles[self.latency_profile]
        limits = {limit.gpus: float(limit.microseconds) for limit in asked.limits}
        return LatencyProfile(self.latency_profile, asked.collective, asked.sizes_bytes, limits)

    def waiver_for(self, node: str, finding: Finding, now: float) -> Waiver | None:
        """Return the waiver by which a finding that did not pass is accepted today, None where there is none."""
        return next((each for each in self.waivers if each.covers(node, finding, now)), None)

    def fresh_limit(self, stage: str) -> float:
        """Return up to which age in hours evidence of a stage counts; one that is not named does not age."""
        preflight = PREFLIGHT_FRESH_HOURS if stage == "preflight" else math.inf
        return self.fresh_hours.get(stage, preflight)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that ``read`` takes back."""
        profiles = ("burn_in_profiles", "latency_profiles")
        return {
            **{each.name: getattr(self, each.name) for each in fields(self) if each.name != "waivers"},
            "stages": list(self.stages),
            "fresh_hours": dict(self.fresh_hours),
            "burn_in": self.burn_in.to_dict(),
            **{key: {name: one.to_dict() for name, one in getattr(self, key).items()} for key in profiles},
        } | _if_any("waivers", [waiver.to_dict() for waiver in self.waivers])


def _if_any(key: str, entries: list[Any]) -> dict[str, Any]:
    return {key: entries} if entries else {}


def read_policy(data: Any, fabric: Fabric, storage: Storage, scheduler: Scheduler, file: str) -> Policy:
    """Return the section ``policy`` of a fleet file, filled up with the defaults. Raises FleetError."""
    shipped = shipped_defaults("policy")
    intervals = shipped.pop("heartbeat_intervals")
    # Stages for which nothing is declared, and why.
    idle = {
        **({} if fabric.rdma else {"fabric": "as fabric.kind is ethernet"}),
        **({} if storage.checkpoint else {"storage": "as storage.checkpoint is not declared"}),
    }
    interval = scheduler.health_interval_seconds
    shipped["stages"] = [stage for stage in shipped["stages"] if stage not in idle]
    shipped["heartbeat_seconds"] = None if interval is None else intervals * interval
    with faults_of(file, "policy"):
        check_keys({} if data is None else data, [each.name for each in fields(Policy)])
        values = filled(data or {}, shipped)
        for key in ("burn_in_profiles", "latency_profiles"):
            _keep_shipped(key, values[key], shipped[key])
        for key in ("burn_in_profiles", "latency_profiles", "fresh_hours"):
            values[key] = filled(values[key], shipped[key])
        values["burn_in"] = filled(values["burn_in"], shipped["burn_in"])
        policy = read(Policy, values)
        for index, stage in enumerate(policy.stages):
            if stage in idle:
                raise ReadError(f"stages[{index}]", shown(stage), f"no stage {stage}, {idle[stage]}")
        beat = policy.heartbeat_seconds
        if interval is not None and beat is not None and beat < interval:
            raise ReadError(
                "heartbeat_seconds", shown(beat), f"at least {interval:g}, as a health check runs that often"
            )
    return policy


def longest_heartbeat(scheduler: Scheduler) -> float:
    """Return how old in seconds the last health check may be where a fleet file is silent.

    It follows from the fleet's own interval where that is longer than the shipped one, which is named by itself.
    """
    intervals = float(shipped_defaults("policy")["heartbeat_intervals"])
    return intervals * max(shipped_health_interval(), scheduler.health_interval_seconds or 0)


def _keep_shipped(key: str, given: Any, shipped: Mapping[str, Any]) -> None:
    """Raise ReadError where a profile that comes with Muster is declared as something else."""
    for name in shipped.keys() & (given if isinstance(given, Mapping) else {}).keys():
        # A fleet that was read once has them all.
        if not _same_profile(key, given[name], shipped[name]):
            raise ReadError(f"{key}.{name}", "another profile", "a name of its own, as this profile comes with Muster")


def _same_profile(key: str, given: Any, shipped: Any) -> bool:
    kind = BurnInProfile if key == "burn_in_profiles" else LatencyBudget
    return bool(read(kind, given) == read(kind, shipped))
