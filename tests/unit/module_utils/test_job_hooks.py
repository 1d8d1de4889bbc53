"""Prolog and epilog: what they judge, what they compare with, and which processes they end."""

import signal
import subprocess
import sys

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.module_utils.in_service import job_hooks
from ansible_collections.muster.cluster.plugins.module_utils.in_service.job_hooks import Process, leftovers
from ansible_collections.muster.cluster.plugins.module_utils.probes import heartbeat
from ansible_collections.muster.cluster.plugins.module_utils.probes.heartbeat import Heartbeat
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding

from tests.typed import typed

BOOT = "11111111-2222-3333-4444-555555555555"
XID = "[  900.000000] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n"
USER = 2001


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


def process(pid, name="python3", uid=USER, parent=400, job=""):
    return Process(pid, uid, parent, name, job)


@pytest.mark.parametrize(
    ("there", "alive", "ended"),
    [
        ([process(1, job="7")], {"7"}, {1}),
        # Another job of the same user goes on; what that of yesterday left does not.
        ([process(1, job="7"), process(2, job="8"), process(3, job="6")], {"8"}, {1, 3}),
        ([process(1, uid=2002, job="7"), process(2, uid=0)], set(), set()),
        # Left to init, and a login, which ends by itself.
        ([process(1, parent=1), process(2, "sshd"), process(3, "bash", parent=2)], set(), {1}),
        ([process(1, parent=1), process(2, job="8")], {"8"}, set()),
        ([process(1, "systemd", parent=1)], set(), set()),
    ],
)
def test_processes_that_a_job_left(there, alive, ended):
    assert {each.pid for each in leftovers(there, alive, "7", USER)} == ended


def test_of_a_service_only_what_names_the_job_is_ended():
    there = [process(1, uid=120, job="7"), process(2, uid=120, parent=1), process(3, uid=120, job="6")]
    assert {each.pid for each in leftovers(there, set(), "7", 120)} == {1}


PROC = {
    "/proc/1/status": "Name:\tsystemd\nState:\tS\nPid:\t1\nPPid:\t0\nUid:\t0\t0\t0\t0\n",
    "/proc/1/cmdline": "/sbin/init\0",
    "/proc/40/status": "Name:\tslurmstepd\nState:\tS\nPid:\t40\nPPid:\t1\nUid:\t0\t0\t0\t0\n",
    "/proc/40/cmdline": "slurmstepd: [8.batch]\0",
    "/proc/50/status": f"Name:\tpython3\nState:\tR\nPid:\t50\nPPid:\t1\nUid:\t{USER}\t{USER}\t0\t0\n",
    "/proc/50/cmdline": "python3\0train.py\0",
    "/proc/50/environ": "A=b\0SLURM_JOB_ID=7\0SLURM_JOBID=7\0",
    "/proc/51/status": f"Name:\tpython3\nState:\tZ (zombie)\nPid:\t51\nPPid:\t1\nUid:\t{USER}\t{USER}\t0\t0\n",
    "/proc/51/cmdline": "",
    "/proc/51/environ": "",
    "/proc/52/status": "Name:\t",
}


class ProcHost:
    """A host of processes; one that is killed is gone, unless it is stuck."""

    def __init__(self):
        self.files, self.killed, self.stuck = dict(PROC), [], False

    def paths(self, *patterns):
        ending = patterns[0].rpartition("/")[2]
        return sorted(path for path in self.files if path.endswith(f"/{ending}"))

    def read(self, path):
        return Output(self.files[path]) if path in self.files else Output(rc=None, error="gone")

    def kill(self, pid, number):
        self.killed.append((pid, number))
        if not self.stuck:
            self.files = {path: text for path, text in self.files.items() if f"/{pid}/" not in path}


def test_what_the_job_left_is_killed():
    host = ProcHost()
    assert job_hooks.jobs_alive(host) == {"8"}
    assert job_hooks.end_leftovers(host, "7", USER, host.kill, 0.1) == []
    assert host.killed == [(50, signal.SIGKILL)]


def test_process_that_cannot_be_killed_fails_the_host():
    host = ProcHost()
    host.stuck = True
    (finding,) = job_hooks.end_leftovers(host, "7", USER, host.kill, 0.1)
    assert (finding.verdict, finding.measured, finding.action) == ("fail", 1, "reboot")
    assert "python3 (50)" in finding.reason


def test_processes_of_this_host_are_read():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"SLURM_JOB_ID": "4711"})
    try:
        seen = [each for each in job_hooks.processes(LocalHost()) if each.pid == child.pid]
        assert len(seen) == 1 and seen[0].job in ("4711", "")
    finally:
        child.kill()
        child.communicate()
