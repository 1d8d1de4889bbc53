"""The figures of one campaign: pairs as a heat map, bandwidth and time over size, iterations of the slowest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import size_text
from ansible_collections.muster.cluster.plugins.plugin_utils.report import plots
from ansible_collections.muster.cluster.plugins.plugin_utils.report.compared import (
    DISTANCES,
    SLOW,
    Array,
    Places,
    bus_bandwidth,
    distances,
    nan_median,
    node_shares,
    shares,
    slow_only_together,
    slowest,
    usual_gb_per_s,
    usual_said,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import TRAIN, Group, Measured, Pairs
from ansible_collections.muster.cluster.plugins.plugin_utils.report.plots import Axes, Bands, Line, Marks
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import counting_order
from markupsafe import Markup

# Cells a side that are tried: with more than the first, one is smaller than a dot on a screen.
CELLS = (256, 192, 128, 96, 64)
# The part of a heat map's cells that should hold something.
FILLED = 0.8
CURVES_AT_MOST = 8
MARKS_AT_MOST = 12
ROWS_AT_MOST = 12


@dataclass(frozen=True)
class Figure:
    """A plot with what it tells; ``wide`` ones have a row for themselves."""

    title: str
    svg: Markup
    caption: str
    wide: bool = False
    image: bool = False


def figures_of(measured: Measured, places: Places, name: str) -> list[Figure]:
    """Return what can be drawn; ``name`` is unique on the page. Raises PlotError."""
    figures: list[Figure] = []
    if measured.pairs:
        figures.append(_heat(measured, places, f"{name}-heat"))
        distance = distances(measured, places)
        figures += _by_distance(measured.pairs, distance, name)
        figures += _by_rail(measured.pairs, name)
    figures += _by_collective(measured.groups, name)
    if measured.spread:
        figures += _spread(measured, name)
    return figures


@dataclass(frozen=True)
class Cells:
    """A heat map before it is drawn: ``values`` (c, c), the worst share in each cell; ``each`` says what a cell is."""

    values: Array
    bands: Bands
    each: str
    # (n,) the cell of each node, by its position in what was measured.
    row: Array


def heat_cells(measured: Measured, pairs: Pairs, places: Places) -> Cells:
    """Return the heat map of a size, in the order of pods, racks and nodes, in at most 256 cells a side."""
    names = sorted(
        measured.nodes,
        key=lambda node: (
            *(counting_order(str(places.get(node, {}).get(key) or "")) for key in ("pod", "rack")),
            counting_order(node),
        ),
    )
    pod = [str(places.get(node, {}).get("pod") or "") for node in names]
    rack = [(at, str(places.get(node, {}).get("rack") or "")) for at, node in zip(pod, names, strict=True)]
    for most in CELLS:
        cell, each = _cells_of(names, pod, rack, most)
        row = _rows(measured.nodes, names, cell)
        values = _filled(pairs, shares(measured, pairs), row, cell[-1] + 1)
        # Where few pairs were measured, a coarser picture shows more than one of dots.
        if len(names) <= CELLS[0] or numpy.isfinite(values).mean() > FILLED:
            break
    labels: Sequence[str] = names
    if len(names) > 24:
        labels = pod if len(set(pod)) > 1 else [each[1] for each in rack]
    return Cells(values, _bands(labels, cell), each, row)


def _rows(nodes: Sequence[str], ordered: Sequence[str], cell: Sequence[int]) -> Array:
    """Return (n,) the cell of each of ``nodes``."""
    of = dict(zip(ordered, cell, strict=True))
    return numpy.array([of[node] for node in nodes], dtype=numpy.int64)


def _filled(pairs: Pairs, share: Array, row: Array, count: int) -> Array:
    """Return (count, count) the worst share of the pairs in each cell, both ways round."""
    values = numpy.full((count, count), numpy.nan)
    known = numpy.isfinite(share)
    one, other = row[pairs.one[known]], row[pairs.other[known]]
    for at, to in ((one, other), (other, one)):
        numpy.fmin.at(values, (at, to), share[known])
    return values


def _cells_of(
    names: Sequence[str], pod: Sequence[str], rack: Sequence[tuple[str, str]], most: int
) -> tuple[list[int], str]:
    """Return the cell of each node in order, and what one cell stands for."""
    if len(names) <= CELLS[0]:
        return list(range(len(names))), "one pair of nodes"
    # Without racks, neighbouring nodes share a cell.
    racks = list(dict.fromkeys(rack)) if any(each[1] for each in rack) else []
    if 1 < len(racks) <= most:
        number = {each: index for index, each in enumerate(racks)}
        return [number[each] for each in rack], "the slowest pair between two racks"
    # Neighbouring racks share a cell, never two pods.
    units: Sequence[Any] = rack if len(racks) > 1 else list(names)
    unit_pods = dict(zip(units, pod, strict=True))
    each = max(2, -(-len(unit_pods) // max(1, most - len(set(pod)))))
    cells: dict[Any, int] = {}
    used, before, cell = 0, None, -1
    for unit, where in unit_pods.items():
        if where != before or used == each:
            cell, used, before = cell + 1, 0, where
        cells[unit], used = cell, used + 1
    what = "racks" if len(racks) > 1 else "nodes"
    return [cells[unit] for unit in units], f"the slowest pair between {each} neighbouring {what} and {each} others"


def _bands(labels: Sequence[str], cell: Sequence[int]) -> Bands:
    starts, names = [0], [labels[0]]
    for (before, _), (label, at) in pairwise(zip(labels, cell, strict=True)):
        if label != before and at != starts[-1]:
            starts.append(at)
            names.append(label)
    return Bands(tuple(names), tuple(starts), cell[-1] + 1)


def _heat(measured: Measured, places: Places, name: str) -> Figure:
    pairs = measured.pairs[-1]
    cells = heat_cells(measured, pairs, places)
    marks = _marks(measured, pairs, cells)
    worst = float(numpy.nanmin(cells.values))
    possible = len(measured.nodes) * (len(measured.nodes) - 1) // 2
    covered = len(set(zip(*(each.tolist() for each in _sorted_ends(pairs)), strict=True)))
    caption = (
        f"Each cell is {cells.each}: bandwidth of {size_text(pairs.size)}, the median over the rails. "
        f"100 % is {usual_gb_per_s(measured, pairs):.3g} GB/s, {usual_said(measured)}; the worst cell is at "
        f"{worst:.0%}. In the order of pods, racks and nodes. "
        f"{covered:,} of {possible:,} pairs were measured ({covered / max(1, possible):.0%}), empty cells were not."
        + (" A triangle marks a line of who is slow with everybody." if marks.lines else "")
        + (" A ring marks a pair that is slow only together." if marks.rings else "")
    )
    alt = (
        f"Heat map of pair bandwidth at {size_text(pairs.size)} over {len(measured.nodes)} nodes, "
        f"worst {worst:.0%} of {usual_said(measured)}"
    )
    return Figure("Pairs", plots.heat_map(name, cells.values, cells.bands, marks, alt), caption, True, True)


def _marks(measured: Measured, pairs: Pairs, cells: Cells) -> Marks:
    """Return what would be lost among many cells; where much is slow, the picture itself shows it."""
    slow = numpy.flatnonzero(numpy.nan_to_num(nan_median(node_shares(measured, pairs)), nan=2.0) < SLOW)
    lines = sorted({int(cells.row[index]) for index in slow})
    low = slow_only_together(measured, pairs)
    rings = {
        (min(ends), max(ends))
        for ends in (
            (int(cells.row[pairs.one[index]]), int(cells.row[pairs.other[index]])) for index in low[:MARKS_AT_MOST]
        )
    }
    return Marks(
        tuple(sorted(rings)) if len(low) <= 4 * MARKS_AT_MOST else (),
        tuple(lines) if len(lines) <= 4 * MARKS_AT_MOST else (),
    )


def _sorted_ends(pairs: Pairs) -> tuple[Array, Array]:
    return numpy.minimum(pairs.one, pairs.other), numpy.maximum(pairs.one, pairs.other)


def _by_distance(all_sizes: Sequence[Pairs], distance: Mapping[int, Array], name: str) -> list[Figure]:
    bandwidth, times = [], []
    for at, label in enumerate(DISTANCES):
        points = []
        for pairs in all_sizes:
            mine = distance[pairs.size] == at
            if mine.any():
                points.append((pairs.size, pairs.ns[mine], pairs.p99[mine]))
        if points:
            bandwidth.append(_bandwidth_line(label, points, at))
            times += _time_lines(label, points, at)
    said = "Send-receive between two nodes, both directions at once, each rail for itself."
    return [
        Figure(
            "Bandwidth of a rail, by distance",
            plots.curves(
                f"{name}-distance-bandwidth",
                bandwidth,
                Axes("message size", "GB/s"),
                _alt("Bandwidth", bandwidth, "GB/s"),
            ),
            f"{said} Median, and the band from the 1st to the 99th percentile.",
        ),
        Figure(
            "Time of an exchange, by distance",
            plots.curves(
                f"{name}-distance-time",
                times,
                Axes("message size", "µs", log_y=True),
                _alt("Time", times, "µs"),
            ),
            "Median over pairs of the p50 (solid) and the p99 (dashed) of their iterations, of a rail in the middle.",
        ),
    ]


def _by_rail(all_sizes: Sequence[Pairs], name: str) -> list[Figure]:
    rails = max(pairs.ns.shape[1] for pairs in all_sizes)
    if rails < 2:
        return []
    bandwidth, times = [], []
    for rail in range(rails):
        mine = [each for each in all_sizes if rail < each.ns.shape[1] and numpy.isfinite(each.ns[:, rail]).any()]
        if not mine:
            continue
        sizes = [each.size for each in mine]
        # In GB/s eight rails would lie on each other, and one that is five percent slow with them.
        ratio = [100 * float(numpy.nanmedian(each.ns) / numpy.nanmedian(each.ns[:, rail])) for each in mine]
        typical_us = [float(numpy.nanmedian(each.ns[:, rail])) / 1e3 for each in mine]
        bandwidth.append(Line(f"rail {rail}", sizes, ratio, series=rail))
        times.append(Line(f"rail {rail}", sizes, typical_us, series=rail))
    size = all_sizes[-1].size
    typical = float(size / numpy.nanmedian(all_sizes[-1].ns))
    return [
        Figure(
            "Bandwidth of each rail, beside all",
            plots.curves(
                f"{name}-rail-bandwidth",
                bandwidth,
                Axes("message size", "% of the median of all", percent=True),
                _alt("Bandwidth", bandwidth, "%"),
            ),
            f"100 % is {typical:.3g} GB/s at {size_text(size)}. One apart from the others is a switch or a plane.",
        ),
        Figure(
            "Time of an exchange, by rail",
            plots.curves(f"{name}-rail-time", times, Axes("message size", "µs", log_y=True), _alt("Time", times, "µs")),
            "Median over all pairs of the p50 of their iterations.",
        ),
    ]


def _bandwidth_line(label: str, points: Sequence[tuple[int, Array, Array]], series: int) -> Line:
    # GB/s is bytes in a nanosecond.
    low, middle, high = zip(
        *(numpy.nanpercentile(size / ns, (1, 50, 99)).tolist() for size, ns, _ in points), strict=True
    )
    return Line(label, [size for size, _, _ in points], middle, low, high, series)


def _time_lines(label: str, points: Sequence[tuple[int, Array, Array]], series: int) -> list[Line]:
    sizes = [size for size, _, _ in points]
    return [
        Line(label, sizes, [float(numpy.nanmedian(ns)) / 1e3 for _, ns, _ in points], series=series),
        Line(
            f"{label} p99",
            sizes,
            [float(numpy.nanmedian(p99)) / 1e3 for _, _, p99 in points],
            series=series,
            dashed=True,
        ),
    ]


def _by_collective(groups: Sequence[Group], name: str) -> list[Figure]:
    figures = []
    for collective in sorted({group.collective for group in groups} - {TRAIN}):
        mine = [group for group in groups if group.collective == collective and numpy.isfinite(group.ns)]
        counts = _few(sorted({len(group.nodes) for group in mine}))
        bandwidth, times = [], []
        for series, count in enumerate(counts):
            label = "in a node" if count == 1 else f"{count} nodes"
            points = []
            for size in sorted({group.size for group in mine if len(group.nodes) == count and group.size}):
                here = [group for group in mine if len(group.nodes) == count and group.size == size]
                speed = sorted(bus_bandwidth(group) for group in here)
                tail = float(numpy.median([group.p99 for group in here])) / 1e3
                middle = float(numpy.median([group.ns for group in here])) / 1e3
                points.append((size, speed[0], float(numpy.median(speed)), speed[-1], middle, tail))
            if not points:
                continue
            sizes, low, median, high, middle_ns, tail_ns = (list(column) for column in zip(*points, strict=True))
            bandwidth.append(Line(label, sizes, median, low, high, series))
            times.append(Line(label, sizes, middle_ns, series=series))
            times.append(Line(f"{label} p99", sizes, tail_ns, series=series, dashed=True))
        if not bandwidth:
            continue
        shown = collective.replace("_", "-")
        figures += [
            Figure(
                f"{shown}: bus bandwidth",
                plots.curves(
                    f"{name}-{_word(collective)}-bandwidth",
                    bandwidth,
                    Axes("message size", "GB/s"),
                    _alt(f"Bus bandwidth of {shown}", bandwidth, "GB/s"),
                ),
                "By the slowest rank's median, as nccl-tests defines it. Median over groups, and their band.",
            ),
            Figure(
                f"{shown}: time",
                plots.curves(
                    f"{name}-{_word(collective)}-time",
                    times,
                    Axes("message size", "µs", log_y=True),
                    _alt(f"Time of {shown}", times, "µs"),
                ),
                "Median over the groups of the slowest rank's p50 (solid) and p99 (dashed).",
            ),
        ]
    return figures


def _word(name: str) -> str:
    """Return a name that can stand in an id; plans are not ours to trust."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in name)


def _few(counts: Sequence[int]) -> Sequence[int]:
    """Return at most as many as can be told apart, the smallest and the largest among them."""
    if len(counts) <= CURVES_AT_MOST:
        return counts
    kept = numpy.linspace(0, len(counts) - 1, CURVES_AT_MOST).round().astype(int)
    return [counts[index] for index in kept]


def _spread(measured: Measured, name: str) -> list[Figure]:
    first = slowest(measured)[:ROWS_AT_MOST]
    rows = [(each.node, each.typical, each.tail) for each in first]
    tails = [each.tail for each in measured.spread]
    beside = "the fastest" if measured.few else "the median of all nodes"
    figures = []
    # Of so few every one has its line.
    if len(tails) > ROWS_AT_MOST:
        figures.append(
            Figure(
                "Iterations of all nodes",
                plots.histogram(
                    f"{name}-tails",
                    tails,
                    f"p99 as a multiple of {beside}",
                    f"Histogram of {len(tails)} nodes' p99, {min(tails):.2f} to {max(tails):.2f} times {beside}",
                ),
                "How late a node's late iterations are. One heap is healthy; who stands apart holds up every job.",
            )
        )
    figures.append(
        Figure(
            "Iterations of the slowest",
            plots.ranges(
                f"{name}-slowest",
                rows,
                f"time, as a multiple of {beside}",
                "; ".join(f"{node}: p50 {low:.2f}, p99 {high:.2f}" for node, low, high in rows[:4]),
            ),
            "Slow throughout: both marks far right. Slow now and then: a long line.",
        )
    )
    return figures


def _alt(what: str, lines: Iterable[Line], unit: str) -> str:
    ends = [f"{line.label} {line.y[-1]:.3g} {unit} at {size_text(int(line.x[-1]))}" for line in lines]
    return f"{what} over message size: {'; '.join(ends[:8])}"
