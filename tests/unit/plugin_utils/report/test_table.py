from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import Row
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_table import verdict_table

ROWS = [
    Row(
        "gpu-03",
        "rejected",
        "burn_in",
        "gpu SXM5 0000:9d:00.0: not listed [bold]by[/bold] nvidia-smi",
        "absent",
        "H100",
    ),
    Row("gpu-04", "rejected", "acceptance", "all-reduce with gpu-01 :warning: is slow", "0.0239 GB/s", "0.1 GB/s"),
    Row("gpu-01", "admitted", "acceptance", "", "", ""),
]


def test_plain_table_is_aligned_and_says_it_all() -> None:
    lines = verdict_table(ROWS).splitlines()
    assert lines[0].split() == ["node", "state", "stage", "reason", "measured", "expected"]
    starts = [lines[0].index(name) for name in ("state", "stage", "reason")]
    for line, row in zip(lines[2:], ROWS, strict=True):
        assert [line[at:].split()[0] for at in starts[:2]] == [row.state, row.stage]
        assert row.reason in line and row.measured in line and row.expected in line
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("width", [20, 40, 63, 64, 80, 100, 200])
def test_table_fits_its_width_and_loses_nothing(width: int) -> None:
    text = verdict_table(ROWS, width)
    assert max(len(line) for line in text.splitlines()) <= width
    squeezed = "".join(text.split())
    for row in ROWS:
        assert row.node in text and row.state in text
    assert "[bold]by[/bold]" in squeezed or width >= 64
    assert ":warning:" in text, "text of hosts is not markup"


def test_long_names_wrap_instead_of_being_cut() -> None:
    name = "rack07-" + "x" * 60
    text = verdict_table([Row(name, "admitted", "acceptance", "", "", "")], 80)
    assert "".join(line.split()[0] for line in text.splitlines()[2:]) == name


def test_colour_marks_the_state_only_when_asked_for() -> None:
    assert "\x1b[1;31mrejected" in verdict_table(ROWS, 120, colour=True)


def test_no_rows() -> None:
    assert "node" in verdict_table([])
