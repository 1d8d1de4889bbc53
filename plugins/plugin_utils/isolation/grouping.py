"""How groups of nodes did together, and each node by itself: against limits of the class, the baseline, like groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import LEAST_SPREAD, MAD_SIGMA
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import (
    UNIT,
    Settings,
    bus_bandwidth,
    size_text,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import GroupResult, Matrix

# An outlier by the modified z-score (numbers.md section 9) lies 3.5 deviations out, of normal noise. The slowest of
# many ranks strays farther: of 8 it passes 3.5 once in 600 times, 5 once in 20,000.
OUTLIER = 5.0


@dataclass(frozen=True)
class Part:
    """One collective at one size, judged; ``slowdown`` is by what part it is worse than ``expected``.

    Without ``expected`` there is nothing to judge it by. ``by`` says what does. ``certain``: by a limit; like groups
    tell the second time.
    """

    check: str
    collective: str
    size_bytes: int
    value: float
    limit: float | None
    by: str
    slowdown: float
    bad: bool
    certain: bool = True

    @property
    def measured(self) -> float:
        return float(f"{self.value:.4g}")

    @property
    def expected(self) -> float | None:
        if self.check == "group_latency" or not self.limit:
            return self.limit
        return float(f"{self.limit:.4g}")

    @property
    def unit(self) -> str:
        return "us" if self.check == "group_latency" else UNIT

    @property
    def text(self) -> str:
        """Return in words what was measured, and what it is judged by."""
        what = f"{self.collective.replace('_', '-')} of {size_text(self.size_bytes)}"
        if self.check == "group_latency":
            return f"{what} took {self.value:.4g} us (99 %), at most {self.limit:g} by the class"
        told = f"{what} reached {self.value:.3g} {UNIT}"
        return told if self.limit is None else f"{told}, {self.limit:.3g} by {self.by}"


@dataclass(frozen=True)
class Judged:
    """One group in one round; ``whole``: everything that was asked of it is there, and its job ended well."""

    number: int
    level: str
    nodes: tuple[str, ...]
    parts: tuple[Part, ...]
    whole: bool
    twice: bool = False

    @property
    def bad(self) -> bool:
        """Return whether it is bad for certain: by a limit, or by its likes in two rounds."""
        return any(part.bad and (part.certain or self.twice) for part in self.parts)

    @property
    def doubtful(self) -> bool:
        """Return whether it is worse than its likes, seen once."""
        return not self.bad and any(part.bad for part in self.parts)

    def worst(self, check: str = "") -> Part | None:
        """Return the part that is worst against what it is judged by, of one check or of all."""
        parts = [part for part in self.parts if part.check == check or not check]
        return max(parts, key=lambda part: (part.bad, part.expected is not None, part.slowdown), default=None)

    @property
    def judged(self) -> bool:
        """Return whether there was anything to judge it by."""
        return any(part.expected is not None for part in self.parts)

    @property
    def check(self) -> str:
        return worst.check if (worst := self.worst()) else "group_bandwidth"

    @property
    def text(self) -> str:
        return f"{len(self.nodes)} nodes together: {worst.text}" if (worst := self.worst()) else "nothing measured"

    @property
    def measured(self) -> float | None:
        return worst.measured if (worst := self.worst()) else None

    @property
    def expected(self) -> float | None:
        return worst.expected if (worst := self.worst()) else None

    @property
    def unit(self) -> str:
        return worst.unit if (worst := self.worst()) else ""

    @property
    def slowdown(self) -> float:
        return worst.slowdown if (worst := self.worst()) else 0.0


def possible(matrix: Matrix, settings: Settings) -> Matrix:
    """Return the matrix without groups that were faster than what carries their data, whose nodes cannot be read."""
    most = settings.most_gb_per_s
    if most is None:
        return matrix
    groups, unreadable = [], dict(matrix.unreadable)
    for group in matrix.groups:
        speed = _bandwidth(group, settings) if group.collective else 0.0
        if speed <= most:
            groups.append(group)
            continue
        what = f"round {group.number}: {group.phase} of {size_text(group.size_bytes)}"
        why = f"{what} reached {speed:.4g} {UNIT}, which NVLinks and PCIe do not carry ({most:.4g} at most)"
        for node in group.nodes:
            unreadable.setdefault(node, why)
    return replace(matrix, groups=groups, unreadable=unreadable)


def judged_groups(matrix: Matrix, settings: Settings, kind: str) -> list[Judged]:
    """Return how every group (``groups``) or node by itself (``inside``) did, in the order of rounds and levels."""
    found: dict[tuple[int, str, tuple[str, ...]], list[tuple[GroupResult, float]]] = {}
    alike: dict[tuple[int, str, int, int], list[float]] = {}
    for result in matrix.groups:
        if result.kind != kind or not result.collective:
            continue
        speed = _bandwidth(result, settings)
        level = result.phase.split(":", maxsplit=1)[0]
        found.setdefault((result.number, level, result.nodes), []).append((result, speed))
        alike.setdefault(_like(result), []).append(speed)
    limits: dict[tuple[int, str, int, int], tuple[Any, Any]] = {}
    judged = []
    before: set[tuple[str, tuple[str, ...]]] = set()
    owed = len(settings.groups.collectives) * len(settings.groups.sizes_bytes)
    for (number, level, nodes), results in found.items():
        parts = []
        for result, speed in results:
            like = _like(result)
            if like not in limits:
                speeds, what = alike[like], (result.collective, len(nodes), result.size_bytes)
                usual = _usual(speeds, settings) if len(speeds) >= settings.cohort.peers else None
                limits[like] = _limits(what, usual, len(speeds), settings), settings.ceiling(*what)
            parts += _parts(result, speed, *limits[like])
        whole = level != "all" or len({(each.collective, each.size_bytes) for each, _speed in results}) == owed
        whole = whole and not matrix.broken(number, nodes[0])
        judged.append(Judged(number, level, nodes, tuple(parts), whole, (level, nodes) in before))
        if any(part.bad for part in parts):
            before.add((level, nodes))
    return judged


def _like(result: GroupResult) -> tuple[int, str, int, int]:
    """Return what groups have in common that are held against each other."""
    return result.number, result.phase, result.size_bytes, len(result.nodes)


def _bandwidth(result: GroupResult, settings: Settings) -> float:
    ranks = len(result.nodes) * settings.ranks_per_node
    return bus_bandwidth(result.collective, ranks, result.size_bytes, result.seconds)


def _usual(speeds: Sequence[float], settings: Settings) -> float:
    """Return the least that a group may reach whose likes reached these."""
    middle = float(np.median(speeds))
    spread = max(MAD_SIGMA * float(np.median(np.abs(np.array(speeds) - middle))), LEAST_SPREAD * middle)
    return min(middle * (1 - settings.cohort.margin), middle - OUTLIER * spread)


def _parts(
    result: GroupResult, speed: float, limits: tuple[float | None, str, float | None], ceiling: float | None
) -> list[Part]:
    """Return the judged parts of a result; ``limits`` are the least speed, by what, and what is a limit for certain."""
    expected, by, hard = limits
    less = 0.0 if expected is None else 1 - speed / expected
    about = result.collective, result.size_bytes
    certain = hard is not None and speed < hard
    parts = [Part("group_bandwidth", *about, speed, expected, by, less, less > 0, certain)]
    if ceiling is not None:
        took = result.p99 * 1e6
        parts.append(Part("group_latency", *about, took, ceiling, "", took / ceiling - 1, took > ceiling))
    return parts


def _limits(
    like: tuple[str, int, int], usual: float | None, alike: int, settings: Settings
) -> tuple[float | None, str, float | None]:
    """Return the least speed of groups of one collective, number of nodes and size, by what, and a certain limit."""
    limits = []
    floor = settings.floor(*like)
    if floor is not None:
        limits.append((floor, "the class' floor"))
    adopted = settings.baseline.get(like)
    if adopted is not None:
        limits.append((adopted * (1 - settings.cohort.margin), "the adopted baseline"))
    hard = max((limit for limit, _by in limits), default=None)
    if usual is not None:
        limits.append((usual, f"{alike} groups like it"))
    return (*max(limits, default=(None, "")), hard)
