"""What the project concludes is what it concluded before it was restructured (README.md beside this file)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from ..recorded.judged import RECORDED, ROWS
from . import digest
from .areas import AREAS, LIKE
from .demo import CASE, case_of
from .written import Case, differences, known, lines

KNOWN_WRONG = yaml.safe_load(Path(__file__).with_name("known_wrong.yml").read_text(encoding="utf-8"))
NUMBERED = re.compile(r"[A-Z](?:[0-9]+|-refused) ")
SHOWN = 20


@pytest.mark.parametrize("area", AREAS)
def test_area_concludes_what_it_did(area: str) -> None:
    if area == "recorded" and not RECORDED.is_dir():
        pytest.skip(f"no recorded outputs at {RECORDED}")
    found = differences(area, known(area), lines(list(AREAS[area]())))
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    how = f'PYTHONPATH=collections:. python -m tests.oracle --show {area} "CASE" prints what a case holds'
    assert not found, "\n".join([f"{len(found)} cases differ", *found[:SHOWN], *more, how])


@pytest.mark.parametrize("area", [*KNOWN_WRONG])
def test_known_wrong_cases_are_there_and_numbered(area: str) -> None:
    assert set(KNOWN_WRONG[area]) - set(known(area)) == set()
    assert [why for why in KNOWN_WRONG[area].values() if not NUMBERED.match(why)] == []


def _demo(**other: str) -> str:
    finding = {"check": "xid", "subject": "gpu SXM6", "verdict": "fail", "action": "reboot", "measured": 79, **other}
    about = {"node": "gpu-03", "state": "rejected", "stage": "burn_in", "findings": [finding]}
    return lines([case_of([about])])[CASE]


def test_demo_is_held_by_what_each_run_gives() -> None:
    assert list(known("demo")) == [CASE]
    assert _demo() == _demo(measured="another", reason="another")
    assert _demo() != _demo(verdict="pass")
    assert _demo() != _demo(action="rma")


def test_recordings_without_a_table_are_like_one_that_stands_in_it() -> None:
    assert set(LIKE.values()) <= {row.file for row in ROWS}


def _line(**other: object) -> Mapping[str, str]:
    return lines([Case("case", [1, {"verdict": "fail", "gbps": 1.5}], "fail 1", **other)])


def test_change_of_a_verdict_or_a_number_is_seen() -> None:
    for content in ([1, {"verdict": "pass", "gbps": 1.5}], [1, {"verdict": "fail", "gbps": 1.50001}], [1]):
        assert differences("fuzz", _line(), lines([Case("case", content, "fail 1")]))
    assert differences("fuzz", _line(), {}) == ["case: gone"]
    assert differences("fuzz", {}, _line()) == ["case: new"]
    assert differences("fuzz", _line(), _line()) == []


def test_numbers_of_other_observations_are_not_compared_but_what_they_identify_is() -> None:
    other = lines([Case("case", [2], "fail 1", "other")])
    assert differences("fleets", _line(inputs="these"), other) == []
    assert differences("fuzz", _line(inputs="these"), other)
    assert differences("fleets", _line(inputs="these"), lines([Case("case", [2], "pass 1", "other")]))
    assert differences("fleets", _line(inputs="these"), lines([Case("case", [2], "fail 1", "these")]))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (12.5, 12.5),
        ("PIX", "PIX"),
        ("16 GT/s at x8", ["numbers", "16", "8"]),
        (None, None),
    ],
)
def test_values_keep_numbers_and_identifiers(given: object, kept: object) -> None:
    assert digest.value(given) == kept


def test_comments_of_rendered_files_are_left_out() -> None:
    assert digest.text_of("x.conf", "# why\nKey=1\n\n  ; so\n! and\nOther=2\n") == ["Key=1", "Other=2"]
    assert digest.text_of("x.txt", '# why\n{"a": 1}\n') == {"a": 1}
    assert digest.text_of("x.md", "# Heading\n\n| data | 26 |\n- `mtu`: why\n") == [["26"], ["`mtu`"]]
