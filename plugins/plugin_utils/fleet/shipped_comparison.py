"""In what a fleet asks less of its nodes than what Muster ships: said with each admission, so that nobody overlooks it.

What a site declares otherwise is its right: other hardware has other numbers. It must not pass unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import shortfall
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import Policy
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import Hooks
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import DERIVED, expectations_of

# Numbers of a class that a part must not exceed; all other numbers must at least be reached or done.
UPPER_LIMITS = (
    *("bmc.inlet.*", "bmc.log.*", "clock.*", "collective.latency", "collective.straggler.*", "dcgm.nvlink_errors"),
    *("gpu.ecc.*", "gpu.idle_memory_mib", "gpu.pcie_replays", "gpu.row_remap.*", "kernel_log.*", "memory.errors.*"),
    *("memory.swap_mib", "*.spread_percent", "*tolerance_percent", "*.margin_percent", "*.margin", "nic.errors.*"),
    *("nic.growth.*", "nic.physical.*", "nvme.media_errors", "nvme.percentage_used", "nvme.temperature_celsius"),
    *("pcie.errors.*", "rdma.cohort.*", "rdma.counters.*", "rdma.latency_us.*", "rdma.stray_percent"),
    *("storage.metadata_p99_ms", "storage.slowest_over_median", "telemetry.*_celsius", "telemetry.ecc_*"),
    *("telemetry.*_spread_percent", "telemetry.gap_seconds", "telemetry.pcie_replays_per_minute"),
    "telemetry.throttle_seconds",
)
# Lists of limits: what tells one entry, and the number that it sets.
_LISTS = {
    "collective.floors": (("collective", "nodes_min", "size_bytes"), "busbw_gb_per_s"),
    "collective.latency": (("collective", "nodes_min", "size_bytes"), "microseconds"),
    "nvbandwidth.floors": (("testcase",), "gb_per_s"),
}
# What says how a node is asked, or where parts are, and not how much they have to be.
_NOT_LIMITS = ("class", "gpu_stack", "tools.*", "collective.step_seconds", "collective.cohort.*", *DERIVED)
# The promise of a rail, and how close to it a floor has to be to notice that all nodes are slow together: one lane of
# four that is lost costs 25 %.
LEAST_FLOOR_PERCENT = 80


def weaker_policy(policy: Policy, shipped: Policy) -> tuple[str, ...]:
    """Return in what a policy asks less than the shipped one of the same fleet, one sentence each."""
    found = [f"stage {stage} is not required" for stage in shipped.stages if stage not in policy.stages]
    if "burn_in" in policy.stages and (less := shortfall(policy.burn_in_steps, shipped.burn_in_steps)):
        found.append(f"burn-in profile {policy.burn_in_profile} does less than {shipped.burn_in_profile}: {less}")
    for stage in policy.stages:
        hours, most = policy.fresh_limit(stage), shipped.fresh_limit(stage)
        if hours > most:
            found.append(f"evidence of {stage} counts for {hours:g} h, shipped {most:g}")
    if policy.heartbeat_seconds is None:
        found.append("no health check is required in service")
    return tuple(found)


def weaker_hooks(hooks: Hooks) -> tuple[str, ...]:
    """Return what nobody asks of nodes in service without the programs that Slurm runs on them."""
    found = []
    if not hooks.prolog:
        found.append("hooks.prolog is false: no node is checked before a job, users reach the ports of rounds")
    if not hooks.epilog:
        found.append("hooks.epilog is false: no node is checked after a job, processes of users may stay")
    return tuple(found)


def weaker_class(expect: Expectations, base: str | None) -> tuple[str, ...]:
    """Return in what a class asks less than the shipped class that it comes from, and where a floor is far too low."""
    name = expect.class_
    if base is None:
        return (f"class {name} comes from no shipped class that it could be compared with", *far_floors(expect))
    shipped = expectations_of(base, {}, base)
    return (*(f"class {name}: {text}" for text in _weaker(shipped, plain(expect), "")), *far_floors(expect))


def _weaker(shipped: Mapping[str, Any], own: Mapping[str, Any], place: str) -> Iterator[str]:
    for name, wanted in shipped.items():
        key, given = f"{place}{name}", own.get(name)
        if wanted is None or given == wanted or any(fnmatchcase(key, pattern) for pattern in _NOT_LIMITS):
            continue
        if given is None:
            yield f"{key} is not asked"
        elif isinstance(wanted, Mapping) and isinstance(given, Mapping):
            yield from _weaker(wanted, given, f"{key}.")
        elif key in _LISTS:
            yield from _weaker_entries(key, wanted, given)
        elif isinstance(wanted, bool):
            yield f"{key} is {str(given).lower()}, shipped {str(wanted).lower()}"
        elif isinstance(wanted, int | float) and _less(key, given, wanted):
            yield f"{key} is {given:g}, shipped {wanted:g}"


def _weaker_entries(key: str, shipped: Sequence[Mapping[str, Any]], own: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names, number = _LISTS[key]
    known = {tuple(each[name] for name in names): each[number] for each in own}
    for each in shipped:
        told = " ".join(str(each[name]) for name in names)
        given = known.get(tuple(each[name] for name in names))
        if given is None:
            yield f"{key} has none for {told}"
        elif _less(key, given, each[number]):
            yield f"{key} for {told} is {given:g}, shipped {each[number]:g}"


def _less(key: str, given: float, shipped: float) -> bool:
    """Return whether a number asks less than the shipped one."""
    return given > shipped if any(fnmatchcase(key, pattern) for pattern in UPPER_LIMITS) else given < shipped


def far_floors(expect: Expectations) -> tuple[str, ...]:
    """Return by how much all nodes of a class could be slow together unnoticed, if that is much."""
    if expect.nic is None:
        return ()
    speed = expect.nic.speed_gbps
    promise = speed / 8
    floors = [floor.busbw_gb_per_s for floor in expect.collective.floors if floor.collective == "sendrecv"]
    best = max(floors, default=0.0)
    if best * 100 >= LEAST_FLOOR_PERCENT * promise:
        return ()
    had = f"the floor of sendrecv is {best:g} GB/s" if floors else "sendrecv has no floor"
    return (
        f"class {expect.class_}: {had}, a rail of {speed:g} Gb/s carries {promise:g}: nodes that are all slow by as "
        f"much pass; declare collective.floors of at least {promise * LEAST_FLOOR_PERCENT / 100:g} GB/s",
    )
