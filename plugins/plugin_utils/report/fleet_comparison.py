"""Two fleets beside each other: what each measured, by collective, nodes, distance and size, and what differs.

What one fleet measured is a summary that can be written down and carried to where the other one is known.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import bus_bandwidth
from ansible_collections.muster.cluster.plugins.plugin_utils.report.compared import DISTANCES, Places, distances
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import (
    SENDRECV,
    TRAIN,
    Measured,
)

FORMAT = "muster-acceptance-1"
# Below this size a time is what counts, from here on a bandwidth.
LATENCY_BYTES = 2**20
# MAD of a normal distribution; tight hardware measures like its clock, so half a percent is the least (numbers.md, 9).
SIGMA, LEAST_SPREAD = 1.4826, 0.005
# From so few values no spread can be told.
FEW = 3


class ComparisonError(MusterError, ValueError):
    """Two things that cannot be compared, or one that cannot be read: says what was found and what was expected."""


@dataclass(frozen=True)
class Value:
    """What one fleet measured of one thing: ``n`` medians of pairs or groups, their median and robust sigma.

    ``median_ns`` and ``p99_ns`` are of the slowest rank in nanoseconds, ``spread`` is a part of the median, None where
    too few were measured to tell. ``distance`` is empty but for pairs; ``size`` in bytes, 0 for a training step.
    """

    collective: str
    nodes: int
    ranks: int
    distance: str
    size: int
    n: int
    median_ns: float
    p99_ns: float
    spread: float | None

    @property
    def key(self) -> tuple[str, int, int, str, int]:
        """Return what has to be the same in both fleets."""
        return self.collective, self.nodes, self.ranks, self.distance, self.size

    @property
    def gb_per_s(self) -> float:
        """Return bus bandwidth as nccl-tests defines it; for pairs that of a rail."""
        return bus_bandwidth(self.collective, self.ranks, self.size, self.median_ns / 1e9)


@dataclass(frozen=True)
class Summary:
    """One fleet: its values by hardware class. ``fabric`` is its kind as declared."""

    cluster: str
    fabric: str
    classes: Mapping[str, tuple[Value, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as an exported file holds it."""
        classes = {name: [asdict(value) for value in values] for name, values in self.classes.items()}
        return {"format": FORMAT, "cluster": self.cluster, "fabric": self.fabric, "classes": classes}

    @classmethod
    def from_dict(cls, data: Any, where: str) -> Summary:
        """Return the summary in an exported file; raises ComparisonError."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            found = data.get("format") if isinstance(data, Mapping) else type(data).__name__
            raise ComparisonError(f"{where}: format {found!r}, expected {FORMAT!r}, which the report writes")
        classes = data.get("classes")
        if not isinstance(classes, Mapping):
            raise ComparisonError(f"{where}: classes is {type(classes).__name__}, expected a mapping")
        found_classes = {}
        for name, values in classes.items():
            if not isinstance(values, list):
                raise ComparisonError(f"{where}: classes.{name} is {type(values).__name__}, expected a list")
            found_classes[str(name)] = tuple(
                _value(value, f"{where}: classes.{name}[{index}]") for index, value in enumerate(values)
            )
        return cls(str(data.get("cluster", "")), str(data.get("fabric", "")), found_classes)


@dataclass(frozen=True)
class Compared:
    """One thing that both measured; ``ratio`` is how many times as fast the right one is.

    ``differs``: by more than the larger of both spreads; None where there is no spread to tell by.
    """

    hardware_class: str
    left: Value
    right: Value
    ratio: float
    spread: float | None
    differs: bool | None


@dataclass(frozen=True)
class Comparison:
    """Both fleets; ``notes`` say what only one of them has."""

    left: Summary
    right: Summary
    rows: tuple[Compared, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as plain data."""
        return {
            "left": self.left.cluster,
            "right": self.right.cluster,
            "notes": list(self.notes),
            "rows": [
                {
                    "hardware_class": row.hardware_class,
                    "collective": row.left.collective,
                    "nodes": row.left.nodes,
                    "distance": row.left.distance,
                    "size_bytes": row.left.size,
                    "left_ns": row.left.median_ns,
                    "right_ns": row.right.median_ns,
                    "ratio": round(row.ratio, 4),
                    "spread": row.spread,
                    "differs": row.differs,
                    "n": [row.left.n, row.right.n],
                }
                for row in self.rows
            ],
        }


def values_of(measured: Measured, places: Places) -> tuple[Value, ...]:
    """Return what a campaign measured, by collective, nodes, distance and size."""
    found: list[Value] = []
    between = distances(measured, places)
    for pairs in measured.pairs:
        # One value for each pair: the median over its rails.
        known = numpy.isfinite(pairs.ns).all(axis=1)
        middle, tail = numpy.median(pairs.ns[known], axis=1), pairs.p99[known]
        for at, distance in enumerate(DISTANCES):
            mine = between[pairs.size][known] == at
            if mine.any():
                rails = 2 * pairs.ns.shape[1]
                found.append(_summed((SENDRECV, 2, rails, distance, pairs.size), middle[mine], tail[mine]))
    grouped: dict[tuple[str, int, int, str, int], list[tuple[float, float]]] = {}
    for group in measured.groups:
        if math.isfinite(group.ns) and math.isfinite(group.p99):
            key = (group.collective, len(group.nodes), group.ranks, "", group.size)
            grouped.setdefault(key, []).append((group.ns, group.p99))
    found += [_summed(key, [one for one, _ in times], [two for _, two in times]) for key, times in grouped.items()]
    return tuple(sorted(found, key=lambda value: value.key))


def _summed(key: tuple[str, int, int, str, int], times: Sequence[float], tails: Sequence[float]) -> Value:
    median = float(numpy.median(times))
    spread = None
    if len(times) >= FEW:
        sigma = SIGMA * float(numpy.median(numpy.abs(numpy.asarray(times) - median)))
        spread = max(LEAST_SPREAD, sigma / median)
    return Value(*key, len(times), median, float(numpy.median(tails)), spread)


def compare(left: Summary, right: Summary) -> Comparison:
    """Return both fleets' common measurements side by side; raises ComparisonError where they have none."""
    for side in (left, right):
        if not any(side.classes.values()):
            raise ComparisonError(f"{side.cluster}: no acceptance measurements are recorded, nothing to compare")
    common = sorted(set(left.classes) & set(right.classes))
    if not common:
        raise ComparisonError(
            f"{left.cluster} has measurements of {_listed(left.classes)}, {right.cluster} of {_listed(right.classes)}: "
            "nodes of different hardware classes are not comparable"
        )
    notes = [
        f"{side.cluster} alone has nodes of {_listed(alone)}"
        for side, alone in ((left, set(left.classes) - set(common)), (right, set(right.classes) - set(common)))
        if alone
    ]
    rows: list[Compared] = []
    for name in common:
        mine, theirs = ({value.key: value for value in side.classes[name]} for side in (left, right))
        rows += [_compared(name, mine[key], theirs[key]) for key in sorted(mine.keys() & theirs.keys())]
        for side, alone in ((left, mine.keys() - theirs.keys()), (right, theirs.keys() - mine.keys())):
            if alone:
                notes.append(f"{side.cluster} alone measured {_things(alone)} of {name}")
    if not rows:
        raise ComparisonError(
            f"{left.cluster} and {right.cluster} measured nothing alike of {_listed(common)}: {'; '.join(notes)}"
        )
    return Comparison(left, right, tuple(rows), tuple(notes))


def _compared(name: str, left: Value, right: Value) -> Compared:
    ratio = left.median_ns / right.median_ns
    if left.spread is None or right.spread is None:
        return Compared(name, left, right, ratio, None, None)
    spread = max(left.spread, right.spread)
    return Compared(name, left, right, ratio, spread, abs(ratio - 1) > spread)


def _things(keys: Iterable[tuple[str, int, int, str, int]]) -> str:
    """Return what was measured in few words: collectives with their numbers of nodes."""
    found: dict[str, set[int]] = {}
    for key in keys:
        found.setdefault(key[0].replace("_", "-"), set()).add(key[1])
    return ", ".join(f"{name} ({_numbers(nodes)} nodes)" for name, nodes in sorted(found.items()))


def _numbers(nodes: Iterable[int]) -> str:
    return ", ".join(str(count) for count in sorted(nodes))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no class"


def _value(data: Any, where: str) -> Value:
    if not isinstance(data, Mapping):
        raise ComparisonError(f"{where} is {type(data).__name__}, expected a mapping")
    texts = {key: data.get(key) for key in ("collective", "distance")}
    for key, text in texts.items():
        if not isinstance(text, str):
            raise ComparisonError(f"{where}.{key} is {text!r}, expected text")
    wholes = {key: data.get(key) for key in ("nodes", "ranks", "size", "n")}
    for key, number in wholes.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < (key != "size"):
            raise ComparisonError(f"{where}.{key} is {number!r}, expected a whole number")
    times = {key: data.get(key) for key in ("median_ns", "p99_ns", "spread")}
    for key, time in times.items():
        if key == "spread" and time is None:
            continue
        if isinstance(time, bool) or not isinstance(time, (int, float)) or not (math.isfinite(time) and time > 0):
            raise ComparisonError(f"{where}.{key} is {time!r}, expected a number above 0")
    if not wholes["size"] and texts["collective"] != TRAIN:
        raise ComparisonError(f"{where}.size is 0, expected the size of {texts['collective']}")
    return Value(**{**texts, **wholes, **times})  # type: ignore[arg-type]


def typical_ratio(comparison: Comparison, collective: str) -> float:
    """Return the geometric mean of a collective's ratios: twice and half as fast together are no difference."""
    ratios = [row.ratio for row in comparison.rows if row.left.collective == collective]
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
