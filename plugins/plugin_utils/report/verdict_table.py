"""The verdict table on a terminal."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable

from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import Row
from rich.box import Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Where there is no terminal there is no edge to wrap at: a reason fits on one or two lines of a log.
PLAIN_WIDTH = 150
# What Ansible takes a terminal to be wide when there is none.
NO_TERMINAL_COLUMNS = 79
# Six columns in less than this would be columns of syllables.
NARROW_WIDTH = 64

_STYLES = {
    "rejected": "bold red",
    "quarantined": "bold magenta",
    "held": "yellow",
    "testing": "cyan",
    "admitted": "green",
    "spare": "green",
}
# A rule under the head and nothing else; plain ASCII, so that any terminal, log and mail shows it.
RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)


def width_of(columns: int, coloured: bool) -> int:
    """Return how wide a table may be: as the terminal, or as wide as is usual where there seems to be none."""
    return columns if coloured or columns > NO_TERMINAL_COLUMNS else PLAIN_WIDTH


def verdict_table(rows: Iterable[Row], width: int = PLAIN_WIDTH, colour: bool = False) -> str:
    """Return the rows as an aligned table of at most ``width`` columns, below 64 as one paragraph per node.

    With ``colour`` states carry ANSI colours; without, the text is plain. There is no final line break.
    """
    rows = list(rows)
    return _paragraphs(rows, width) if width < NARROW_WIDTH else _table(rows, width, colour)


def _table(rows: list[Row], width: int, colour: bool) -> str:
    table = Table(box=RULED, pad_edge=False, padding=(0, 1, 0, 0))
    # Names and states stay whole, reasons give way.
    for header, most in (("node", width // 4), ("state", 12), ("stage", 12)):
        table.add_column(header, no_wrap=most == 12, max_width=most, overflow="fold")
    table.add_column("reason", ratio=1, overflow="fold")
    table.add_column("measured", max_width=max(8, width // 6), overflow="fold")
    table.add_column("expected", max_width=max(8, width // 6), overflow="fold")
    for row in rows:
        style = _STYLES.get(row.state, "")
        table.add_row(row.node, Text(row.state, style=style), row.stage, row.reason, row.measured, row.expected)
    return printed(table, width, colour)


def printed(table: Table, width: int, colour: bool) -> str:
    """Return a table as text of at most ``width`` columns, without a final line break."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        # Cells hold text of hosts, never markup.
        markup=False,
        emoji=False,
        highlight=False,
    )
    console.print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")


def _paragraphs(rows: list[Row], width: int) -> str:
    lines: list[str] = []
    for row in rows:
        head = " ".join(part for part in (row.node, row.state, row.stage and f"({row.stage})") if part)
        lines += textwrap.wrap(head, max(20, width))
        details = [row.reason] + [
            f"{name} {value}" for name, value in (("measured", row.measured), ("expected", row.expected)) if value
        ]
        for detail in details:
            lines += textwrap.wrap(detail, max(20, width), initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)
