"""Latency profiles: how long a small collective may take in groups as large as those that serve one model.

A model that is served does not fit one host; 16, 32 or 64 GPUs answer together, and every token waits for two
all-reduces in each layer. What such a mini-cluster is worth is its p99 at 64 KiB to 1 MiB, not its bandwidth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import (
    Collective,
    Expectations,
    MiniClusterLimit,
    MiniClusters,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import shown
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError

# Disjoint groups of nodes that run at the same time.
Groups = tuple[tuple[str, ...], ...]
# How the phases of mini-clusters are named, whatever the profile is called: "mini_cluster:16:1".
PHASE_PREFIX = "mini_cluster:"


class Timed(Protocol):
    """One collective of one group: ``p99`` is its slowest rank's in nanoseconds, NaN where one did not finish."""

    @property
    def nodes(self) -> tuple[str, ...]: ...

    @property
    def ranks(self) -> int: ...

    @property
    def collective(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def p99(self) -> float: ...


@dataclass(frozen=True)
class LatencyProfile:
    """What ``policy.latency_profile`` names: ``limits`` is the p99 in microseconds by number of GPUs."""

    name: str
    collective: Collective
    sizes_bytes: tuple[int, ...]
    limits: Mapping[int, float]

    @classmethod
    def of(cls, section: MiniClusters | None) -> LatencyProfile | None:
        """Return the profile in a class' ``mini_clusters`` expectations, None where nothing is asked of it."""
        if section is None:
            return None
        limits = {limit.gpus: float(limit.microseconds) for limit in section.limits}
        return cls(section.profile, section.collective, section.sizes_bytes, dict(sorted(limits.items())))

    def expected(self) -> MiniClusters:
        """Return the section from which ``of`` makes the profile."""
        limits = tuple(MiniClusterLimit(gpus, time) for gpus, time in self.limits.items())
        return MiniClusters(self.name, self.collective, self.sizes_bytes, limits)


def with_mini_clusters(expect: Expectations, profile: LatencyProfile | None, nodes: int, file: str) -> Expectations:
    """Return the expectations of a class, of which the fleet has ``nodes``, with its mini-clusters.

    Null where no profile is asked for, or the fleet has no such node. Raises FleetError where not every size of
    mini-cluster can be measured with nodes of the class.
    """
    if profile is None or not nodes:
        return replace(expect, mini_clusters=None)
    name, collective = expect.class_, expect.collective
    key, each = "policy.latency_profile", collective.ranks_per_node
    for gpus in profile.limits:
        found = f"{shown(profile.name)} with {gpus} GPUs"
        if gpus % each:
            raise FleetError(file, key, found, f"multiples of {each}, as a node of class {name} has {each} ranks")
        if gpus > nodes * each:
            most = f"at most {nodes * each}, as there are {nodes} nodes of class {name} with {each} ranks each"
            raise FleetError(file, key, found, most)
    if collective.driver != "torch":
        found = f"{shown(profile.name)} with hardware_classes.{name}.collective.driver {collective.driver}"
        raise FleetError(file, key, found, "driver torch, which times every iteration")
    return replace(expect, mini_clusters=profile.expected())


@dataclass(frozen=True)
class LatencyRow:
    """How the mini-clusters of one size did at one message size; times are microseconds, None if none was measured."""

    gpus: int
    size_bytes: int
    groups: int
    median_microseconds: float | None
    worst_microseconds: float | None
    limit_microseconds: float
    worst_nodes: tuple[str, ...]
    said: str


def disjoint_groups(nodes: Iterable[str], places: Mapping[str, Mapping[str, Any]], each: int) -> tuple[Groups, ...]:
    """Return permutations of disjoint groups of ``each`` nodes that together hold every node, none for too few nodes.

    Groups stay within a rack as far as racks go round, then within a pod. Who is left over gets a group in the second
    permutation, filled up with the nearest of the others.
    """
    ordered = sorted(nodes, key=lambda node: (*_place(places, node), node))
    if each < 1 or len(ordered) < each:
        return ()
    groups: list[tuple[str, ...]] = []
    left = ordered
    for depth in (2, 1, 0):
        rest: list[str] = []
        blocks: dict[tuple[str, ...], list[str]] = {}
        for node in left:
            blocks.setdefault(_place(places, node)[:depth], []).append(node)
        for block in blocks.values():
            whole = len(block) - len(block) % each
            groups += [tuple(block[start : start + each]) for start in range(0, whole, each)]
            rest += block[whole:]
        left = rest
    if not left:
        return (tuple(groups),)

    def apart(node: str) -> tuple[bool, bool, str]:
        mine, theirs = _place(places, node), {_place(places, other) for other in left}
        return mine not in theirs, mine[0] not in {other[0] for other in theirs}, node

    fill = sorted(set(ordered) - set(left), key=apart)[: each - len(left)]
    return tuple(groups), (tuple(sorted((*left, *fill), key=ordered.index)),)


def latency_phases(
    job: Sequence[str], permutations: Mapping[int, Sequence[Groups]], profile: LatencyProfile
) -> list[dict[str, Any]]:
    """Return the phases, but for iterations, warmup and seconds, by which a job measures these groups.

    ``permutations`` has, by number of GPUs, what runs one after the other.
    """
    at = {node: index for index, node in enumerate(job)}
    return [
        {
            "name": f"{PHASE_PREFIX}{gpus}:{number}",
            "kind": "groups",
            "collective": profile.collective,
            "sizes": list(profile.sizes_bytes),
            "groups": [[at[node] for node in members] for members in groups],
        }
        for gpus, wanted in permutations.items()
        for number, groups in enumerate(wanted, 1)
    ]


def latency_rows(measured: Iterable[Timed], profile: LatencyProfile) -> list[LatencyRow]:
    """Return one row for each size of mini-cluster and message size, measured or not."""
    found: dict[tuple[int, int], list[Timed]] = {}
    for one in measured:
        if one.collective == profile.collective:
            found.setdefault((one.ranks, one.size), []).append(one)
    rows = []
    for gpus, limit in profile.limits.items():
        for size in profile.sizes_bytes:
            groups = found.get((gpus, size), [])
            if not groups:
                rows.append(LatencyRow(gpus, size, 0, None, None, limit, (), "not measured"))
                continue
            worst = max(groups, key=_time)
            times = [_time(one) for one in groups]
            above = sum(time > limit for time in times)
            said = f"not in {above} of {len(groups)}" if above else "yes"
            finite = [time for time in times if math.isfinite(time)]
            rows.append(
                LatencyRow(
                    gpus,
                    size,
                    len(groups),
                    statistics.median(finite) if finite else None,
                    _time(worst) if math.isfinite(_time(worst)) else None,
                    limit,
                    worst.nodes,
                    said,
                )
            )
    return rows


def _time(one: Timed) -> float:
    """Return microseconds, infinite where the group did not finish."""
    return one.p99 / 1e3 if math.isfinite(one.p99) else math.inf


def _place(places: Mapping[str, Mapping[str, Any]], node: str) -> tuple[str, str]:
    place = places.get(node, {})
    return str(place.get("pod") or ""), str(place.get("rack") or "")
