"""The comparison of two fleets as a table on a terminal and as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.muster.cluster.plugins.module_utils.words.printable import printable
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import size_text
from ansible_collections.muster.cluster.plugins.plugin_utils.report import plots
from ansible_collections.muster.cluster.plugins.plugin_utils.report.figures import CURVES_AT_MOST, Figure
from ansible_collections.muster.cluster.plugins.plugin_utils.report.fleet_comparison import (
    LATENCY_BYTES,
    Compared,
    Comparison,
    Value,
    typical_ratio,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import TRAIN
from ansible_collections.muster.cluster.plugins.plugin_utils.report.page import moment, page_template
from ansible_collections.muster.cluster.plugins.plugin_utils.report.plots import Axes, Line, PlotError
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_table import RULED, printed
from rich.table import Table
from rich.text import Text

HEAD = ("collective", "nodes", "size", "left", "right", "ratio", "spread", "n", "")
FASTER, SLOWER, ALIKE, UNKNOWN = "faster", "slower", "alike", "too few"


def said(row: Compared) -> str:
    """Return what the row comes to, said of the right fleet."""
    if row.differs is None:
        return UNKNOWN
    if not row.differs:
        return ALIKE
    return FASTER if row.ratio > 1 else SLOWER


def comparison_cells(row: Compared) -> tuple[str, ...]:
    """Return a row's cells, ready to print, in the order of ``HEAD``."""
    left = row.left
    where = f"{left.nodes}" + (f", {left.distance}" if left.distance else "")
    return (
        printable(left.collective.replace("_", "-")),
        printable(where),
        size_text(left.size) if left.size else "",
        measured_text(left),
        measured_text(row.right),
        f"{row.ratio:.3f}",
        "" if row.spread is None else f"{row.spread:.1%}",
        f"{left.n}, {row.right.n}",
        said(row),
    )


def measured_text(value: Value) -> str:
    """Return a time for small messages and training steps, a bus bandwidth for large messages."""
    if value.size >= LATENCY_BYTES:
        return f"{value.gb_per_s:.4g} GB/s"
    if value.median_ns >= 1e7:
        return f"{value.median_ns / 1e6:.4g} ms"
    return f"{value.median_ns / 1e3:.4g} µs"


def comparison_table(comparison: Comparison, width: int, colour: bool = False) -> str:
    """Return the rows as an aligned table; ``ratio`` above 1 says that the right fleet is faster."""
    table = Table(box=RULED, pad_edge=False, padding=(0, 1, 0, 0))
    left, right = printable(comparison.left.cluster), printable(comparison.right.cluster)
    classes = {row.hardware_class for row in comparison.rows}
    names = {"left": left, "right": right, "": f"{right} is"}
    if len(classes) > 1:
        table.add_column("class", overflow="fold")
    for name in HEAD:
        number = name in ("left", "right", "ratio", "spread", "n", "size")
        table.add_column(names.get(name, name), justify="right" if number else "left", overflow="fold")
    styles = {FASTER: "bold green", SLOWER: "bold red", UNKNOWN: "yellow"}
    for row in comparison.rows:
        cells = comparison_cells(row)
        first = [printable(row.hardware_class)] if len(classes) > 1 else []
        table.add_row(*first, *cells[:-1], Text(cells[-1], style=styles.get(cells[-1], "")))
    return printed(table, width, colour)


def comparison_lines(comparison: Comparison) -> list[str]:
    """Return what people have to know beside the table: one line for each collective, then what only one has."""
    left, right = comparison.left.cluster, comparison.right.cluster
    lines = []
    for collective in _collectives(comparison):
        rows = [row for row in comparison.rows if row.left.collective == collective]
        slower, faster = (sum(said(row) == word for row in rows) for word in (SLOWER, FASTER))
        ratio = typical_ratio(comparison, collective)
        lines.append(
            f"{collective.replace('_', '-')}: {right} is {ratio:.2f} times as fast as {left}; "
            f"beyond the spread faster in {faster}, slower in {slower} of {len(rows)}"
        )
    return [printable(line) for line in (*lines, *comparison.notes)]


def comparison_page(comparison: Comparison, written: float, muster_version: str = "") -> str:
    """Return the page as HTML text that loads nothing and runs nothing; without matplotlib it has the table alone."""
    figures: list[Figure] = []
    missing = ""
    try:
        figures = _figures(comparison)
    except PlotError as exc:
        missing = f"No plots: {exc}."
    return page_template("compare.html.j2").render(
        comparison=comparison,
        written=moment(written),
        muster_version=muster_version,
        lines=comparison_lines(comparison),
        head=HEAD,
        rows=[(row.hardware_class, comparison_cells(row)) for row in comparison.rows],
        figures=figures,
        missing=missing,
        classes=sorted({row.hardware_class for row in comparison.rows}),
    )


def _collectives(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(row.left.collective for row in comparison.rows))


def _figures(comparison: Comparison) -> list[Figure]:
    figures: list[Figure] = []
    classes = sorted({row.hardware_class for row in comparison.rows})
    for name in classes:
        for collective in _collectives(comparison):
            rows = [row for row in comparison.rows if row.hardware_class == name and row.left.collective == collective]
            if collective == TRAIN or not rows:
                continue
            number = len(figures) + 1
            shown = collective.replace("_", "-") + (f" of {name}" if len(classes) > 1 else "")
            for title, unit, word, log in (
                (f"{shown}: bus bandwidth", "GB/s", "bandwidth", False),
                (f"{shown}: time", "µs", "time", True),
            ):
                lines = _lines(rows, word)
                alt = f"{title} over message size, {comparison.left.cluster} solid, {comparison.right.cluster} dashed"
                svg = plots.curves(f"plot-{number}-{word}", lines, Axes("message size", unit, log_y=log), alt)
                caption = f"Solid: {comparison.left.cluster}. Dashed: {comparison.right.cluster}. Medians."
                figures.append(Figure(title, svg, caption))
    return figures


def _lines(rows: Sequence[Compared], word: str) -> list[Line]:
    lines = []
    kinds = list(dict.fromkeys((row.left.nodes, row.left.distance) for row in rows))
    for series, (nodes, distance) in enumerate(kinds[:CURVES_AT_MOST]):
        mine = [row for row in rows if (row.left.nodes, row.left.distance) == (nodes, distance)]
        label = distance or ("in a node" if nodes == 1 else f"{nodes} nodes")
        for side in ("left", "right"):
            values = [getattr(row, side) for row in mine]
            y = [value.gb_per_s if word == "bandwidth" else value.median_ns / 1e3 for value in values]
            lines.append(Line(label, [value.size for value in values], y, series=series, dashed=side == "right"))
    return lines
