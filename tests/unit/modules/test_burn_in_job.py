"""When burn_in_job starts a run, and when it attaches."""

import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.modules import burn_in_job
from ansible_collections.muster.cluster.plugins.modules.burn_in_job import (
    differences,
    must_start,
    why_discarded,
)

from tests.run_module import run_module

PLAN = {"profile": "quick", "steps": [{"seconds": 60.0}], "interval_seconds": 5.0, "expect": {"class": "x"}}
STATE = {
    "id": "a",
    "profile": "quick",
    "steps": [{"seconds": 60}],
    "interval_seconds": 5,
    "expect_digest": expect_digest_of("burn_in", {"class": "x"}),
}


@pytest.mark.parametrize(
    ("status", "known", "expected"),
    [
        ({"status": "none"}, [], True),
        ({"status": "running", "id": "a"}, [], False),
        ({"status": "running", "id": "a"}, ["a"], False),
        # Its evidence is not in the ledger yet: collected, not overwritten.
        ({"status": "finished", "id": "a"}, [], False),
        ({"status": "finished", "id": "a"}, ["b"], False),
        ({"status": "finished", "id": "a"}, ["b", "a"], True),
    ],
)
def test_must_start(status, known, expected):
    assert must_start(status, known) is expected


EVIDENCE = Evidence("a", "gpu-01", "burn_in", 1.0, 2.0, "boot", {}, "digest").to_dict()
ENDED = {"status": "finished", "id": "a", "node": "gpu-01", "evidence": EVIDENCE}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        # The disk is another node's: its run can never be collected here.
        ({**ENDED, "evidence": {**EVIDENCE, "node": "gpu-02"}}, "node is 'gpu-02', expected 'gpu-01'"),
        ({**ENDED, "evidence": {**EVIDENCE, "findings": None}}, "findings is NoneType"),
        ({**ENDED, "evidence": {**EVIDENCE, "id": "b"}}, "id is 'b', expected 'a'"),
        (
            {**ENDED, "evidence": None, "message": "evidence cannot be read: gone"},
            "run a: evidence cannot be read: gone",
        ),
        ({"status": "none", "message": "state.json: not the state of a burn-in"}, "state.json"),
    ],
)
def test_run_that_can_never_be_collected_gives_way_and_is_named(status, said):
    discarded = why_discarded(status, [], "gpu-01")
    assert said in discarded
    assert must_start(status, [], discarded)


@pytest.mark.parametrize("known", [[], ["a"], ["b"]])
@pytest.mark.parametrize(
    "status", [ENDED, {"status": "none"}, {**ENDED, "status": "running"}, {**ENDED, "status": "interrupted"}]
)
def test_run_that_is_or_was_collected_is_not_called_discarded(status, known):
    assert why_discarded(status, known, "gpu-01") == ""


def test_collected_run_is_not_called_discarded_whatever_became_of_its_file():
    assert why_discarded({**ENDED, "evidence": None}, ["a"], "gpu-01") == ""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"profile": "full"}, ["profile"]),
        ({"steps": [{"seconds": 120}], "expect_digest": "other"}, ["steps", "expect"]),
    ],
)
def test_differences_are_named(change, expected):
    assert differences({"status": "running", **STATE, **change}, PLAN) == expected


PLAN_HERE = {**PLAN, "node": "gpu-01"}


@pytest.fixture
def start(tmp_path):
    """Runs the module, in check mode, on a host whose program says ``status``."""

    def run(status, **plan):
        tool = tmp_path / "muster"
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(status)}\nEND\n")
        tool.chmod(0o755)
        return run_module("burn_in_job", check=True, tool=str(tool), **{**PLAN_HERE, **plan})

    return run


def test_result_says_what_is_discarded(start):
    result = start({**ENDED, "evidence": {**EVIDENCE, "node": "gpu-02"}})
    assert "node is 'gpu-02', expected 'gpu-01'" in result["discarded"]
    assert start(ENDED)["discarded"] == ""


def test_run_under_way_for_another_node_is_not_waited_for(start):
    result = start({**STATE, "status": "running", "node": "gpu-02"})
    assert result["failed"] and "under way for node 'gpu-02', expected 'gpu-01'" in result["msg"]
    assert start({**STATE, "status": "running", "node": "gpu-01"})["status"] == "running"


def test_nothing_differs_where_nothing_runs():
    assert differences({"status": "none"}, PLAN) == []


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({}, "burn_in_allow_reboot is false, expected true: profile quick has a planned warm reboot"),
        ({"allow_reboot": True}, "class x declares no bmc: profile quick has a planned power_cycle reboot"),
        ({"allow_reboot": True, "expect": {"class": "x", "bmc": {"interface": "ipmitool"}}}, ""),
    ],
)
def test_reboots_that_the_node_would_refuse_are_named_before_anything_starts(start, plan, said):
    steps = [{"seconds": 5}, {"reboot": "warm"}, {"reboot": "power_cycle"}]
    result = start({"status": "none"}, steps=steps, **plan)
    assert said in result.get("msg", "") and bool(result.get("failed")) is bool(said)


def test_run_with_reboots_that_is_under_way_is_waited_for(start):
    status = {**STATE, "status": "running", "node": "gpu-01"}
    assert start(status, steps=[{"reboot": "warm"}])["status"] == "running"


def test_plan_that_cannot_be_written_is_named_with_its_file(tmp_path, monkeypatch):
    (tmp_path / "full").write_text("")
    monkeypatch.setattr(burn_in_job, "PLAN", str(tmp_path / "full/burn_in.json"))
    tool = tmp_path / "muster"
    tool.write_text('#!/bin/sh\necho \'{"status": "none"}\'\n')
    tool.chmod(0o755)
    result = run_module("burn_in_job", tool=str(tool), **PLAN_HERE)
    assert result["failed"] and result["msg"] == f"{tmp_path}/full: File exists; nothing was started"
