"""The health run: what it judges, what it remembers, and that it never waits."""

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import collect
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.in_service import health
from ansible_collections.muster.cluster.plugins.module_utils.probes import heartbeat, preflights
from ansible_collections.muster.cluster.plugins.module_utils.probes.heartbeat import Heartbeat
from ansible_collections.muster.cluster.plugins.module_utils.words.deviation import Deviation
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding

from tests.typed import typed

BOOT = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
NOW = 1737435000.0
XID = "[  900.000000] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n"


def run(host, expect, last=None, now=NOW, waivers=()):
    if last is not None:
        host.outputs[heartbeat.PATH] = Output(last.to_json())
    return health.examine(host, typed(expect), now, waivers)


def found(beat):
    return {(item.check, item.subject, item.verdict) for item in beat.findings}


def say(host, *lines):
    host.outputs["dmesg"] = Output(host.outputs["dmesg"].stdout + "".join(lines))


def keep_last(host, count):
    lines = host.outputs["dmesg"].stdout.splitlines(keepends=True)
    host.outputs["dmesg"] = Output("".join(lines[-count:]))


def test_healthy_host_passes_and_leaves_what_the_next_run_needs(fake_host, expect):
    beat = run(fake_host, expect)
    assert (beat.verdict, beat.findings, beat.boot_id, beat.log_lost) == ("pass", (), BOOT, False)
    assert beat.log_seconds == 14.6 and beat.counters["ce_count mc0"] == 0
    assert heartbeat.parse(Output(beat.to_json())) == beat
    assert run(fake_host, expect, beat).verdict == "pass"


def test_no_gpu_is_asked(fake_host, expect):
    run(fake_host, expect)
    assert not {"nvidia-smi", "journalctl", "dcgmi"} & {argv[0] for argv in fake_host.runs}


def test_error_in_the_log_fails_and_is_not_forgotten_until_the_next_boot(fake_host, expect):
    first = run(fake_host, expect)
    say(fake_host, XID)
    second = run(fake_host, expect, first)
    failed = ("xid", "gpu SXM1 0000:1b:00.0", "fail")
    assert second.verdict == "fail" and found(second) == {failed}
    say(fake_host, "[  950.000000] usb 1-1: a\n")
    third = run(fake_host, expect, second)
    assert found(third) == {failed} and third.log_seconds == 950.0
    fake_host.outputs["dmesg"] = Output("[    0.000000] Linux version 6.1\n")
    fake_host.outputs["/proc/sys/kernel/random/boot_id"] = Output(OTHER + "\n")
    after = run(fake_host, expect, third)
    assert ("boot_preflight", "host", "incomplete") in found(after) and failed not in found(after)


def test_waived_error_in_the_log_counts_again_after_the_last_day(fake_host, expect):
    day = datetime.fromtimestamp(NOW, UTC).date()
    waiver = Deviation("xid", day.isoformat(), "gpu SXM1 *")
    say(fake_host, XID)
    first = run(fake_host, expect, waivers=[waiver])
    assert (first.verdict, found(first), [item.check for item in first.waived]) == ("pass", set(), ["xid"])
    assert heartbeat.parse(Output(first.to_json())) == first
    # The log is read on from here, and the error is not forgotten.
    say(fake_host, "[  950.000000] usb 1-1: a\n")
    second = run(fake_host, expect, first, waivers=[waiver])
    assert (second.verdict, len(second.waived)) == ("pass", 1)
    late = run(fake_host, expect, second, NOW + 86400, [waiver])
    assert (late.verdict, found(late), late.waived) == ("fail", {("xid", "gpu SXM1 0000:1b:00.0", "fail")}, ())
    for other in (replace(waiver, subject="gpu SXM2 *"), replace(waiver, check="disk")):
        assert run(fake_host, expect, second, waivers=[other]).verdict == "fail"


def test_waived_fault_of_the_preflight_keeps_no_boot_out_of_service(fake_host, expect):
    day = datetime.fromtimestamp(NOW, UTC).date().isoformat()
    for path, output in fake_host.outputs.items():
        if path.startswith(preflights.DIRECTORY):
            data = json.loads(output.stdout)
            data["findings"].append(Finding("clock", "host", "fail", reason="no GPS").to_dict())
            fake_host.outputs[path] = Output(json.dumps(data))
    assert found(run(fake_host, expect)) == {("boot_preflight", "host", "fail")}
    assert run(fake_host, expect, waivers=[Deviation("clock", day)]).verdict == "pass"
    assert run(fake_host, expect, waivers=[Deviation("disk", day)]).verdict == "fail"
    for path in [path for path in fake_host.outputs if path.startswith(preflights.DIRECTORY)]:
        fake_host.outputs[path] = Output("{")
    assert run(fake_host, expect, waivers=[Deviation("clock", day)]).verdict == "incomplete"


def test_only_messages_since_the_last_run_are_judged(fake_host, expect):
    say(fake_host, "[  100.000000] nfs: server a not responding\n", XID, "[  901.000000] usb 1-1: a\n")
    last = Heartbeat(NOW - 300, BOOT, "pass", log_seconds=901.0)
    assert run(fake_host, expect, last).verdict == "pass"


def test_lost_messages_are_incomplete_until_a_preflight_reads_the_journal(fake_host, expect):
    first = run(fake_host, expect)
    say(fake_host, *[f"[{900 + index}.000000] usb 1-1: a\n" for index in range(9)])
    keep_last(fake_host, 5)
    lost = run(fake_host, expect, first)
    assert found(lost) == {("log_continuity", "host", "incomplete")} and lost.log_lost
    again = run(fake_host, expect, lost, NOW + 300)
    assert again.verdict == "incomplete" and again.log_lost
    (path,) = fake_host.paths("/var/lib/muster/evidence/preflight/*/evidence.json")
    record = json.loads(fake_host.outputs[path].stdout)
    fake_host.outputs[path] = Output(json.dumps({**record, "finished": NOW + 400}))
    assert run(fake_host, expect, again, NOW + 600).verdict == "pass"


def test_first_run_without_the_start_of_the_boot_is_incomplete(fake_host, expect):
    keep_last(fake_host, 3)
    assert found(run(fake_host, expect)) == {("log_continuity", "host", "incomplete")}


@pytest.mark.parametrize("verdict", ["fail", "incomplete"])
def test_boot_whose_last_preflight_did_not_pass_is_no_better(fake_host, expect, verdict):
    (path,) = fake_host.paths("/var/lib/muster/evidence/preflight/*/evidence.json")
    record = json.loads(fake_host.outputs[path].stdout)
    record["findings"][0]["verdict"] = verdict
    fake_host.outputs[path] = Output(json.dumps(record))
    assert found(run(fake_host, expect)) == {("boot_preflight", "host", verdict)}
    # Examined again, and passed.
    again = {**record, "finished": record["finished"] + 1, "findings": [{**record["findings"][0], "verdict": "pass"}]}
    fake_host.outputs[path.replace("e1", "e2")] = Output(json.dumps(again))
    assert run(fake_host, expect).verdict == "pass"


def test_preflight_that_found_nothing_at_all_is_none(fake_host, expect):
    (path,) = fake_host.paths("/var/lib/muster/evidence/preflight/*/evidence.json")
    fake_host.outputs[path] = Output(json.dumps({**json.loads(fake_host.outputs[path].stdout), "findings": []}))
    assert found(run(fake_host, expect)) == {("boot_preflight", "host", "incomplete")}


def test_log_line_that_nobody_can_judge_stays_incomplete_until_the_next_boot(fake_host, expect):
    """An Xid that is in no catalogue is no better for being silent since, as a known one is not."""
    say(fake_host, "[  900.000000] NVRM: Xid (PCI:0000:1b:00): 999, unheard of\n")
    first = run(fake_host, expect)
    unknown = {("xid", "gpu SXM1 0000:1b:00.0", "incomplete")}
    assert found(first) == unknown
    say(fake_host, "[  950.000000] usb 1-1: a\n")
    assert found(run(fake_host, expect, first)) == unknown


def test_log_line_that_nobody_can_judge_outlives_a_run_without_an_answer(fake_host, expect, tmp_path):
    say(fake_host, "[  900.000000] NVRM: Xid (PCI:0000:1b:00): 999, unheard of\n")
    (tmp_path / "health.json").write_text(run(fake_host, expect).to_json())
    silent = health._silent("no answer within 6 s", str(tmp_path), 2000.0)
    say(fake_host, "[  950.000000] usb 1-1: a\n")
    assert found(run(fake_host, expect, silent)) == {("xid", "gpu SXM1 0000:1b:00.0", "incomplete")}


def test_gpus_in_use_are_not_asked_and_not_passed(fake_host, expect):
    fake_host.outputs["/usr/bin/python3"] = Output('{"busy": "python3 (4711)"}\n')
    outputs = collect(fake_host, [registry.PROBES[name] for name in registry.probes_of("health")], typed(expect))
    asked = registry.judge_stage("health", outputs, typed(expect), loaded=True).findings
    assert asked and not [finding for finding in asked if finding.check == "nvml"]
    assert run(fake_host, expect).verdict == "pass"


def test_log_that_could_not_be_read_is_forgiven_once_it_is_read(fake_host, expect):
    good = fake_host.outputs["dmesg"]
    fake_host.outputs["dmesg"] = Output(rc=None, timed_out=True, error="dmesg: no answer within 5 s")
    first = run(fake_host, expect)
    assert first.verdict == "incomplete"
    fake_host.outputs["dmesg"] = good
    assert run(fake_host, expect, first).verdict == "pass"


def test_garbled_log_is_unread_and_costs_no_other_answer(fake_host, expect):
    first = run(fake_host, expect)
    good = fake_host.outputs["dmesg"]
    fake_host.outputs["dmesg"] = Output("\0\1 no text\n")
    second = run(fake_host, expect, first)
    assert second.verdict == "incomplete" and {item.check for item in second.findings} >= {"xid", "log_continuity"}
    fake_host.outputs["dmesg"] = good
    assert run(fake_host, expect, second).verdict == "pass"


def test_boot_without_a_preflight_is_incomplete(fake_host, expect):
    (path,) = fake_host.paths("/var/lib/muster/evidence/preflight/*/evidence.json")
    del fake_host.outputs[path]
    assert found(run(fake_host, expect)) == {("boot_preflight", "host", "incomplete")}


@pytest.mark.parametrize(
    ("change", "verdict", "action"),
    [
        (
            {"vendor": Output(rc=None, error="gone"), "current_link_width": Output(rc=None, error="gone")},
            "fail",
            "reboot",
        ),
        ({"vendor": Output("0xffff\n"), "current_link_width": Output("63\n")}, "fail", "reboot"),
        ({"current_link_width": Output("8\n")}, "fail", "reseat"),
        ({"current_link_width": Output("N/A\n")}, "incomplete", "investigate"),
        ({"vendor": Output("\n")}, "incomplete", "investigate"),
        ({"information": Output(rc=None, error="gone")}, "fail", "reboot"),
    ],
)
def test_gpu_on_the_bus(fake_host, expect, change, verdict, action):
    for name, output in change.items():
        place = "/proc/driver/nvidia/gpus" if name == "information" else "/sys/bus/pci/devices"
        fake_host.outputs[f"{place}/0000:ab:00.0/{name}"] = output
    (finding,) = run(fake_host, expect).findings
    assert (finding.subject, finding.verdict, finding.action) == ("gpu SXM6 0000:ab:00.0", verdict, action)


LINK = "/sys/bus/pci/devices/0000:1a:00.0/infiniband/mlx5_0/ports/1/counters/link_downed"
CORRECTED = "/sys/devices/system/edac/mc/mc0/ce_count"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (LINK, "4", set()),
        (LINK, "5", {("counter_growth", "nic rail0", "fail")}),
        (CORRECTED, "10", set()),
        (CORRECTED, "11", {("counter_growth", "host", "fail")}),
        (CORRECTED.replace("ce_", "ue_"), "1", {("counter_growth", "host", "fail")}),
        (LINK, "N/A", {("counter_growth", "host", "incomplete")}),
    ],
)
def test_counters_are_compared_with_those_of_the_last_day(fake_host, expect, path, text, expected):
    first = run(fake_host, expect)
    fake_host.outputs[path] = Output(text + "\n")
    second = run(fake_host, expect, first, NOW + 300)
    assert found(second) == expected
    assert second.counters_time == NOW and second.counters == first.counters
    if text.isdecimal() and "ue_" not in path:
        late = run(fake_host, expect, second, NOW + 86400)
        assert late.counters_time == NOW + 86400
        assert run(fake_host, expect, late, NOW + 86700).verdict == "pass"


def test_counters_are_compared_by_address_when_a_device_is_called_otherwise(fake_host, expect):
    first = run(fake_host, expect)
    for key in [key for key in fake_host.outputs if "mlx5_" in key]:
        fake_host.outputs[key.replace("mlx5_", "rocep")] = fake_host.outputs.pop(key)
    assert run(fake_host, expect, first, NOW + 300).verdict == "pass"
    fake_host.outputs[LINK.replace("mlx5_", "rocep")] = Output("5\n")
    assert found(run(fake_host, expect, first, NOW + 600)) == {("counter_growth", "nic rail0", "fail")}


@pytest.mark.parametrize("probe", ["dmesg", "/proc/sys/kernel/random/boot_id", "df"])
def test_what_cannot_be_read_costs_the_pass(fake_host, expect, probe):
    fake_host.outputs[probe] = Output(rc=None, timed_out=True, error="no answer")
    assert run(fake_host, expect).verdict == "incomplete"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1}', "\x00"])
def test_unreadable_heartbeat_is_incomplete(fake_host, expect, text):
    fake_host.outputs[heartbeat.PATH] = Output(text)
    assert run(fake_host, expect).verdict == "incomplete"
    assert health.judge_heartbeat(Output(text), BOOT, NOW, 900)[0] == "incomplete"


@pytest.mark.parametrize(
    ("beat", "boot", "now", "verdict", "reason"),
    [
        (Heartbeat(NOW, BOOT, "pass"), BOOT, NOW, "pass", None),
        (Heartbeat(NOW, BOOT, "pass"), BOOT, NOW + 900, "pass", None),
        (Heartbeat(NOW, BOOT, "fail", (Finding("xid", "host", "fail"),)), BOOT, NOW + 900, "fail", ""),
        (Heartbeat(NOW, BOOT, "pass"), BOOT, NOW + 901, "incomplete", "901 s old"),
        (Heartbeat(NOW, BOOT, "pass"), BOOT, NOW - 6, "incomplete", "6 s in the future"),
        (Heartbeat(NOW, BOOT, "pass"), OTHER, NOW, "incomplete", "of boot"),
        (Heartbeat(NOW, "", "pass"), "", NOW, "incomplete", "of boot unknown"),
        (Heartbeat(NOW, BOOT, "fail", (Finding("xid", "host", "fail"),)), BOOT, NOW + 901, "incomplete", "old"),
    ],
)
def test_heartbeat_answers_only_for_its_boot_and_time(beat, boot, now, verdict, reason):
    given, findings = health.judge_heartbeat(Output(beat.to_json()), boot, now, 900)
    assert health.judge_heartbeat(Output(beat.to_json()), boot, now, float("nan"))[0] == "incomplete"
    assert given == verdict
    assert reason is None or reason in findings[0].reason


def test_missing_heartbeat_is_incomplete():
    verdict, findings = health.judge_heartbeat(Output(rc=None, error="health.json: no such file"), BOOT, NOW, 900)
    assert verdict == "incomplete" and "no such file" in findings[0].reason


def test_work_that_hangs_is_given_up(tmp_path):
    assert health.within(0.3, lambda: time.sleep(60) or "late") is None


def test_work_that_raises_or_dies_is_no_answer(capfd):
    assert health.within(5, lambda: str(1 // 0)) is None
    assert "ZeroDivisionError" in capfd.readouterr().err
    assert health.within(5, lambda: os.kill(os.getpid(), 9) or "") is None
    assert health.within(5, lambda: "x" * 300000) == "x" * 300000


def test_run_without_expectations_is_incomplete_and_says_so(tmp_path, capsys):
    status = health.run(str(tmp_path / "expect.json"), str(tmp_path / "hooks.json"), str(tmp_path), "n1")
    said = json.loads(capsys.readouterr().out)
    assert status == 2 and said["verdict"] == "incomplete" and "expect.json" in said["findings"][0]["reason"]
    assert heartbeat.parse(Output((tmp_path / "health.json").read_text())).verdict == "incomplete"
    assert health.status(str(tmp_path), 900) == 2


def test_run_that_measured_nothing_keeps_what_had_failed(tmp_path, capsys):
    last = Heartbeat(NOW, BOOT, "fail", (Finding("xid", "gpu SXM1 0000:1b:00.0", "fail"),), log_seconds=7.0)
    (tmp_path / "health.json").write_text(last.to_json())
    assert health.run(str(tmp_path / "expect.json"), str(tmp_path / "hooks.json"), str(tmp_path), "n1") == 1
    beat = heartbeat.parse(Output((tmp_path / "health.json").read_text()))
    assert (beat.boot_id, beat.log_seconds, len(beat.findings)) == (BOOT, 7.0, 2)


def test_heartbeat_that_cannot_be_written_is_no_pass(tmp_path, capsys):
    (tmp_path / "state").write_text("")
    assert health.run(str(tmp_path / "expect.json"), str(tmp_path / "hooks.json"), str(tmp_path / "state"), "n1") == 2
    assert "could not be written" in capsys.readouterr().out


def test_state_directory_stands_for_the_usual_place(tmp_path):
    (tmp_path / "evidence" / "preflight" / "a").mkdir(parents=True)
    (tmp_path / "evidence" / "preflight" / "a" / "evidence.json").write_text("x")
    host = health.HealthHost("/bin", "/nonexistent", str(tmp_path))
    (path,) = host.paths("/var/lib/muster/evidence/preflight/*/evidence.json")
    assert path == "/var/lib/muster/evidence/preflight/a/evidence.json" and host.read(path).stdout == "x"
    assert host.paths("/proc/*") == [] and host.read("/proc/version").rc is None
