"""In what a fleet asks less of its nodes than what Muster ships: said with each admission, so that nobody overlooks it.

What a site declares otherwise is its right: other hardware has other numbers. It must not pass unseen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import shortfall
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain, shown
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import Fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import Policy, longest_heartbeat
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import (
    ADOPT,
    BLOCK,
    OPEN,
    Scheduler,
    no_blocks,
    shipped_health_interval,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_storage import Storage
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import shipped_values
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_defaults import shipped_defaults

_Entry = Mapping[str, Any]

# Numbers of a class that a part must not exceed, and those that it must at least reach or do. What is in neither says
# how it is measured: with any other number it is another measurement, and named.
UPPER_LIMITS = (
    *("bmc.airflow.rise_celsius", "bmc.inlet.*", "bmc.log.*", "clock.*"),
    *("collective.cohort.*", "collective.latency.microseconds"),
    *("collective.straggler.*", "dcgm.nvlink_errors", "gpu.ecc.*", "gpu.idle_memory_mib", "gpu.pcie_replays"),
    *("gpu.row_remap.*", "kernel_log.*", "memory.errors.*", "memory.swap_mib", "*.spread_percent"),
    *("*tolerance_percent", "*.margin_percent", "nic.errors.*", "nic.growth.*", "nic.physical.*", "nvme.media_errors"),
    *("nvme.percentage_used", "nvme.temperature_celsius", "pcie.errors.*", "rdma.cohort.*", "rdma.counters.*"),
    *("rdma.latency_us.*", "rdma.stray_percent", "storage.metadata_p99_ms", "storage.slowest_over_median"),
    *("telemetry.*_celsius", "telemetry.ecc_*", "*_spread_percent", "telemetry.gap_seconds"),
    *("telemetry.pcie_replays_per_minute", "telemetry.throttle_seconds"),
)
LOWER_LIMITS = (
    *("*.count", "*_floor_*", "affinity.numa_nodes", "bmc.airflow.fans"),
    *("collective.floors.busbw_gb_per_s", "collective.hold.*"),
    *("collective.ranks_per_node", "collective.*.iterations", "collective.*.warmup", "collective.train.*", "cpu.*"),
    *("cpu_stress.*", "disk.paths.free_gib", "gpu.memory_mib", "gpu.pcie_generation", "gpu.pcie_width"),
    *("gpu.power_limit_watts", "gpu_stress.memory_percent", "memory.dimms.size_mib", "memory.mib"),
    *("memory_bandwidth.nodes", "memory_latency.items", "memory_latency.nodes", "nic.frontend.speed_gbps"),
    *("nic.lanes", "nic.mtu_bytes", "nic.pcie.*", "nic.speed_gbps", "numa.nodes", "nvbandwidth.floors.gb_per_s"),
    *("nvlink.*", "nvme.link_*", "nvme_read.jobs", "nvme_read.queue_depth", "pcie.max_read_request_bytes"),
    *("rdma.bandwidth_percent", "rdma.loopback_percent", "rdma.seconds", "storage.*_gb_per_s", "telemetry.files"),
    "telemetry.power_percent",
)
# What is not compared where it is there at all.
NOT_COMPARED = (
    "class",
    # Where GPUs lie differs between vendors of hosts; gpu.count says how many there are.
    "gpu.parts",
    # Versions and names of the firmware that a site has chosen.
    "firmware.*",
    # Where a site and an image keep PyTorch, and where what was measured is kept.
    *("pytorch.python", "collective.container_python", "telemetry.directory"),
    # What planning counts, which limits nothing.
    *("collective.step_seconds", "collective.pairs.seconds", "power.*"),
)
# True asks for more than false; of all other switches either may be what a class needs.
_MORE_IF_TRUE = ("dcgm.eud_required", "rdma.gpu_direct")
# Shipped as null, and a value leaves something out; elsewhere a value in place of null asks for more.
_LESS_IF_GIVEN = ("bmc.log.since", "collective.budget_minutes", "nvme_read.file")
# Lists of mappings: what tells one entry from the others.
_NAMED_BY = {
    "disk.paths": ("path",),
    "nic.firmware_settings": ("key",),
    "nvbandwidth.floors": ("testcase",),
}
# Limits of groups: of those for so many nodes or fewer the one for most nodes holds.
_BY_NODES = ("collective.floors", "collective.latency")
_GROUP = ("collective", "nodes_min", "size_bytes")
# Parts that have other names and places at every site, and which of their keys say these.
_PLACES = {
    "nic.frontend": ("interface",),
    "nic.rails": ("rail", "address"),
}
# Slurm's flags with which the prolog runs on all nodes of a job before it starts (slurm.conf(5), PrologFlags).
_PROLOG_AT_ALLOCATION = {"alloc", "contain", "runinjob", "x11"}
# The promise of a rail, and how close to it a floor has to be to notice that all nodes are slow together: one lane of
# four that is lost costs 25 %.
LEAST_FLOOR_PERCENT = 80


def weaker_policy(policy: Policy, shipped: Policy, scheduler: Scheduler) -> tuple[str, ...]:
    """Return in what a policy asks less than the shipped one of the same fleet, one sentence each."""
    found = [f"stage {stage} is not required" for stage in shipped.stages if stage not in policy.stages]
    if "burn_in" in policy.stages:
        found += _weaker_burn_in(policy, shipped)
    for stage in policy.stages:
        hours, most = policy.fresh_limit(stage), shipped.fresh_limit(stage)
        if hours > most:
            found.append(f"evidence of {stage} counts for {hours:g} h, shipped {most:g}")
    beat, longest = policy.heartbeat_seconds, longest_heartbeat(scheduler)
    if beat is None:
        found.append("no health check is required in service")
    elif beat > longest:
        found.append(f"the last health check counts for {beat:g} s, shipped {longest:g}")
    return tuple(found)


def _weaker_burn_in(policy: Policy, shipped: Policy) -> Iterator[str]:
    name, steps = policy.burn_in_profile, policy.burn_in_steps
    if less := shortfall(steps, shipped.burn_in_steps):
        yield f"burn-in profile {name} does less than {shipped.burn_in_profile}: {less}"
    # Who does as much as a longer profile may look as seldom as that one does.
    profiles = shipped.burn_in_profiles
    as_much = [each for each in profiles.values() if not shortfall(steps, each.steps)]
    most = max(each.interval_seconds for each in (profiles[shipped.burn_in_profile], *as_much))
    if (interval := policy.burn_in_profiles[name].interval_seconds) > most:
        yield f"burn-in profile {name} examines every {interval:g} s, shipped {most:g}"


def weaker_scheduler(scheduler: Scheduler) -> tuple[str, ...]:
    """Return what nobody asks of nodes, or keeps users from, as the section ``scheduler`` has it."""
    hooks, found = scheduler.hooks, []
    if not hooks.prolog:
        found.append("hooks.prolog is false: no node is checked before a job, users reach the ports of rounds")
    if not hooks.epilog:
        found.append("hooks.epilog is false: no node is checked after a job, processes of users may stay")
    found += _weaker_hook_parameters(scheduler)
    if not scheduler.managed:
        found.append("managed is false: logins without a job, cgroups and the placing of jobs are the site's own")
    elif scheduler.ssh_access == OPEN:
        found.append("ssh_access is open: users may log in to every node, also without a job there")
    elif scheduler.ssh_access != ADOPT:
        found.append(f"ssh_access is {scheduler.ssh_access}, shipped {ADOPT}: logins are outside the job's limits")
    if scheduler.staff_partitions:
        names = ", ".join(scheduler.staff_partitions)
        found.append(f"staff_partitions: nodes that are not admitted may be in {names}")
    return tuple(found)


def weaker_topology(scheduler: Scheduler, releases: Iterable[str], expect: Expectations) -> tuple[str, ...]:
    """Return how jobs are placed where racks are NVLink domains and Slurm of all ``releases`` could be told so."""
    in_domains = expect.nvlink is not None and expect.nvlink.domain is not None
    if not in_domains or not scheduler.managed or scheduler.topology == BLOCK or any(map(no_blocks, releases)):
        return ()
    return (f"topology is {scheduler.topology}, shipped {BLOCK}: jobs may be placed across NVLink domains needlessly",)


def _weaker_hook_parameters(scheduler: Scheduler) -> Iterator[str]:
    """Yield which keys of slurm.conf make the hooks run more seldom, or later."""
    own = {key.lower(): value for key, value in scheduler.parameters.items()}
    interval, shipped = scheduler.health_interval_seconds, shipped_health_interval()
    if interval is not None and interval > shipped:
        yield f"scheduler.parameters.HealthCheckInterval is {interval:g}, shipped {shipped:g}"
    states = _words(own.get("healthchecknodestate") or "ANY")
    if scheduler.hooks.health and ("any" not in states or states - {"any", "cycle"}):
        given = own["healthchecknodestate"]
        yield f"scheduler.parameters.HealthCheckNodeState is {given}: nodes in other states are not checked"
    if scheduler.hooks.prolog and "prologflags" in own and not _words(own["prologflags"]) & _PROLOG_AT_ALLOCATION:
        yield "scheduler.parameters.PrologFlags lacks Alloc: a node is only checked when a job's first step is there"


def _words(value: Any) -> set[str]:
    return set(str(value).lower().split(","))


def weaker_fabric(fabric: Fabric) -> tuple[str, ...]:
    """Return what stage fabric does not ask, although the section ``fabric`` declares all it takes."""
    if fabric.rdma and fabric.switches and not fabric.verify_cabling:
        return ("fabric.verify_cabling is false: no rail is held against the cabling plan",)
    return ()


def weaker_storage(storage: Storage) -> tuple[str, ...]:
    """Return in what tiers and checkpoint have limits below the shipped ones."""
    shipped, found = shipped_defaults("storage"), []
    for tier in storage.tiers:
        if tier.write_ms > shipped["write_ms"]:
            found.append(f"storage tier {tier.name}: write_ms is {tier.write_ms:g}, shipped {shipped['write_ms']:g}")
        if tier.free_percent < shipped["free_percent"]:
            said = f"free_percent is {tier.free_percent:g}, shipped {shipped['free_percent']:g}"
            found.append(f"storage tier {tier.name}: {said}")
    target = shipped["checkpoint"]["target_seconds"]
    if storage.checkpoint and storage.checkpoint.target_seconds > target:
        found.append(f"storage.checkpoint.target_seconds is {storage.checkpoint.target_seconds:g}, shipped {target:g}")
    return tuple(found)


def weaker_class(expect: Expectations, base: str | None) -> tuple[str, ...]:
    """Return in what a class asks less than the shipped class that it comes from, and where a floor is far too low."""
    name = expect.class_
    if base is None:
        return (f"class {name} comes from no shipped class that it could be compared with", *far_floors(expect))
    weaker = weaker_values(shipped_values(base), plain(expect))
    return (*(f"class {name}: {text}" for text in weaker), *far_floors(expect))


def limit_key(path: str) -> str:
    """Return the key of a path by which patterns name it: ``disk.paths[/var].free_gib`` is ``disk.paths.free_gib``."""
    return re.sub(r"\[[^]]*\]", "", path)


def is_among(key: str, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns names a key."""
    return any(fnmatchcase(key, pattern) for pattern in patterns)


def weaker_values(shipped: Mapping[str, Any], own: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Yield in what the plain data of a class asks less than that of the shipped one; ``place`` stands before each key.

    What cannot be less or more, such as a text, is named if it is another one.
    """
    for name, wanted in shipped.items():
        given, path = own.get(name), f"{place}{name}"
        if given != wanted:
            yield from _weaker_value(path, wanted, given)


def _weaker_value(path: str, wanted: Any, given: Any) -> Iterator[str]:
    """Yield in what a value asks less than the shipped one, which is another."""
    key = limit_key(path)
    if wanted is None:
        if key in _LESS_IF_GIVEN:
            yield f"{path} is {_told(given)}, shipped null"
    elif given is None:
        yield f"{path} is not asked"
    elif is_among(key, NOT_COMPARED):
        return
    elif isinstance(wanted, Mapping):
        yield from weaker_values(wanted, given, f"{path}.")
    elif isinstance(wanted, list):
        yield from _weaker_list(path, wanted, given)
    elif _less(key, given, wanted):
        yield f"{path} is {_told(given)}, shipped {_told(wanted)}"


def _less(key: str, given: Any, shipped: Any) -> bool:
    """Return whether a value that is another than the shipped one asks less, or may do so."""
    if isinstance(shipped, bool):
        return shipped or key not in _MORE_IF_TRUE
    if isinstance(shipped, int | float) and is_among(key, UPPER_LIMITS):
        return bool(given > shipped)
    if isinstance(shipped, int | float) and is_among(key, LOWER_LIMITS):
        return bool(given < shipped)
    return True


def _told(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else shown(value)


def _weaker_list(path: str, wanted: Sequence[Any], given: Sequence[Any]) -> Iterator[str]:
    """Yield which entries a list lacks, or has with less; entries beside the shipped ones ask for more."""
    if path in _PLACES:
        yield from _weaker_places(path, wanted, given)
    elif path in _BY_NODES:
        yield from _weaker_by_nodes(path, wanted, given)
    elif path == "dcgm.required":
        yield from _weaker_levels(path, wanted, given)
    elif path in _NAMED_BY:
        yield from _weaker_entries(path, wanted, given)
    elif missing := [each for each in wanted if each not in given]:
        yield f"{path} lacks {', '.join(map(str, missing))}"


def _weaker_entries(path: str, shipped: Sequence[_Entry], own: Sequence[_Entry]) -> Iterator[str]:
    for wanted in shipped:
        told = " ".join(str(wanted[name]) for name in _NAMED_BY[path])
        given = [each for each in own if all(each[name] == wanted[name] for name in _NAMED_BY[path])]
        if not given:
            yield f"{path} has none for {told}"
        for each in given:
            yield from weaker_values(wanted, each, f"{path}[{told}].")


def _weaker_levels(path: str, shipped: Sequence[_Entry], own: Sequence[_Entry]) -> Iterator[str]:
    """Yield which tests a level does not ask for; it asks for those of the levels below it too."""
    for wanted in shipped:
        asked = [test for each in own if each["level"] <= wanted["level"] for test in each["tests"]]
        if missing := [test for test in wanted["tests"] if test not in asked]:
            yield f"{path} lacks {', '.join(missing)} at level {wanted['level']}"


def _weaker_by_nodes(path: str, shipped: Sequence[_Entry], own: Sequence[_Entry]) -> Iterator[str]:
    """Yield what holds less for groups of some size: an entry for more nodes takes the place of one for fewer."""
    kinds = dict.fromkeys(tuple(each[name] for name in _GROUP) for each in (*shipped, *own))
    for kind in kinds:
        wanted, given = _holding(shipped, *kind), _holding(own, *kind)
        if wanted is None:
            continue
        told = " ".join(map(str, kind))
        if given is None:
            yield f"{path} has none for {told}"
        else:
            yield from weaker_values(wanted, {**given, "nodes_min": wanted["nodes_min"]}, f"{path}[{told}].")


def _holding(limits: Sequence[_Entry], collective: str, nodes: int, size_bytes: int) -> _Entry | None:
    """Return the limit for a group of so many nodes; one that is inside a node holds for no other."""
    known = [
        each
        for each in limits
        if (each["collective"], each["size_bytes"]) == (collective, size_bytes)
        and each["nodes_min"] <= nodes
        and (each["nodes_min"] > 1 or nodes == 1)
    ]
    return max(known, key=lambda each: int(each["nodes_min"]), default=None)


def _weaker_places(path: str, shipped: Sequence[_Entry], own: Sequence[_Entry]) -> Iterator[str]:
    """Yield whether there are fewer parts, of how many something is not declared, and what is less of the least."""
    if len(own) < len(shipped):
        yield f"{path} has {len(own)} entries, shipped {len(shipped)}"
    for name in shipped[0] if shipped else ():
        wanted = [each[name] for each in shipped if each[name] is not None]
        given = [each[name] for each in own if each[name] is not None]
        if len(given) < min(len(wanted), len(own)):
            yield f"{path} has {len(given)} entries with {name}, shipped {len(wanted)}"
        if given and wanted and name not in _PLACES[path] and min(given) < min(wanted):
            yield f"{path}.{name} is {_told(min(given))}, shipped {_told(min(wanted))}"


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
