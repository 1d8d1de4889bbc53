"""The plan of checkpoints as people read it, on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan import Plan, Row
from ansible_collections.muster.cluster.plugins.plugin_utils.save_rounds.save_judging import SPARE

FORMULAS = (
    "failure every: 1 / (nodes x failure rate), of the whole job (arXiv 2410.21680)",
    "save every: work between two saves, Daly's higher order of Young's sqrt(2 x blocking time x time between failures)"
    " (FGCS 22(3), 2006; CACM 17(9), 1974)",
    "lost: share of all time spent on saving and on repeating what a failure undid, by Daly's model",
)


def plan_head(plan: Plan) -> tuple[str, ...]:
    """Return the names of the columns."""
    interval = plan.job.interval_seconds
    return (
        *("GPUs", "nodes", "failure every", "save every", "lost", "with restart"),
        *([] if interval is None else [f"saved every {duration(interval)}: lost"]),
        *(f"for {plan.job.wanted_loss_percent:g} % lost: save within", "storage writes"),
    )


def plan_cells(row: Row) -> tuple[str, ...]:
    """Return one row of the table, a text for each column."""
    return (
        str(row.gpus),
        str(row.nodes),
        duration(row.failure_seconds),
        duration(row.interval_seconds),
        f"{row.loss_percent:.1f} %",
        f"{row.loss_with_restart_percent:.1f} %",
        *([] if row.declared_loss_percent is None else [f"{row.declared_loss_percent:.1f} %"]),
        duration(row.wanted_save_seconds),
        rate(row.wanted_gb_per_s),
    )


def plan_notes(plan: Plan) -> tuple[str, ...]:
    """Return what the table rests on, a line each."""
    job, save = plan.job, plan.job.save
    spare = f"{100 * (SPARE - 1):g} % more than size over time"
    return (
        f"checkpoint: {job.checkpoint_bytes / 1e9:.4g} GB; in the declared {job.target_seconds:g} s all nodes together "
        f"write {rate(plan.target_gb_per_s)} ({spare})",
        f"save: stops the job for {save.blocking_seconds:.3g} s, is written after {save.complete_seconds:.3g} s "
        f"({save.source}); the same at every size",
        f"failures: {job.rate.per_1000_node_days:.3g} in 1,000 days of a node with {job.gpus_per_node} GPUs "
        f"({job.rate.source})",
        f"restart: {job.restart_seconds:g} s after each failure, in the column with restart only",
    )


def plan_lines(plan: Plan) -> list[str]:
    """Return table, notes and formulas as lines for a terminal."""
    table = [plan_head(plan), *(plan_cells(row) for row in plan.rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = [_aligned(line, widths) for line in table]
    rule = "  ".join("-" * width for width in widths)
    return [lines[0], rule, *lines[1:], "", *plan_notes(plan), *FORMULAS]


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def rate(gb_per_s: float) -> str:
    """Return a rate with three figures; those of a lab are in MB/s."""
    if gb_per_s < 0.1:
        return f"{1000 * gb_per_s:.3g} MB/s"
    return f"{gb_per_s:.3g} GB/s" if gb_per_s < 1000 else f"{gb_per_s:.0f} GB/s"


def duration(seconds: float) -> str:
    """Return a time with three figures, in the unit in which they are read best."""
    for unit, size in (("s", 1.0), ("min", 60.0), ("h", 3600.0)):
        if seconds < 100 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86400:.3g} d"
