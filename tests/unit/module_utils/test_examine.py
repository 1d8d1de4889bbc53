"""judge(): nothing unmeasured passes."""

from types import SimpleNamespace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import judge
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import stated
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import INCOMPLETE, PASS, Finding


def parse(output):
    if output.stdout == "raise":
        raise Unreadable("no number")
    return int(output.stdout)


PROBES = {"tool": SimpleNamespace(NAME="tool", parse=parse)}


def check(subjects, decide):
    return SimpleNamespace(NAME="check", PROBES=("tool",), subjects=subjects, decide=decide)


def passing(values, expect):
    return [Finding("check", "a", PASS), Finding("check", "b", PASS)]


def owed(expect):
    return ["a", "b"]


def verdicts(output, checks):
    examination = judge({} if output is None else {"tool": output}, PROBES, checks, {})
    return [(finding.subject, finding.verdict, finding.reason) for finding in examination.findings]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (None, "tool was not run"),
        (Output("1", timed_out=True, rc=None, error="tool: no answer within 5 s"), "tool: no answer within 5 s"),
        (Output("1", rc=None, error="tool: not found"), "tool: not found"),
        (Output("raise"), "tool: no number"),
        (Output("x"), "tool: parser failed: ValueError: invalid literal for int() with base 10: 'x'"),
    ],
)
def test_unreadable_probe_leaves_every_owed_part_incomplete(output, reason):
    assert verdicts(output, [check(owed, passing)]) == [("a", INCOMPLETE, reason), ("b", INCOMPLETE, reason)]


def test_raising_check_leaves_every_part_incomplete():
    def decide(values, expect):
        return [Finding("check", "a", PASS), Finding("check", "b", PASS)][: 1 // 0]

    reason = "check failed: ZeroDivisionError: integer division or modulo by zero"
    assert verdicts(Output("1"), [check(owed, decide)]) == [("a", INCOMPLETE, reason), ("b", INCOMPLETE, reason)]


def test_part_without_a_finding_is_incomplete():
    found = verdicts(Output("1"), [check(lambda expect: ["a", "b", "c"], passing)])
    assert found[2] == ("c", INCOMPLETE, "the check gave no finding on this part")


def test_part_that_the_class_does_not_declare_is_incomplete():
    found = verdicts(Output("1"), [check(lambda expect: [stated(None)], passing)])
    assert found == [
        ("host", INCOMPLETE, "ReadError: found nothing, expected a class that declares what is to be judged")
    ]


def test_check_that_does_not_apply_owes_nothing():
    assert verdicts(Output("raise"), [check(lambda expect: [], passing)]) == []
