"""A burn-in run: what it keeps, how it ends, and what is told apart afterwards."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.burn_in import burn_in, burn_in_load
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in import (
    Clock,
    Environment,
    Stopped,
    resumable,
    run,
    run_finding,
    settle,
)
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import Plan, steps_of
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_record import (
    REBOOT_LIMIT_SECONDS,
    Record,
    status,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import NoAnswer, NodeJob
from ansible_collections.muster.cluster.plugins.module_utils.words.deviation import Deviation
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding, worst
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import Count

from tests.typed import typed

BOOT, OTHER_BOOT = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
XID = Output(
    "2025-01-21T04:41:44+0000 h kernel: Linux version 6.1.0\n"
    "2025-01-21T04:42:44+0000 h kernel: NVRM: Xid (PCI:0000:ab:00): 79, GPU has fallen off the bus.\n"
)


class World:
    """A clock that only sleeping moves, and what happens while it does."""

    def __init__(self, tmp_path, host, expect):
        self.now = 1000.0
        self.host = host
        self.record = Record(str(tmp_path))
        self.plan = Plan("run-1", "gpu-01", "quick", steps_of([{"seconds": 60}]), 25, typed(expect))
        self.told = []
        self.events = {}
        self.down = False
        self.wall = 1e9
        self.jobs = []

    def sleep(self, seconds):
        time.sleep(0.001)
        self.now += seconds
        for when in sorted(self.events):
            if self.now >= when:
                self.events.pop(when)()

    def run(self, resumed=(), **changes):
        self.plan = Plan(**{**self.plan.__dict__, **changes})
        clock = Clock(lambda: self.now + self.wall, lambda: self.now, self.sleep)
        tell, down = self.told.append, lambda: self.down
        environment = Environment(self.record, self.host, lambda: self.host, "0.1.0", clock, tell, down, self.slurm)
        return run(self.plan, environment, *resumed)

    def slurm(self):
        """What Slurm says of jobs on this node."""
        if isinstance(self.jobs, Exception):
            raise self.jobs
        return self.jobs

    def status(self):
        return status(self.record, self.now, self.now + self.wall)

    def stop(self):
        raise Stopped


@pytest.fixture
def world(tmp_path, fake_host, expect):
    return World(tmp_path, fake_host, expect)


def kept(world):
    return Evidence.from_dict(world.record.store.read("burn_in", world.plan.id))


def own(evidence):
    (found,) = [finding for finding in evidence.findings if finding.check == "burn_in"]
    return found


def verdict_of(evidence):
    return worst(finding.verdict for finding in evidence.findings)


@pytest.mark.parametrize(
    ("elapsed", "ended", "verdict"), [(60.0, "", PASS), (59.9, "", INCOMPLETE), (60.0, "stopped", INCOMPLETE)]
)
def test_only_the_whole_duration_passes(world, elapsed, ended, verdict):
    found = run_finding(60, elapsed, ended)
    assert (found.verdict, found.expected) == (verdict, 60)


def test_whole_run_examines_at_start_at_intervals_and_at_the_end(world):
    evidence = world.run()
    assert verdict_of(evidence) == PASS
    assert (own(evidence).measured, own(evidence).expected, own(evidence).unit) == (60, 60, "s")
    assert evidence.detail["examinations"] == 4
    assert evidence == kept(world) and evidence.finished is not None
    assert world.status()["status"] == "finished"
    assert world.told[0] == "READY=1"


def test_evidence_is_on_disk_after_every_examination(world):
    seen = []
    world.events[1020] = lambda: seen.append((kept(world).finished, verdict_of(kept(world)), world.record.state()))
    world.run()
    assert seen[0][:2] == (None, INCOMPLETE)
    assert seen[0][2]["status"] == "running" and seen[0][2]["examinations"] == 1


def test_first_failure_ends_the_run_and_is_kept_with_its_time(world):
    world.events[1020] = lambda: world.host.outputs.update(journalctl=XID)
    evidence = world.run()
    assert verdict_of(evidence) == FAIL
    assert own(evidence).verdict == INCOMPLETE and "stopped at the first failure after 25" in own(evidence).reason
    assert evidence.detail["first_failed"] == {"xid gpu SXM6 0000:ab:00.0": {"at": 1e9 + 1025, "examination": 2}}
    raw = world.record.store.path("burn_in", "run-1").parent / "first_failed"
    assert "Xid" in (raw / "kernel_log.txt").read_text()


def test_xid_in_mid_run_is_told_by_its_check_alone(world):
    world.events[1020] = lambda: world.host.outputs.update(journalctl=XID)
    told = [item for item in world.run().findings if item.verdict != PASS]
    assert [(item.check, item.subject) for item in told] == [("xid", "gpu SXM6 0000:ab:00.0"), ("burn_in", "host")]


def test_time_spent_is_never_rounded_up(world):
    world.events[1059.96] = world.stop
    evidence = world.run(interval_seconds=59.96)
    assert own(evidence).verdict == INCOMPLETE and own(evidence).measured == 59
    assert evidence.detail["elapsed_seconds"] == pytest.approx(59.96, abs=0.001)
    assert evidence.detail["duration_seconds"] == 60


def test_whole_time_spent_is_never_rounded_down(world):
    assert world.run(steps=steps_of([{"seconds": 60.03125}])).detail["elapsed_seconds"] >= 60.03125


def test_setting_the_wall_clock_moves_no_progress(world):
    seen = []

    def look():
        with world.record.locked():
            seen.append(world.status())

    world.events[1020] = look
    world.wall = 5e9
    world.run()
    assert [(state["status"], state["percent"], state["eta_seconds"]) for state in seen] == [("running", 41, 35.0)]


def test_run_goes_on_after_a_failure_when_told_to(world):
    good = world.host.outputs["journalctl"]
    world.events[1020] = lambda: world.host.outputs.update(journalctl=XID)
    world.events[1040] = lambda: world.host.outputs.update(journalctl=good)
    evidence = world.run(stop_on_fail=False)
    assert own(evidence).verdict == PASS and verdict_of(evidence) == FAIL
    assert evidence.detail["examinations"] == 4


@pytest.mark.parametrize(("check", "whole"), [("xid", True), ("clock", False)])
def test_run_goes_on_after_a_failure_that_is_waived_and_keeps_it(world, check, whole):
    world.events[1020] = lambda: world.host.outputs.update(journalctl=XID)
    evidence = world.run(waivers=(Deviation(check, "2999-12-31"),))
    assert (own(evidence).verdict == PASS, verdict_of(evidence)) == (whole, FAIL)


@pytest.mark.parametrize("waived", [False, True])
def test_warm_inlet_ends_the_run_as_more_load_heats_the_neighbours_too(world, waived):
    """No examination comes after it, and no load, unless a site accepts it (a broken sensor)."""
    cool = world.host.outputs["ipmitool sdr elist"].stdout
    warm = re.sub(r"(Inlet Temp.*\| )\d+( degrees C)", r"\g<1>38\g<2>", cool)
    assert warm != cool
    world.events[1020] = lambda: world.host.outputs.update({"ipmitool sdr elist": Output(warm)})
    waivers = (Deviation("inlet_temperature", "2999-12-31"),) if waived else (Deviation("clock", "2999-12-31"),)
    evidence = world.run(stop_on_fail=False, waivers=waivers)
    if waived:
        assert (own(evidence).verdict, verdict_of(evidence)) == (PASS, FAIL)
        return
    assert own(evidence).verdict == INCOMPLETE and evidence.detail["examinations"] == 2
    assert own(evidence).reason.startswith("stopped after 25 of 60 s: Inlet Temp above the class limit")


def test_unreadable_twice_in_a_row_is_not_forgotten(world):
    good = world.host.outputs["chronyc"]
    world.events[1020] = lambda: world.host.outputs.update(chronyc=Output("", "506", 1))
    world.events[1055] = lambda: world.host.outputs.update(chronyc=good)
    assert verdict_of(world.run(steps=steps_of([{"seconds": 120}]))) == INCOMPLETE


HUNG = Output(rc=None, timed_out=True, error="nvidia-smi: no answer within 60 s")


def test_tool_that_hangs_twice_ends_the_run_which_more_hours_cannot_mend(world):
    world.host.outputs["nvidia-smi"] = HUNG
    evidence = world.run(steps=steps_of([{"seconds": 14400}]))
    assert verdict_of(evidence) == INCOMPLETE and world.now < 1000 + 60
    assert own(evidence).reason == "stopped after 25 of 14400 s: nvidia_smi gave no answer, and none 25 s later"
    assert "nvidia-smi: no answer within 60 s" in finding_of(evidence, "fingerprint").reason


def test_tool_that_hangs_does_not_end_a_run_that_is_to_show_everything(world):
    world.host.outputs["nvidia-smi"] = HUNG
    assert own(world.run(stop_on_fail=False)).verdict == PASS


def test_tool_that_hung_once_ends_nothing(world):
    good = world.host.outputs["nvidia-smi"]
    world.host.outputs["nvidia-smi"] = HUNG
    world.events[1020] = lambda: world.host.outputs.update({"nvidia-smi": good})
    assert verdict_of(world.run()) == PASS


def test_what_a_second_question_answers_is_measured(world):
    good = world.host.outputs["chronyc"]
    world.events[1020] = lambda: world.host.outputs.update(chronyc=Output("", "506", 1))
    world.events[1040] = lambda: world.host.outputs.update(chronyc=good)
    evidence = world.run()
    assert verdict_of(evidence) == PASS and evidence.detail["asked_again"] == {"clock": 1}


def test_failure_beside_what_was_unreadable_at_first_is_not_forgotten(world):
    good, log = world.host.outputs["chronyc"], world.host.outputs["journalctl"]
    world.events[1020] = lambda: world.host.outputs.update(chronyc=Output("", "506", 1), journalctl=XID)
    world.events[1040] = lambda: world.host.outputs.update(chronyc=good, journalctl=log)
    assert verdict_of(world.run()) == FAIL


def test_tool_that_fails_time_and_again_is_incomplete_however_often_it_answers_in_between(world):
    class Moody(dict):
        asked = 0

        def __getitem__(self, key):
            self.asked += key == "chronyc"
            return Output("", "506", 1) if key == "chronyc" and self.asked % 2 else super().__getitem__(key)

    world.host.outputs = Moody(world.host.outputs)
    assert verdict_of(world.run(steps=steps_of([{"seconds": 600}]))) == INCOMPLETE


def test_gpu_exchanged_in_mid_run_is_incomplete(world, make_gpu_xml):
    other = Output(make_gpu_xml(["00000000:1B:00.0", "00000000:AB:00.0"], serial="9{:d}"))
    world.events[1020] = lambda: world.host.outputs.update({"nvidia-smi": other})
    evidence = world.run()
    assert verdict_of(evidence) == INCOMPLETE
    assert any("gpu_serials was" in finding.reason for finding in evidence.findings)
    assert evidence.fingerprint["gpu_serials"] == "0000:1b:00.0=1651,0000:ab:00.0=1652"


def test_memory_module_exchanged_in_mid_run_is_incomplete(world):
    slots = world.host.outputs["dmidecode -t memory"].stdout
    other = Output(slots.replace("51000003", "80CE0123"))
    world.events[1020] = lambda: world.host.outputs.update({"dmidecode -t memory": other})
    evidence = world.run()
    assert verdict_of(evidence) == INCOMPLETE
    assert any("dimms was" in finding.reason for finding in evidence.findings)


def test_evidence_says_which_machine_it_was(world):
    identity = world.run().identity
    assert (identity["slurmd_node"], identity["bmc_mac"]) == ("gpu-01", "7c:c2:55:09:5b:e0")


def test_gpu_exchanged_and_put_back_before_the_second_question_is_not_forgotten(world, make_gpu_xml):
    good = world.host.outputs["nvidia-smi"]
    other = Output(make_gpu_xml(["00000000:1B:00.0", "00000000:AB:00.0"], serial="9{:d}"))
    world.events[1020] = lambda: world.host.outputs.update({"nvidia-smi": other})
    world.events[1040] = lambda: world.host.outputs.update({"nvidia-smi": good})
    evidence = world.run()
    assert verdict_of(evidence) == INCOMPLETE
    assert any("gpu_serials was" in finding.reason for finding in evidence.findings)


def test_serials_that_a_second_question_tells_are_no_change(world):
    good = world.host.outputs["nvidia-smi"]
    world.events[1020] = lambda: world.host.outputs.update({"nvidia-smi": Output(rc=None, error="no answer")})
    world.events[1040] = lambda: world.host.outputs.update({"nvidia-smi": good})
    assert verdict_of(world.run()) == PASS


def test_sigterm_ends_the_run_as_incomplete(world):
    world.events[1020] = world.stop
    evidence = world.run()
    assert own(evidence).verdict == INCOMPLETE and "SIGTERM" in own(evidence).reason
    assert evidence.detail["examinations"] == 1 and kept(world).finished is not None


def test_shutdown_leaves_the_run_open_and_the_next_boot_fails_it(world):
    world.down = True
    world.events[1020] = world.stop
    world.run()
    assert kept(world).finished is None and world.status()["status"] == "interrupted"
    assert settle(world.record, lambda root: OTHER_BOOT, 2000.0)
    found = own(kept(world))
    assert (found.verdict, found.action) == (FAIL, "investigate")
    assert found.reason == f"unplanned reboot during burn-in: boot id {BOOT}, now {OTHER_BOOT}"
    assert kept(world).finished == 2000.0 and world.status()["status"] == "finished"
    assert world.status()["failed"] == 1


@pytest.mark.parametrize(
    ("boot", "verdict", "reason"),
    [(BOOT, INCOMPLETE, "ended early"), ("", INCOMPLETE, "boot id unreadable"), (OTHER_BOOT, FAIL, "unplanned reboot")],
)
def test_settling_a_run_that_was_cut_off(world, boot, verdict, reason):
    world.down = True
    world.events[1020] = world.stop
    world.run()
    settle(world.record, lambda root: boot, 2000.0)
    assert own(kept(world)).verdict == verdict and reason in own(kept(world)).reason
    # What had been found is kept.
    assert len(kept(world).findings) > 5


def test_settling_without_readable_evidence_still_gives_evidence(world):
    world.down = True
    world.events[1020] = world.stop
    world.run()
    world.record.store.path("burn_in", "run-1").write_text('{"half')
    settle(world.record, lambda root: BOOT, 2000.0)
    assert verdict_of(kept(world)) == INCOMPLETE


def test_finished_run_is_not_settled(world):
    world.run()
    assert not settle(world.record, lambda root: OTHER_BOOT, 2000.0)
    assert verdict_of(kept(world)) == PASS


@pytest.mark.parametrize("text", ["{", "[]", '{"id": "x"}', '{"id": "x", "status": "finished"}'])
def test_unreadable_state_is_no_run(world, text):
    world.record.directory.mkdir()
    (world.record.directory / "state.json").write_text(text)
    assert world.status()["status"] == "none" and "state.json" in world.status()["message"]


@dataclass(frozen=True)
class BenchSettings:
    level: Count | None = None


class Bench:
    """A stress that takes ``seconds`` of the world's time and says what it was asked."""

    NAME = "bench"
    RULES = 1
    SETTINGS = BenchSettings

    def __init__(self, world):
        self.world = world
        self.asked = []
        self.takes = None
        self.says = Output("good")
        self.killed = False

    def collect(self, host, expect, seconds, settings):
        self.asked.append((seconds, {} if settings.level is None else {"level": settings.level}))
        end = self.world.now + (seconds if self.takes is None else self.takes)
        while self.world.now < end and not self.killed:
            time.sleep(0.0005)
        return self.says

    def parse(self, output):
        if output.stdout not in ("good", "bad"):
            raise Unreadable(f"found {output.stdout!r}")
        return output.stdout


@pytest.fixture
def bench(world, monkeypatch):
    def decide(values, expect):
        return [Finding("bench", "host", PASS if values["bench"] == "good" else FAIL)]

    made = Bench(world)
    check = SimpleNamespace(NAME="bench", RULES=1, PROBES=("bench",), subjects=lambda expect: ["host"], decide=decide)
    package = registry.__package__.rpartition(".")[0]
    monkeypatch.setitem(sys.modules, f"{package}.stress.bench", made)
    monkeypatch.setitem(sys.modules, f"{package}.checks.bench", check)
    monkeypatch.setitem(registry.STRESS_CHECKS, "bench", ("bench",))
    world.host.stop = lambda: setattr(made, "killed", True)
    return made


def finding_of(evidence, check):
    (found,) = [item for item in evidence.findings if item.check == check]
    return found


def test_stress_runs_for_its_step_and_its_check_is_in_the_evidence(world, bench):
    evidence = world.run(steps=steps_of([{"seconds": 60, "run": {"bench": {"level": 2}}}, {"seconds": 10}]))
    assert bench.asked == [(60, {"level": 2})]
    assert finding_of(evidence, "bench").verdict == PASS and verdict_of(evidence) == PASS
    # At the start, twice under load, after each step.
    assert evidence.detail["examinations"] == 5
    assert "step_1/bench" in evidence.raw
    assert evidence.detail["steps"] == [{"seconds": 60.0, "run": {"bench": {"level": 2}}}, {"seconds": 10.0}]


@pytest.mark.parametrize(
    ("output", "verdict"),
    [(Output("bad"), FAIL), (Output(""), INCOMPLETE), (Output("good", rc=None, error="bench: crashed"), INCOMPLETE)],
)
def test_stress_that_found_or_measured_nothing_good_never_passes(world, bench, output, verdict):
    bench.says = output
    evidence = world.run(steps=steps_of([{"seconds": 60, "run": {"bench": None}}]))
    assert finding_of(evidence, "bench").verdict == verdict == verdict_of(evidence)


MEASURED = {"bench": {"host": {"watts": 700.0}}}


def measuring(bench, found):
    """Have the bench's check measure what ``found(values)`` returns."""
    check = registry.CHECKS["bench"]
    check.measures = lambda values, expect: found(values)
    check.OPTIONAL_PROBES = ("meminfo",)
    return bench


def two_loads(first=60, second=60):
    return steps_of([{"seconds": first, "run": {"bench": {}}}, {"seconds": second, "run": {"bench": {}}}])


def test_what_a_step_measured_is_in_the_evidence(world, bench):
    measuring(bench, lambda values: {"host": {"watts": 700.0}})
    evidence = world.run(steps=steps_of([{"seconds": 60, "run": {"bench": {}}}, {"seconds": 10}]))
    assert evidence.detail["measures"] == kept(world).detail["measures"] == MEASURED


def test_run_without_a_load_that_measures_has_no_measures(world, bench):
    assert world.run(steps=two_loads()).detail["measures"] == {}


def test_of_two_steps_the_later_measures_stand(world, bench):
    seen = iter([600.0, 700.0])
    measuring(bench, lambda values: {"host": {"watts": next(seen)}})
    assert world.run(steps=two_loads()).detail["measures"] == MEASURED


@pytest.mark.parametrize(
    "gone", [Output("good", rc=None, error="bench: crashed"), Output("", timed_out=True, rc=None, error="none")]
)
def test_load_that_gave_nothing_leaves_no_number_of_an_earlier_step(world, bench, gone):
    measuring(bench, lambda values: {"host": {"watts": 700.0}})
    world.events[1070] = lambda: setattr(bench, "says", gone)
    evidence = world.run(steps=two_loads())
    assert evidence.detail["measures"] == {} and finding_of(evidence, "bench").verdict == INCOMPLETE


def test_step_that_is_not_to_be_compared_leaves_what_was_measured(world, bench):
    seen = iter([{"host": {"watts": 700.0}}, None])
    measuring(bench, lambda values: next(seen))
    assert world.run(steps=two_loads()).detail["measures"] == MEASURED


def test_measures_that_fail_are_incomplete_and_never_silent(world, bench):
    measuring(bench, lambda values: {"host": {"watts": 1 / 0}})
    evidence = world.run(steps=two_loads())
    assert evidence.detail["measures"] == {} and finding_of(evidence, "bench").verdict == INCOMPLETE
    assert "its measures failed: ZeroDivisionError" in finding_of(evidence, "bench").reason


def test_host_is_measured_beside_the_load_and_never_idle(world, bench):
    told = []
    measuring(bench, lambda values: told.append(values.get("meminfo") is not None) or {"host": {"watts": 700.0}})
    # The first step ends before it was examined, the second is examined beside its load.
    world.run(steps=two_loads(first=20))
    assert told == [False, True]


def test_stress_that_does_not_end_is_killed_and_the_run_goes_on(world, bench):
    bench.takes = 1e9
    evidence = world.run(steps=steps_of([{"limit_seconds": 60, "run": {"bench": {}}}, {"seconds": 10}]))
    assert finding_of(evidence, "bench").verdict == INCOMPLETE
    assert "did not end in its time" in finding_of(evidence, "bench").reason
    assert own(evidence).verdict == PASS and bench.killed


JOBS = [NodeJob("12", 1000, "RUNNING"), NodeJob("14", 1001, "COMPLETING")]


@pytest.mark.parametrize("step", [{"seconds": 60, "run": {"bench": {}}}, {"reboot": "warm"}])
def test_no_load_and_no_reboot_meets_a_job_that_came_meanwhile(world, bench, step):
    world.jobs = JOBS
    evidence = world.run(steps=steps_of([{"seconds": 10}, step]), allow_reboot=True)
    assert not bench.asked and not any(argv[:2] == ("systemctl", "reboot") for argv in world.host.runs)
    assert own(evidence).verdict == INCOMPLETE
    assert (
        own(evidence).reason.startswith("no ")
        and "jobs 12 (uid 1000), 14 (uid 1001) on this node" in own(evidence).reason
    )


def test_no_load_starts_while_slurm_does_not_say_whether_jobs_run(world, bench):
    world.jobs = NoAnswer("slurmctld does not answer")
    evidence = world.run(steps=steps_of([{"seconds": 60, "run": {"bench": {}}}]))
    assert not bench.asked and own(evidence).verdict == INCOMPLETE
    assert "slurmctld does not answer" in own(evidence).reason and world.now >= 1000 + burn_in.SLURM_SECONDS


def test_controller_that_answers_again_costs_the_load_nothing(world, bench):
    world.jobs = NoAnswer("slurmctld does not answer")
    world.events[1100] = lambda: setattr(world, "jobs", [])
    evidence = world.run(steps=steps_of([{"seconds": 60, "run": {"bench": {}}}]))
    assert bench.asked == [(60, {})] and verdict_of(evidence) == PASS


def test_examining_alone_asks_for_no_jobs(world):
    world.jobs = JOBS
    assert verdict_of(world.run()) == PASS


def test_stress_that_ends_before_its_limit_ends_the_step(world, bench):
    bench.takes = 5
    world.run(steps=steps_of([{"limit_seconds": 3600, "run": {"bench": {}}}]))
    assert world.now < 1000 + 60


def test_stress_that_ends_early_does_not_shorten_a_timed_step(world, bench):
    bench.takes = 5
    assert world.run(steps=steps_of([{"seconds": 60, "run": {"bench": {}}}])).detail["elapsed_seconds"] >= 60


def test_failure_under_load_ends_the_stress(world, bench):
    world.events[1020] = lambda: world.host.outputs.update(journalctl=XID)
    evidence = world.run(steps=steps_of([{"seconds": 600, "run": {"bench": {}}}]))
    assert bench.killed and world.now < 1100
    assert "stopped at the first failure" in own(evidence).reason


def test_sigterm_under_load_ends_the_stress_and_keeps_what_was_found(world, bench):
    world.events[1030] = world.stop
    evidence = world.run(steps=steps_of([{"seconds": 600, "run": {"bench": {}}}]))
    assert bench.killed and "SIGTERM" in own(evidence).reason
    assert len(evidence.findings) > 5


def test_own_program_on_the_gpus_does_not_fail_a_healthy_host(world, bench, make_gpu_xml):
    idle = world.host.outputs["nvidia-smi"]
    program = "<processes><process_info><pid>9</pid><type>C</type><process_name>python3</process_name></process_info>"
    busy = idle.stdout.replace("<processes>\n\t\t</processes>", f"{program}</processes>")
    assert busy != idle.stdout
    world.events[1010] = lambda: world.host.outputs.update({"nvidia-smi": Output(busy)})
    world.events[1060] = lambda: world.host.outputs.update({"nvidia-smi": idle})
    evidence = world.run(steps=steps_of([{"seconds": 60, "run": {"bench": {}}}]))
    assert evidence.detail["examinations"] > 2
    assert [item for item in evidence.findings if item.verdict != PASS] == []


def test_stress_that_cannot_be_killed_ends_the_run(world, bench, monkeypatch):
    monkeypatch.setattr(burn_in_load, "ASKED_SECONDS", 0.05)
    monkeypatch.setattr(burn_in_load, "KILLED_SECONDS", 0.05)
    times = []
    world.host.stop = lambda: times.append(world.now)
    bench.takes = 1e9
    evidence = world.run(steps=steps_of([{"limit_seconds": 60, "run": {"bench": {}}}, {"seconds": 3600}]))
    bench.killed = True
    assert own(evidence).reason == "bench could not be killed: the host cannot be examined beside it"
    # Asked, then killed.
    assert len(times) == 2 and world.now < 1000 + 600


def test_raw_outputs_of_the_first_failed_examination_are_kept_after_a_failed_stress(world, bench):
    bench.says = Output("bad")
    world.events[1070] = lambda: world.host.outputs.update(journalctl=XID)
    steps = steps_of([{"seconds": 30, "run": {"bench": {}}}, {"seconds": 60}])
    world.run(steps=steps, stop_on_fail=False)
    place = world.record.store.path("burn_in", "run-1").parent
    assert "Xid" in (place / "first_failed" / "kernel_log.txt").read_text()


def test_full_disk_does_not_lose_the_failure(world, monkeypatch):
    def write_raw(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(world.record.store, "write_raw", write_raw)
    world.host.outputs["journalctl"] = XID
    evidence = world.run()
    assert verdict_of(kept(world)) == FAIL and world.status()["status"] == "finished"
    assert own(evidence).verdict == INCOMPLETE and "No space left" in own(evidence).reason


def test_nothing_is_examined_beside_an_exclusive_stress(world, bench):
    bench.EXCLUSIVE = True
    bench.takes = 100
    evidence = world.run(steps=steps_of([{"limit_seconds": 600, "run": {"bench": {}}}]))
    assert evidence.detail["examinations"] == 2


def test_stress_on_parts_that_the_class_has_not_is_not_run(world, bench, monkeypatch):
    sys.modules[f"{registry.__package__.rpartition('.')[0]}.checks.bench"].subjects = lambda expect: []
    evidence = world.run(steps=steps_of([{"seconds": 60, "run": {"bench": {}}}]))
    assert bench.asked == [] and verdict_of(evidence) == PASS


REBOOT = [{"seconds": 30}, {"reboot": "warm"}, {"seconds": 30}]


def reboot(world, boot=OTHER_BOOT):
    """Bring the world down at its planned reboot, and up again under another boot id."""
    world.host.outputs["systemctl"] = Output("")
    world.events[1031] = world.stop
    world.down = True
    assert world.run(steps=steps_of(REBOOT), allow_reboot=True) is None
    world.down = False
    world.host.outputs["/proc/sys/kernel/random/boot_id"] = Output(boot + "\n")


def test_planned_reboot_goes_on_with_the_next_step_and_examines_all_again(world):
    reboot(world)
    assert world.host.runs[-1] == ("systemctl", "reboot")
    assert world.status()["status"] == "running" and world.status()["reboots_left"] == 1
    resumed = resumable(world.record, world.plan, OTHER_BOOT)
    world.now = 50.0
    evidence = world.run(resumed)
    assert verdict_of(evidence) == PASS
    assert evidence.detail["boots"] == [BOOT, OTHER_BOOT]
    assert 60 <= evidence.detail["elapsed_seconds"] < 62
    assert evidence.detail["examinations"] >= 5


def test_gpu_that_vanished_in_a_planned_reboot_is_found(world, make_gpu_xml):
    reboot(world)
    world.host.outputs["nvidia-smi -q -x"] = Output(make_gpu_xml(["00000000:1B:00.0"]))
    evidence = world.run(resumable(world.record, world.plan, OTHER_BOOT))
    assert [item.subject for item in evidence.findings if item.verdict == FAIL] == ["gpu SXM6 0000:ab:00.0"]


def test_clock_that_is_steered_soon_after_a_planned_reboot_is_no_fault(world):
    reboot(world)
    good = world.host.outputs["chronyc"]
    world.host.outputs["chronyc"] = Output(good.stdout.replace("Normal", "Not synchronised"))
    world.events[world.now + 60] = lambda: world.host.outputs.update(chronyc=good)
    assert verdict_of(world.run(resumable(world.record, world.plan, OTHER_BOOT))) == PASS
    assert ("systemctl", "is-system-running", "--wait") in world.host.runs


def test_clock_that_stays_unsteered_after_a_planned_reboot_fails(world):
    reboot(world)
    good = world.host.outputs["chronyc"]
    world.host.outputs["chronyc"] = Output(good.stdout.replace("Normal", "Not synchronised"))
    evidence = world.run(resumable(world.record, world.plan, OTHER_BOOT))
    assert [item.check for item in evidence.findings if item.verdict == FAIL] == ["clock"]


def test_host_that_needed_hours_for_a_planned_reboot_is_incomplete(world):
    reboot(world)
    world.wall += REBOOT_LIMIT_SECONDS + 60
    evidence = world.run(resumable(world.record, world.plan, OTHER_BOOT))
    assert own(evidence).verdict == INCOMPLETE and "after a planned reboot" in own(evidence).reason


def test_what_is_in_memory_is_written_before_power_goes(world, expect):
    assert expect["bmc"]["interface"] == "ipmitool"
    world.host.outputs.update({"sync": Output(""), "ipmitool chassis power cycle": Output("", "no", 1)})
    world.run(steps=steps_of([{"reboot": "power_cycle"}]), allow_reboot=True)
    assert world.host.runs[-2:] == [("sync",), ("ipmitool", "chassis", "power", "cycle")]


def test_run_that_finished_just_before_the_reboot_is_not_blamed_for_it(world):
    evidence = world.run()
    world.record.write_state({**world.record.state(), "status": "running"})
    assert settle(world.record, lambda root: OTHER_BOOT, 2e9)
    assert kept(world) == evidence and world.status()["status"] == "finished"


@pytest.mark.parametrize("boot", [BOOT, ""])
def test_planned_reboot_that_did_not_happen_is_incomplete(world, boot):
    reboot(world, boot)
    assert resumable(world.record, world.plan, boot) is None
    assert settle(world.record, lambda root: boot, 2000.0, at_boot=True)
    assert own(kept(world)).verdict == INCOMPLETE and "did not go on after a planned reboot" in own(kept(world)).reason


def test_host_that_does_not_come_back_in_time_is_settled_and_not_before(world):
    reboot(world)
    kept_at = world.record.state()["kept"]
    assert not settle(world.record, lambda root: OTHER_BOOT, kept_at + REBOOT_LIMIT_SECONDS)
    assert settle(world.record, lambda root: OTHER_BOOT, kept_at + REBOOT_LIMIT_SECONDS + 1)
    assert verdict_of(kept(world)) == INCOMPLETE


def test_refused_reboot_ends_the_run(world):
    world.host.outputs["systemctl"] = Output("", "Access denied", 1)
    evidence = world.run(steps=steps_of(REBOOT), allow_reboot=True)
    assert own(evidence).reason == "planned warm reboot did not happen: Access denied"


def test_second_reboot_on_the_way_back_is_not_planned(world):
    reboot(world)
    resumed = resumable(world.record, world.plan, OTHER_BOOT)
    world.down = True
    world.events[1040] = world.stop
    world.run(resumed)
    assert resumable(world.record, world.plan, BOOT) is None
    settle(world.record, lambda root: BOOT, 2000.0)
    assert own(kept(world)).verdict == FAIL and "unplanned reboot" in own(kept(world)).reason


@pytest.fixture
def program(tmp_path, expect, node_program):
    """The real program with stand-ins for the tools, a plan of one minute, and its own state directory."""
    root = tmp_path / "root" / "proc" / "sys" / "kernel" / "random"
    root.mkdir(parents=True)
    (root / "boot_id").write_text(BOOT)
    expect["tools"] = {"path": str(tmp_path / "bin"), "root": str(tmp_path / "root")}
    plan = {
        "id": "run-1",
        "node": "n",
        "profile": "p",
        "steps": [{"seconds": 60}],
        "interval_seconds": 1,
        "expect": expect,
    }
    (tmp_path / "plan.json").write_text(json.dumps({**plan, "stop_on_fail": False}))

    def command(*words):
        plan_and_state = ["--plan", str(tmp_path / "plan.json"), "--state-directory", str(tmp_path / "state")]
        return [sys.executable, str(node_program), "burn-in", *words, *plan_and_state]

    return command


def ask(command, action):
    done = subprocess.run(command(action, "--evidence"), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def started(command):
    process = subprocess.Popen(command("run"), stdout=subprocess.DEVNULL)
    for _ in range(200):
        if ask(command, "status")["status"] == "running":
            return process
        time.sleep(0.05)
    process.kill()
    pytest.fail("the run did not start")


def test_real_process_killed_is_noticed_settled_and_not_run_again(program):
    process = started(program)
    assert ask(program, "settle")["status"] == "running"
    process.kill()
    process.wait()
    assert ask(program, "status")["status"] == "interrupted"
    state = ask(program, "settle")
    assert state["status"] == "finished" and state["percent"] == 100
    assert any("process ended early" in finding["reason"] for finding in state["evidence"]["findings"])
    # The same plan, as at the next boot: nothing to do.
    assert subprocess.run(program("run"), check=False, timeout=20).returncode == 0
    assert ask(program, "status")["evidence"] == state["evidence"]


def test_real_process_stops_cleanly_and_a_second_run_is_refused(program):
    process = started(program)
    assert subprocess.run(program("run"), check=False, capture_output=True, timeout=20).returncode == 1
    subprocess.run(program("stop"), check=True, capture_output=True, timeout=40)
    assert process.wait(20) == 0
    state = ask(program, "status")
    assert state["status"] == "finished"
    assert any("SIGTERM" in finding["reason"] for finding in state["evidence"]["findings"])


def test_real_process_after_a_reboot_fails_the_run(program, tmp_path):
    process = started(program)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    Path(tmp_path, "root/proc/sys/kernel/random/boot_id").write_text(OTHER_BOOT)
    subprocess.run(program("run"), check=True, capture_output=True, timeout=20)
    (found,) = [item for item in ask(program, "status")["evidence"]["findings"] if item["check"] == "burn_in"]
    assert found["verdict"] == "fail" and "unplanned reboot" in found["reason"]


def limited(command, size):
    """Run a command whose files cannot grow beyond a size, as on a full disk."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))  # noqa: E731
    # What Python keeps of its own modules would be cut off too.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, preexec_fn=limit, env=environment
    )


def test_evidence_that_cannot_be_written_is_named_with_its_file_and_not_by_a_traceback(program, tmp_path):
    place = f"{tmp_path}/state/evidence/burn_in/run-1/evidence.json"
    done = limited(program("run"), 3000)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr == f"muster: burn-in run: {place}: File too large\n"
    # Nor can the run be closed meanwhile; it is as soon as there is room.
    done = limited(program("settle", "--evidence"), 500)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"muster: burn-in settle: {place}: File too large\n"
    state = ask(program, "settle")
    assert state["status"] == "finished" and verdict_of(Evidence.from_dict(state["evidence"])) == INCOMPLETE


def test_wrong_plan_ends_with_status_2(program, tmp_path):
    (tmp_path / "plan.json").write_text('{"id": "x"}')
    done = subprocess.run(program("run"), capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "node: found nothing, expected text" in done.stdout


def test_systemd_is_told_through_its_socket(tmp_path, monkeypatch):
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(address)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        burn_in.notify_systemd("READY=1")
        assert link.recv(100) == b"READY=1"
