"""Latency profiles: how long a small collective may take in groups as large as those that serve one model.

A model that is served does not fit one host; 16, 32 or 64 GPUs answer together, and every token waits for two
all-reduces in each layer. What such a mini-cluster is worth is its p99 at 64 KiB to 1 MiB, not its bandwidth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ansible_collections.muster.cluster.plugins.module_utils.finding import INCOMPLETE, PASS, Finding

CHECK = "mini_cluster_latency"
UNIT = "us"
_NAMED = 4


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
    collective: str
    sizes_bytes: tuple[int, ...]
    limits: Mapping[int, float]

    @classmethod
    def from_policy(cls, policy: Mapping[str, Any]) -> LatencyProfile | None:
        """Return the profile that a validated policy asks for, None where it asks for none."""
        name = policy.get("latency_profile")
        if name is None:
            return None
        data = policy["latency_profiles"][name]
        limits = {int(limit["gpus"]): float(limit["microseconds"]) for limit in data["limits"]}
        return cls(name, data["collective"], tuple(data["sizes_bytes"]), dict(sorted(limits.items())))


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


def disjoint_groups(
    nodes: Iterable[str], places: Mapping[str, Mapping[str, Any]], each: int
) -> tuple[tuple[tuple[str, ...], ...], ...]:
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


def latency_moves(
    group: Sequence[str], places: Mapping[str, Mapping[str, Any]], profile: LatencyProfile, ranks_per_node: int
) -> list[dict[str, Any]]:
    """Return the moves, but for iterations, warmup and seconds, by which a job of ``group`` measures the profile.

    A size of mini-cluster that is no whole number of nodes, or larger than the job, has none.
    """
    at = {node: index for index, node in enumerate(group)}
    moves = []
    for gpus in profile.limits:
        if gpus % ranks_per_node:
            continue
        for number, groups in enumerate(disjoint_groups(group, places, gpus // ranks_per_node), 1):
            moves.append(
                {
                    "name": f"{profile.name}_{gpus}_{number}",
                    "kind": "groups",
                    "collective": profile.collective,
                    "sizes": list(profile.sizes_bytes),
                    "groups": [[at[node] for node in members] for members in groups],
                }
            )
    return moves


def latency_findings(
    members: Iterable[str], measured: Iterable[Timed], profile: LatencyProfile
) -> dict[str, tuple[Finding, ...]]:
    """Return by node one finding for each size of mini-cluster.

    A node passes once groups that it was in kept the limit at every message size. A group that did not accuses all of
    its members and convicts none: they are ``incomplete``, as is who was not measured.
    """
    best: dict[tuple[str, int, int], Timed] = {}
    for one in measured:
        if one.collective != profile.collective or one.ranks not in profile.limits:
            continue
        for node in one.nodes:
            key = (node, one.ranks, one.size)
            if key not in best or not _time(best[key]) <= _time(one):
                best[key] = one
    return {
        node: tuple(_finding(node, gpus, limit, profile, best) for gpus, limit in profile.limits.items())
        for node in members
    }


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


def _finding(
    node: str,
    gpus: int,
    limit: float,
    profile: LatencyProfile,
    best: Mapping[tuple[str, int, int], Timed],
) -> Finding:
    subject = f"mini-cluster of {gpus} GPUs"
    missing = [size for size in profile.sizes_bytes if (node, gpus, size) not in best]
    if missing:
        reason = f"{_name(profile)} of {missing[0]} B in {gpus} GPUs was not measured with it"
        return Finding(CHECK, subject, INCOMPLETE, None, limit, UNIT, reason, "investigate")
    worst = max((best[node, gpus, size] for size in profile.sizes_bytes), key=_time)
    others = [other for other in worst.nodes if other != node]
    named = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
    told = f"{_name(profile)} of {worst.size} B with {named}" if others else f"{_name(profile)} of {worst.size} B"
    if not math.isfinite(_time(worst)):
        return Finding(CHECK, subject, INCOMPLETE, None, limit, UNIT, f"{told} did not finish", "investigate")
    measured = float(f"{_time(worst):.4g}")
    if _time(worst) <= limit:
        return Finding(CHECK, subject, PASS, measured, limit, UNIT, told)
    reason = f"{told}: p99 above the limit, which blames the group and nobody in it"
    return Finding(CHECK, subject, INCOMPLETE, measured, limit, UNIT, reason, "investigate")


def _name(profile: LatencyProfile) -> str:
    return profile.collective.replace("_", "-")


def _time(one: Timed) -> float:
    """Return microseconds, infinite where the group did not finish."""
    return one.p99 / 1e3 if math.isfinite(one.p99) else math.inf


def _place(places: Mapping[str, Mapping[str, Any]], node: str) -> tuple[str, str]:
    place = places.get(node, {})
    return str(place.get("pod") or ""), str(place.get("rack") or "")
