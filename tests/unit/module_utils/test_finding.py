"""Findings: comparing them, and reading them back."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import (
    FAIL,
    INCOMPLETE,
    PASS,
    Finding,
    merged,
    worst,
)

GOOD = Finding("memory", "host", FAIL, 1, 2.5, "MiB", "less", "reseat")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ((), INCOMPLETE),
        ((PASS,), PASS),
        ((PASS, INCOMPLETE), INCOMPLETE),
        ((INCOMPLETE, FAIL, PASS), FAIL),
        (("splendid",), INCOMPLETE),
    ],
)
def test_worst_of_verdicts(verdicts, expected):
    assert worst(verdicts) == expected


def test_finding_comes_back_as_it_was():
    assert Finding.from_dict(GOOD.to_dict()) == GOOD


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"verdict": "ok"}, "verdict 'ok'"),
        ({"action": "pray"}, "action 'pray'"),
        ({"check": None}, "check is NoneType"),
        ({"reason": 5}, "reason is int"),
        ({"measured": float("nan")}, "measured is nan"),
        ({"measured": [1]}, "measured is"),
        ({"expected": True}, "expected is True"),
        ({"extra": 1}, "unknown fields"),
    ],
)
def test_wrong_finding_is_rejected_with_its_field(change, message):
    with pytest.raises(ValueError, match=message):
        Finding.from_dict({**GOOD.to_dict(), **change})


def test_finding_without_a_field_is_rejected():
    data = GOOD.to_dict()
    del data["unit"]
    with pytest.raises(ValueError, match="missing fields"):
        Finding.from_dict(data)


def finding(verdict, reason="", subject="host"):
    return Finding("cpu", subject, verdict, reason=reason)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (finding(PASS, "old"), finding(PASS, "new"), finding(PASS, "new")),
        (finding(PASS), finding(FAIL, "new"), finding(FAIL, "new")),
        (finding(INCOMPLETE, "old"), finding(PASS), finding(INCOMPLETE, "old")),
        (finding(INCOMPLETE), finding(FAIL, "new"), finding(FAIL, "new")),
        (finding(FAIL, "first"), finding(FAIL, "second"), finding(FAIL, "first")),
        (finding(FAIL, "first"), finding(PASS), finding(FAIL, "first")),
    ],
)
def test_worst_finding_is_kept_and_the_first_of_equals(before, now, expected):
    assert merged([before], [now]) == (expected,)


def test_finding_of_another_part_is_kept_beside():
    assert len(merged([finding(PASS)], [finding(FAIL, subject="gpu")])) == 2


def test_part_that_stands_twice_keeps_the_worse_wherever_it_stands():
    assert merged([finding(FAIL), finding(PASS)], []) == merged([], [finding(PASS), finding(FAIL)]) == (finding(FAIL),)
