"""No rule comes to another verdict without a new version: evidence of the old one would go on counting."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding

from tests.recorded.judged import RECORDED as PLACE

from . import judged
from .judged import Said
from .table import OWN, RECORDED, faults, known, unversioned, written


def test_rules_say_of_our_own_outputs_what_their_versions_said() -> None:
    found = faults(known(), OWN, judged.own(), judged.versions())
    assert not found, "\n".join(found)


@pytest.mark.skipif(not PLACE.is_dir(), reason=f"no recorded outputs at {PLACE}")
def test_rules_say_of_recorded_outputs_what_their_versions_said() -> None:
    found = faults(known(), RECORDED, judged.recorded(PLACE), judged.versions())
    assert not found, "\n".join(found)


def test_every_rule_is_held_by_something_that_it_says() -> None:
    assert {rule for rule, row in known().items() if row.get(OWN)} == {*judged.versions()}
    assert {*CHECKS} <= {*known()}


def said(verdict: str = "fail", inputs: str = "log", measured: int = 79) -> dict[str, Said]:
    what = Said()
    what.add("case", inputs, [Finding("xid", "host", verdict, measured, reason="as you like")])
    return {"xid": what}


def row(version: int = 1, **given: str) -> dict[str, dict[str, object]]:
    return {"xid": {"version": version, OWN: said(**given)["xid"].digests()}}


@pytest.mark.parametrize(
    ("before", "version", "now", "told"),
    [
        (row(), 1, said(), []),
        # Another verdict, and another number, of the same outputs.
        (row(), 1, said("pass"), ["raise RULES in plugins/module_utils/checks/xid.py"]),
        (row(), 1, said(measured=13), ["raise RULES in plugins/module_utils/checks/xid.py"]),
        # The same with a new version; other outputs; a new rule: the table is written anew.
        (row(), 2, said("pass"), ["are new"]),
        (row(), 1, said("pass", "another log"), ["are new"]),
        ({}, 1, said(), ["are new"]),
        ({"gone": {"version": 1, OWN: ["1", "2"]}, **row()}, 1, said(), ["no such rule"]),
    ],
)
def test_change_is_told_with_what_to_do(before, version, now, told) -> None:
    found = faults(before, OWN, now, {"xid": version})
    assert len(found) == len(told)
    assert all(what in text and "--write" in text for what, text in zip(told, found, strict=True))


def test_written_table_is_up_to_date_and_keeps_what_could_not_be_asked() -> None:
    import yaml  # noqa: PLC0415

    before = {"xid": {"version": 1, OWN: ["old", "old"], RECORDED: ["r", "r"]}}
    table = yaml.safe_load(written(before, {OWN: said("pass")}, {"xid": 2}))
    assert faults(table, OWN, said("pass"), {"xid": 2}) == []
    assert table["xid"][RECORDED] == ["r", "r"]
    assert unversioned(table["xid"], OWN, said()["xid"].digests(), 2)
