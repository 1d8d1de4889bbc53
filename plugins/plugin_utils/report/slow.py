"""What is slow in one campaign, by name: rails, pairs, groups, stragglers, mini-clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile, latency_rows
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import size_text
from ansible_collections.muster.cluster.plugins.plugin_utils.report.compared import (
    DISTANCES,
    SLOW,
    Places,
    bus_bandwidth,
    distances,
    node_shares,
    shares,
    slow_only_together,
    slowest,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import TRAIN, Group, Measured, Pairs, usual

ROWS_AT_MOST = 12
NOTHING = "not measured"


@dataclass(frozen=True)
class TableRow:
    """Nodes, to be linked, and the cells after them."""

    nodes: tuple[str, ...]
    cells: tuple[str, ...]
    more: int = 0


@dataclass(frozen=True)
class TableView:
    """A table, ready to print."""

    title: str
    head: tuple[str, ...]
    rows: tuple[TableRow, ...]
    note: str = ""


def slow_of(measured: Measured, places: Places) -> tuple[TableView, ...]:
    """Return the tables of who is slow in pairs, none where nobody is."""
    if not measured.pairs:
        return ()
    return tuple(table for table in (_slow_rails(measured), _slow_pairs(measured, places)) if table is not None)


def tables_of(measured: Measured, profile: LatencyProfile | None) -> tuple[TableView, ...]:
    """Return the other tables that have something to say; ``profile`` is what mini-clusters must keep."""
    tables = [_slow_groups(measured.groups), _stragglers(measured)]
    if profile is not None:
        tables.append(_mini_clusters(measured.groups, profile))
    return tuple(table for table in tables if table is not None)


def _slow_rails(measured: Measured) -> TableView | None:
    pairs = measured.pairs[-1]
    share = node_shares(measured, pairs)
    typical = pairs.size / usual(pairs.ns, measured.few)
    low = numpy.nan_to_num(share, nan=2.0) < SLOW
    rows = []
    for index in numpy.flatnonzero(low.any(axis=1)):
        rails = numpy.flatnonzero(low[index])
        worst = float(share[index][rails].min())
        which = "all" if len(rails) == share.shape[1] else ", ".join(str(rail) for rail in rails)
        cells = (which, f"{worst:.0%}", f"{worst * typical:.3g} GB/s")
        rows.append((worst, TableRow((measured.nodes[int(index)],), cells)))
    return _table(
        "Slow with everybody",
        ("Node", "Rails", _of_usual(measured), "Measured"),
        [row for _, row in sorted(rows, key=lambda each: each[0])],
        f"The {'fastest' if measured.few else 'median'} of a rail's pairs at {size_text(pairs.size)} is below "
        f"{SLOW:.0%} of all nodes'.",
    )


def _slow_pairs(measured: Measured, places: Places) -> TableView | None:
    pairs = measured.pairs[-1]
    chosen, share = slow_only_together(measured, pairs), shares(measured, pairs)
    between = distances(measured, places)[pairs.size]
    rows = [
        TableRow(
            (measured.nodes[int(pairs.one[index])], measured.nodes[int(pairs.other[index])]),
            (DISTANCES[int(between[index])], f"{share[index]:.0%}", _rails_text(pairs, int(index))),
        )
        for index in chosen[:ROWS_AT_MOST]
    ]
    return _table(
        "Slow only together",
        ("Pair", "Distance", _of_usual(measured), "Slowest rail"),
        rows,
        f"Both are good with others: suspect what lies between them. {len(chosen)} of {len(share)} measurements.",
    )


def _of_usual(measured: Measured) -> str:
    return "Of the fastest" if measured.few else "Of the median"


def _rails_text(pairs: Pairs, index: int) -> str:
    speed = pairs.size / pairs.ns[index]
    rail = int(numpy.nanargmin(speed))
    return f"{rail}: {speed[rail]:.3g} GB/s"


def _slow_groups(groups: Sequence[Group]) -> TableView | None:
    """Return the slowest group of each collective and number of nodes, at its largest size."""
    rows = []
    kinds = sorted({(group.collective, len(group.nodes)) for group in groups})
    for collective, count in kinds:
        mine = [group for group in groups if group.collective == collective and len(group.nodes) == count]
        largest = max(group.size for group in mine)
        mine = [group for group in mine if group.size == largest]
        done = [group for group in mine if numpy.isfinite(group.ns)]
        if not done:
            rows.append(_group_row(mine[0], collective, len(mine), "none finished", ""))
            continue
        worst = max(done, key=lambda group: group.ns)
        if collective == TRAIN:
            told = tuple(f"{value / 1e6:.3g} ms" for value in (numpy.median([one.ns for one in done]), worst.ns))
        else:
            speeds = numpy.median([bus_bandwidth(group) for group in done]), bus_bandwidth(worst)
            told = tuple(f"{value:.3g} GB/s" for value in speeds)
        rows.append(_group_row(worst, collective, len(mine), *told))
    return _table(
        "Groups",
        ("Slowest group", "Collective", "Nodes", "Groups", "Size", "Median", "Slowest"),
        rows,
        "At the largest size of each; a training step by its time, the rest by bus bandwidth.",
        len(rows),
    )


def _group_row(group: Group, collective: str, groups: int, median: str, worst: str) -> TableRow:
    size = size_text(group.size) if group.size else ""
    cells = (collective.replace("_", "-"), f"{len(group.nodes):,}", f"{groups:,}", size, median, worst)
    return TableRow(group.nodes[:4], cells, max(0, len(group.nodes) - 4))


def _stragglers(measured: Measured) -> TableView | None:
    """Return who comes last, the most striking first."""
    first = slowest(measured)[:ROWS_AT_MOST]
    rows = [
        TableRow(
            (each.node,),
            (
                f"{each.typical:.2f}",
                f"{each.tail:.2f}",
                f"{each.tail / each.typical:.2f}",
                f"{each.last:,} of {each.iterations:,}" if each.iterations else "not counted",
            ),
        )
        for each in first
    ]
    return _table(
        "Iterations of the slowest",
        ("Node", "p50", "p99", "p99 / p50", "Was last"),
        rows,
        f"Times as multiples of {'the fastest' if measured.few else 'the median of all nodes'}; “was last”: iterations "
        "of groups in which it was the slowest.",
    )


def _mini_clusters(groups: Sequence[Group], profile: LatencyProfile) -> TableView | None:
    rows = [
        TableRow(
            row.worst_nodes[:4],
            (
                str(row.gpus),
                size_text(row.size_bytes),
                f"{row.groups:,}",
                NOTHING if row.median_microseconds is None else f"{row.median_microseconds:.3g} µs",
                NOTHING if row.worst_microseconds is None else f"{row.worst_microseconds:.3g} µs",
                f"{row.limit_microseconds:g} µs",
                row.said,
            ),
            max(0, len(row.worst_nodes) - 4),
        )
        for row in latency_rows(groups, profile)
    ]
    return _table(
        f"Mini-clusters ({profile.name.replace('_', ' ')})",
        ("Slowest", "GPUs", "Size", "Groups", "Median p99", "Slowest p99", "Limit", "Kept"),
        rows,
        f"p99 of {profile.collective.replace('_', '-')} in groups as large as those that serve one model.",
        len(rows),
    )


def _table(
    title: str, head: tuple[str, ...], rows: Sequence[TableRow], note: str, most: int = ROWS_AT_MOST
) -> TableView | None:
    if not rows:
        return None
    if len(rows) > most:
        note = f"{note} The first {most} of {len(rows):,}."
    return TableView(title, head, tuple(rows[:most]), note)
