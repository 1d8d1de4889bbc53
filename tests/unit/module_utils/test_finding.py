"""Findings: comparing them, and reading them back."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding, worst

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
