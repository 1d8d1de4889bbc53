"""Every recorded output is judged as a careful engineer would, and no file is left out without a word."""

from __future__ import annotations

import pytest

from .judged import NOT_COVERED, RECORDED, ROWS, expectations, judged, unlisted, unverified_formats
from .row import Row

pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded outputs at {RECORDED}")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.file}:{','.join(row.checks)}")
def test_verdict(row: Row) -> None:
    if not (RECORDED / row.file).exists():
        pytest.skip(f"{row.file} is not among the recorded outputs")
    result = judged(row, RECORDED)
    assert result.verdict == row.verdict, result.said


def test_every_file_is_judged_or_left_out_for_a_reason() -> None:
    assert unlisted(RECORDED) == []


def test_no_file_is_both_judged_and_left_out() -> None:
    assert {row.file for row in ROWS} & set(NOT_COVERED) == set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.file)
def test_row_declares_parts_that_agree(row: Row) -> None:
    gpu = expectations(row)["gpu"]
    assert gpu is None or len(gpu["parts"]) == gpu["count"]


def test_tools_that_nobody_recorded_are_named() -> None:
    assert {"ipmi_mc", "ipmi_sel (sel info)", "nvlsm"} <= set(unverified_formats())
