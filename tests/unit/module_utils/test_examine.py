"""collect() is over in time whatever hangs, and judge() passes nothing that was not measured."""

import time
from types import SimpleNamespace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.bounded_host import BoundedHost
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import collect, judge
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import stated
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding


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


def partly(output):
    raise Unreadable("cut off", tuple(output.stdout.split()))


def of_each_line(values, expect):
    return [
        Finding("check", part, verdict, verdict, reason=said, action=action)
        for part, verdict, said, action in (
            ("a", FAIL, "broken", "none"),
            ("b", PASS, "", "none"),
            ("c", INCOMPLETE, "odd", "none"),
            ("e", PASS, "look at it", "investigate"),
        )
        if part in values["tool"]
    ]


@pytest.mark.parametrize(
    "output",
    [Output("a b c"), Output("a b c", timed_out=True, rc=None, error="cut off"), Output("a b c", rc=None)],
)
def test_fault_in_what_could_be_read_stands_and_nothing_else_does(output):
    tool = {"tool": SimpleNamespace(NAME="tool", parse=partly)}
    checks = [check(lambda expect: ["a", "b", "c", "d"], of_each_line)]
    found = {item.subject: item for item in judge({"tool": output}, tool, checks, {}).findings}
    assert [(part, item.verdict) for part, item in found.items()] == [("a", FAIL), *((x, INCOMPLETE) for x in "bcd")]
    why = output.error or ("tool could not be run" if output.rc is None else "tool: cut off")
    assert found["a"].reason == f"broken; the rest is unread: {why}"
    assert {found[part].reason for part in "bcd"} == {why}


def test_remark_in_what_could_be_read_is_told_and_no_pass():
    tool = {"tool": SimpleNamespace(NAME="tool", parse=partly)}
    (found,) = judge({"tool": Output("e")}, tool, [check(lambda expect: ["e"], of_each_line)], {}).findings
    assert (found.verdict, found.action) == (INCOMPLETE, "investigate")
    assert found.reason == "look at it; the rest is unread: tool: cut off"


def test_check_that_raises_on_what_could_be_read_is_incomplete():
    def decide(values, expect):
        return [Finding("check", "a", FAIL)][: 1 // 0]

    tool = {"tool": SimpleNamespace(NAME="tool", parse=partly)}
    (found,) = judge({"tool": Output("a")}, tool, [check(lambda expect: ["a"], decide)], {}).findings
    assert found.verdict == INCOMPLETE
    assert found.reason.startswith("tool: cut off; check failed: ZeroDivisionError")


def test_what_could_be_read_is_no_value_and_no_measure():
    tool = {"tool": SimpleNamespace(NAME="tool", parse=partly)}
    measuring = check(lambda expect: ["a"], of_each_line)
    measuring.measures = lambda values, expect: {"a": {"speed": 1.0}}
    examination = judge({"tool": Output("a")}, tool, [measuring], {})
    assert examination.values["tool"] is None
    assert examination.measures == {"check": {}}


def test_check_of_a_partly_read_output_and_of_one_unread_is_not_asked():
    probes = {"tool": SimpleNamespace(NAME="tool", parse=partly), "other": SimpleNamespace(NAME="other", parse=parse)}
    both = check(lambda expect: ["a"], of_each_line)
    both.PROBES = ("tool", "other")
    (found,) = judge({"tool": Output("a"), "other": Output("raise")}, probes, [both], {}).findings
    assert (found.verdict, found.reason) == (INCOMPLETE, "tool: cut off; other: no number")


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


def test_measures_are_those_of_the_checks_that_owe_some():
    measuring = check(owed, passing)
    measuring.measures = lambda values, expect: {"a": {"watts": values["tool"]}, "b": {}}
    found = [judge({"tool": Output(text)}, PROBES, [measuring], {}).measures for text in ("700", "raise")]
    assert found == [{"check": {"a": {"watts": 700}}}, {"check": {}}]
    assert judge({"tool": Output("1")}, PROBES, [check(owed, passing)], {}).measures == {}


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        (7, "its measures failed: AttributeError"),
        ({"a": {"watts": float("nan")}}, "its measures failed: watts of a is nan, expected a finite number"),
        ({"a": {"watts": True}}, "its measures failed: watts of a is True, expected a finite number"),
        ({"a": {"watts": None}}, "its measures failed: watts of a is None, expected a finite number"),
    ],
)
def test_measures_that_fail_leave_nothing_measured_and_no_part_passes(measured, why):
    measuring = check(owed, lambda values, expect: [Finding("check", "a", FAIL, reason="hot"), passing(0, 0)[1]])
    measuring.measures = lambda values, expect: measured
    found = judge({"tool": Output("1")}, PROBES, [measuring], {})
    assert found.measures == {"check": {}}
    assert [(each.verdict, each.reason[: len(why)]) for each in found.findings] == [(FAIL, "hot"), (INCOMPLETE, why)]


def hanging(tmp_path, name="nvidia-smi"):
    """A host with a tool that notes each run and gives no answer."""
    tool = tmp_path / name
    tool.write_text(f"#!/bin/sh\necho $1 >> {tmp_path}/{name}.runs\nexec sleep 60\n")
    tool.chmod(0o755)
    return LocalHost(tool_path=f"{tmp_path}:/usr/bin:/bin")


def probe(name, *commands, seconds=0.3):
    return SimpleNamespace(NAME=name, collect=lambda host, expect: [host.run(argv, seconds) for argv in commands][-1])


def test_tool_that_hung_is_not_run_again_in_the_same_examination(tmp_path):
    smi = [("nvidia-smi", "-q"), ("nvidia-smi", "nvlink"), ("nvidia-smi", "topo")]
    probes = [probe("gpus", smi[0]), probe("nvlink", smi[1]), probe("other", ("echo", "fine")), probe("topo", smi[2])]
    began = time.monotonic()
    outputs = collect(hanging(tmp_path), probes, {})
    assert time.monotonic() - began < 2
    assert (tmp_path / "nvidia-smi.runs").read_text() == "-q\n"
    assert outputs["gpus"].error == "nvidia-smi: no answer within 0.3 s" and outputs["gpus"].timed_out
    assert [outputs[name].error for name in ("nvlink", "topo")] == ["not run: nvidia-smi hung before"] * 2
    assert outputs["other"].stdout == "fine\n"
    # The next examination asks again: the tool may have come back.
    assert collect(hanging(tmp_path), probes[:1], {})["gpus"].timed_out
    assert (tmp_path / "nvidia-smi.runs").read_text() == "-q\n-q\n"


def test_probe_asks_for_every_device_though_one_of_them_hangs(tmp_path):
    devices = probe("links", ("mlxlink", "mlx5_0"), ("mlxlink", "mlx5_1"))
    collect(hanging(tmp_path, "mlxlink"), [devices], {})
    assert (tmp_path / "mlxlink.runs").read_text() == "mlx5_0\nmlx5_1\n"


def test_one_program_for_python_that_hangs_is_not_another(tmp_path):
    host = BoundedHost(hanging(tmp_path, "python3"), 60)
    assert host.run(("python3", "-IS", "-c", "hang"), 0.2).timed_out
    host.next_probe()
    assert host.run(("python3", "-IS", "-c", "hang", "other words"), 0.2).error == "not run: python3 hung before"
    assert host.run(("python3", "-IS", "-c", "other"), 0.2).timed_out


def test_whole_examination_is_over_at_its_deadline(tmp_path):
    now = [0.0]
    host = BoundedHost(hanging(tmp_path), 100, lambda: now[0])
    now[0] = 99.8
    cut = host.run(("nvidia-smi", "-q"), 60)
    assert cut.timed_out and cut.error == (
        "nvidia-smi: no answer within 0.2 s, when the examination's 100 s were over"
    ), cut
    now[0] = 100.0
    assert host.run(("echo", "x"), 60).error == "echo: not run: the examination's 100 s are over"
