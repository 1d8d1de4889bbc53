"""How groups of nodes did together, and each node by itself: against limits of the class, the baseline, like groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import (
    UNIT,
    Settings,
    bus_bandwidth,
    size_text,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import GroupResult, Matrix
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.view import LEAST_SPREAD, MAD_SIGMA

# An outlier by the modified z-score (numbers.md section 9) lies 3.5 deviations out, of normal noise. The slowest of
# many ranks strays farther: of 8 it passes 3.5 once in 600 times, 5 once in 20,000.
OUTLIER = 5.0


@dataclass(frozen=True)
class Part:
    """One collective at one size, judged; ``slowdown`` is by what part it is worse than ``expected``.

    Without ``expected`` there is nothing to judge it by. ``certain``: by a limit; like groups tell the second time.
    """

    check: str
    measured: float
    expected: float | None
    unit: str
    text: str
    slowdown: float
    bad: bool
    certain: bool = True


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


def judged_groups(matrix: Matrix, settings: Settings, kind: str) -> list[Judged]:
    """Return how every group (``groups``) or node by itself (``inside``) did, in the order of rounds and levels."""
    found: dict[tuple[int, str, tuple[str, ...]], list[GroupResult]] = {}
    alike: dict[tuple[int, str, int, int], list[float]] = {}
    for result in matrix.groups:
        if result.kind != kind or not result.collective:
            continue
        level = result.move.split(":", maxsplit=1)[0]
        found.setdefault((result.number, level, result.nodes), []).append(result)
        like = (result.number, result.move, result.size_bytes, len(result.nodes))
        alike.setdefault(like, []).append(_bandwidth(result, settings))
    usual = {like: _usual(speeds, settings) for like, speeds in alike.items() if len(speeds) >= settings.cohort.peers}
    judged = []
    before: set[tuple[str, tuple[str, ...]]] = set()
    owed = len(settings.groups.collectives) * len(settings.groups.sizes_bytes)
    for (number, level, nodes), results in found.items():
        parts = []
        for result in results:
            like = (result.number, result.move, result.size_bytes, len(result.nodes))
            parts += _parts(result, usual.get(like), len(alike[like]), settings)
        whole = level != "all" or len({(each.collective, each.size_bytes) for each in results}) == owed
        whole = whole and not matrix.broken(number, nodes[0])
        judged.append(Judged(number, level, nodes, tuple(parts), whole, (level, nodes) in before))
        if any(part.bad for part in parts):
            before.add((level, nodes))
    return judged


def _bandwidth(result: GroupResult, settings: Settings) -> float:
    ranks = len(result.nodes) * settings.ranks_per_node
    return bus_bandwidth(result.collective, ranks, result.size_bytes, result.seconds)


def _usual(speeds: Sequence[float], settings: Settings) -> float:
    """Return the least that a group may reach whose likes reached these."""
    middle = float(np.median(speeds))
    spread = max(MAD_SIGMA * float(np.median(np.abs(np.array(speeds) - middle))), LEAST_SPREAD * middle)
    return min(middle * (1 - settings.cohort.margin), middle - OUTLIER * spread)


def _parts(result: GroupResult, usual: float | None, alike: int, settings: Settings) -> list[Part]:
    nodes, size = len(result.nodes), result.size_bytes
    speed = _bandwidth(result, settings)
    what = f"{result.collective.replace('_', '-')} of {size_text(size)}"
    margin = settings.cohort.margin
    limits = []
    floor = settings.floor(result.collective, nodes, size)
    if floor is not None:
        limits.append((floor, "the class' floor"))
    adopted = settings.baseline.get((result.collective, nodes, size))
    if adopted is not None:
        limits.append((adopted * (1 - margin), "the adopted baseline"))
    hard = max((limit for limit, _by in limits), default=None)
    if usual is not None:
        limits.append((usual, f"{alike} groups like it"))
    expected, by = max(limits, default=(None, ""))
    less = 0.0 if expected is None else 1 - speed / expected
    text = f"{what} reached {speed:.3g} {UNIT}" + (f", {expected:.3g} by {by}" if expected is not None else "")
    parts = [
        Part(
            "group_bandwidth",
            _short(speed),
            expected and _short(expected),
            UNIT,
            text,
            less,
            less > 0,
            hard is not None and speed < hard,
        )
    ]
    ceiling = settings.ceiling(result.collective, nodes, size)
    if ceiling is not None:
        took = result.p99 * 1e6
        text = f"{what} took {took:.4g} us (99 %), at most {ceiling:g} by the class"
        parts.append(Part("group_latency", _short(took), ceiling, "us", text, took / ceiling - 1, took > ceiling))
    return parts


def _short(value: float) -> float:
    return float(f"{value:.4g}")
