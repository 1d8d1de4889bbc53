"""No rule comes to another verdict without a new version: evidence of the old one would go on counting."""

from __future__ import annotations

import sys

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding

from tests.recorded.judged import RECORDED as PLACE

from . import __main__, judged, table
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


def said(*verdicts: str, inputs: str = "log", measured: int = 79) -> dict[str, Said]:
    """Return what a rule says of cases, one for each verdict."""
    what = Said()
    for number, verdict in enumerate(verdicts or ("fail",)):
        found = [Finding("xid", "host", verdict, measured, reason="as you like")]
        what.add(f"case {number}", [inputs, number], found)
    return {"xid": what}


def row(*verdicts: str, version: int = 1) -> dict[str, dict[str, object]]:
    return {"xid": {"version": version, OWN: said(*verdicts)["xid"].cases}}


@pytest.mark.parametrize(
    ("before", "version", "now", "told"),
    [
        (row(), 1, said(), []),
        # Another verdict, and another number, of the same outputs.
        (row(), 1, said("pass"), ["raise RULES in plugins/module_utils/checks/xid.py"]),
        (row(), 1, said(measured=13), ["raise RULES in plugins/module_utils/checks/xid.py"]),
        # And beside a case that came, and one that went.
        (row("fail"), 1, said("pass", "fail"), ["1 of 2 outputs, as of 'case 0'"]),
        (row("fail", "fail"), 1, said("pass"), ["1 of 1 outputs, as of 'case 0'"]),
        # Cases came, or went, and of the others it says the same.
        (row("fail"), 1, said("fail", "pass"), ["are new"]),
        (row("fail", "pass"), 1, said("fail"), ["are new"]),
        # The same with a new version; other outputs; a new rule: the table is written anew.
        (row(), 2, said("pass"), ["are new"]),
        (row(), 1, said("pass", inputs="another log"), ["are new"]),
        ({}, 1, said(), ["are new"]),
        ({"gone": {"version": 1, OWN: {"1": "2"}}, **row()}, 1, said(), ["no such rule"]),
    ],
)
def test_change_is_told_with_what_to_do(before, version, now, told) -> None:
    found = faults(before, OWN, now, {"xid": version})
    assert len(found) == len(told)
    assert all(what in text and "--write" in text for what, text in zip(told, found, strict=True))


def test_new_case_beside_a_changed_one_is_not_written(tmp_path, monkeypatch, capsys) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(written({}, {OWN: said("fail")}, {"xid": 1}), encoding="utf-8")
    for module, name, value in (
        (table, "FILE", file),
        (__main__, "FILE", file),
        (__main__, "PLACE", tmp_path / "none"),
        (judged, "versions", lambda: {"xid": 1}),
        (judged, "own", lambda: said("pass", "fail")),
        (sys, "argv", ["rules", "--write"]),
    ):
        monkeypatch.setattr(module, name, value)
    before = file.read_text(encoding="utf-8")
    assert __main__.main() == 1
    assert "xid changed without a new version" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == before
    monkeypatch.setattr(judged, "versions", lambda: {"xid": 2})
    assert __main__.main() == 0
    assert faults(known(), OWN, said("pass", "fail"), {"xid": 2}) == []


def test_same_inputs_with_other_verdicts_are_no_case() -> None:
    what = said("fail")["xid"]
    with pytest.raises(ValueError, match="again and case 0"):
        what.add("again", ["log", 0], [Finding("xid", "host", "pass", 79)])


def test_written_table_is_up_to_date_and_keeps_what_could_not_be_asked() -> None:
    before = {"xid": {"version": 1, OWN: {"old": "old"}, RECORDED: {"r": "r"}}}
    # Digests of digits alone, and with the e of floats, come back as the text that they are.
    now = said("pass")
    now["xid"].cases |= {"12345678": "123456", "1234e567": "01e234"}
    found = yaml.safe_load(written(before, {OWN: now}, {"xid": 2}))
    assert faults(found, OWN, now, {"xid": 2}) == []
    assert found["xid"][RECORDED] == {"r": "r"}
    assert unversioned(found["xid"], OWN, said()["xid"], 2) == ["case 0"]
