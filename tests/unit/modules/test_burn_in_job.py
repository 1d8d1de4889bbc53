"""When burn_in_job starts a run, and when it attaches."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.evidence import expect_digest_of
from ansible_collections.muster.cluster.plugins.modules.burn_in_job import differences, must_start

PLAN = {"profile": "quick", "duration_seconds": 60.0, "interval_seconds": 5.0, "expect": {"class": "x"}}
STATE = {
    "id": "a",
    "profile": "quick",
    "duration_seconds": 60,
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


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"profile": "full"}, ["profile"]),
        ({"duration_seconds": 120, "expect_digest": "other"}, ["duration_seconds", "expect"]),
    ],
)
def test_differences_are_named(change, expected):
    assert differences({"status": "running", **STATE, **change}, PLAN) == expected


def test_nothing_differs_where_nothing_runs():
    assert differences({"status": "none"}, PLAN) == []
