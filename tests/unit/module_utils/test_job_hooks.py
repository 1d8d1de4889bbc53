"""Prolog and epilog: what they judge, and what they compare with."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.in_service import job_hooks
from ansible_collections.muster.cluster.plugins.module_utils.probes import heartbeat
from ansible_collections.muster.cluster.plugins.module_utils.probes.heartbeat import Heartbeat
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding

from tests.typed import typed

BOOT = "11111111-2222-3333-4444-555555555555"
XID = "[  900.000000] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n"


def found(findings):
    return {(item.check, item.subject, item.verdict) for item in findings}


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "jobs" / "7.json"


def before(host, expect, kept):
    return job_hooks.before_job(host, typed(expect), kept)[0]


def after(host, expect, kept):
    return job_hooks.after_job(host, typed(expect), kept)[0]


def test_healthy_host_passes_before_and_after(fake_host, expect, kept):
    assert before(fake_host, expect, kept) == []
    record = heartbeat.parse(Output(kept.read_text()))
    assert (record.boot_id, record.log_seconds, record.counters["ce_count mc0"]) == (BOOT, 14.6, 0)
    assert after(fake_host, expect, kept) == [] and not kept.exists()


def test_nobody_asks_slurm_or_a_slow_tool(fake_host, expect, kept):
    before(fake_host, expect, kept)
    after(fake_host, expect, kept)
    slow = {"scontrol", "squeue", "nvidia-smi", "journalctl", "dcgmi"}
    assert not slow & {argv[0] for argv in fake_host.runs}


def test_log_before_the_last_health_run_was_judged_by_it(fake_host, expect, kept):
    fake_host.outputs["dmesg"] = Output(fake_host.outputs["dmesg"].stdout + XID + "[  901.000000] usb 1-1: a\n")
    fake_host.outputs[heartbeat.PATH] = Output(Heartbeat(1e9, BOOT, "pass", log_seconds=901.0).to_json())
    assert before(fake_host, expect, kept) == []
    fake_host.outputs[heartbeat.PATH] = Output(Heartbeat(1e9, BOOT, "pass", log_seconds=899.0).to_json())
    assert found(before(fake_host, expect, kept)) == {("xid", "gpu SXM1 0000:1b:00.0", "fail")}


def test_what_health_found_keeps_jobs_off(fake_host, expect, kept):
    failed = Finding("xid", "gpu SXM1 0000:1b:00.0", "fail", reason="Xid 79")
    fake_host.outputs[heartbeat.PATH] = Output(Heartbeat(1e9, BOOT, "fail", (failed,), log_seconds=1e6).to_json())
    assert found(before(fake_host, expect, kept)) == found([failed])
    # Of another boot it says nothing.
    fake_host.outputs[heartbeat.PATH] = Output(Heartbeat(1e9, "other", "fail", (failed,), log_seconds=1e6).to_json())
    assert before(fake_host, expect, kept) == []


@pytest.mark.parametrize("probe", ["dmesg", "df", "/sys/bus/pci/devices/0000:ab:00.0/vendor"])
def test_what_cannot_be_read_keeps_jobs_off(fake_host, expect, kept, probe):
    fake_host.outputs[probe] = Output(rc=None, timed_out=True, error="no answer")
    assert before(fake_host, expect, kept)


def test_unreadable_heartbeat_hides_no_fault(fake_host, expect, kept):
    fake_host.outputs[heartbeat.PATH] = Output("{")
    fake_host.outputs["dmesg"] = Output(fake_host.outputs["dmesg"].stdout + XID)
    assert ("xid", "gpu SXM1 0000:1b:00.0", "fail") in found(before(fake_host, expect, kept))


def test_memory_errors_are_counted_from_the_jobs_begin(fake_host, expect, kept):
    corrected = "/sys/devices/system/edac/mc/mc0/ce_count"
    fake_host.outputs[corrected] = Output("1000\n")
    before(fake_host, expect, kept)
    fake_host.outputs[corrected] = Output("1010\n")
    assert after(fake_host, expect, kept) == []
    before(fake_host, expect, kept)
    fake_host.outputs[corrected] = Output("1021\n")
    assert found(after(fake_host, expect, kept)) == {("counter_growth", "host", "fail")}


def test_gpu_memory_errors_after_a_job_fail(fake_host, expect, kept):
    told = fake_host.outputs["/usr/bin/python3"].stdout.replace('"ecc_uncorrected": 0', '"ecc_uncorrected": 2', 1)
    fake_host.outputs["/usr/bin/python3"] = Output(told)
    assert found(after(fake_host, expect, kept)) == {("nvml", "gpu SXM1 0000:1b:00.0", "fail")}


def test_gpus_that_another_job_uses_are_not_asked(fake_host, expect, kept):
    fake_host.outputs["/usr/bin/python3"] = Output('{"busy": "python3 (4711)"}\n')
    assert after(fake_host, expect, kept) == []
