"""When burn_in_job starts a run, and when it attaches."""

import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.slurm import node_jobs
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
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


@pytest.fixture(autouse=True)
def no_slurm(tmp_path, monkeypatch):
    """The module's host has no processes, whatever runs on this one."""
    monkeypatch.setattr(burn_in_job, "LocalHost", lambda path: LocalHost(path, str(tmp_path / "host")))


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


# A controller of one node, in files: its state and reason, its jobs, and what it was told.
SCONTROL = """#!/bin/sh
[ -e {place}/gone ] && {{ echo "Slurmctld(primary) at ctl is DOWN"; exit 1; }}
case "$*" in
    ping) ;;
    "show node gpu-01 --oneliner") echo "NodeName=gpu-01 OS=Linux $(cat {place}/node)" ;;
    "update NodeName=gpu-01 State=DRAIN Reason=muster: burn_in loads this node")
        echo "State=IDLE+DRAIN BootTime=None Reason=ours [root@2026-11-20T10:00:00]" > {place}/node ;;
    *) echo "unexpected: $*" >&2; exit 1 ;;
esac
echo "$1 $2" >> {place}/told
"""
SQUEUE = """#!/bin/sh
case "$*" in *--nodelist=gpu-01*) ;; *) exit 1 ;; esac
sed -n '1p' {place}/jobs | tr ' ' '\\n' | sed '/^$/d'
sed -i '1d' {place}/jobs
"""


# The node program, with what its examination of the inlet gives.
INLET = """#!/bin/sh
case "$*" in
    "examine --stage burn_in --check inlet_temperature --node gpu-01") cat > {place}/expect; cat {place}/inlet ;;
    *) echo '{{"status": "none"}}' ;;
esac
"""


def inlet(verdict, celsius):
    reason = "" if verdict == "pass" else "Inlet Temp above the class limit"
    return json.dumps([Finding("inlet_temperature", "host", verdict, celsius, 35, "C", reason).to_dict()])


def test_nothing_starts_in_warm_air_and_the_node_is_not_drained(slurm, tmp_path):
    result, started = slurm("", inlet=inlet("fail", 41))
    assert not started and not result.get("failed") and not result["changed"] and not result["started_now"]
    assert result["waits"] == "inlet of gpu-01 at 41 C: Inlet Temp above the class limit"
    assert "update" not in (tmp_path / "told").read_text()
    assert json.loads((tmp_path / "expect").read_text())["bmc"]["inlet"]["limit_celsius"] == 35


def test_a_site_that_accepts_the_inlet_of_a_node_starts_it(slurm):
    waivers = [{"check": "inlet_temperature", "subject": "*", "until": "2999-12-31"}]
    result, started = slurm("", inlet=inlet("fail", 41), waivers=waivers)
    assert len(started) == 1 and result["waits"] == ""


@pytest.mark.parametrize("air", [inlet("pass", 22), inlet("incomplete", None)])
def test_burn_in_starts_in_cool_air_and_judges_a_sensor_that_says_nothing_itself(slurm, air):
    result, started = slurm("", inlet=air)
    assert len(started) == 1 and result["waits"] == ""


@pytest.mark.parametrize("air", ["", "Traceback", "[]", "{}", "[3]"])
def test_nothing_starts_where_the_inlet_was_not_examined(slurm, air):
    result, started = slurm("", inlet=air)
    assert result["failed"] and not started and not result["started_now"]


def test_nothing_starts_that_is_not_to_start(slurm, tmp_path):
    result, started = slurm("", may_start=False)
    assert not started and result["waits"] == "no run is under way" and not result.get("failed")
    assert "update" not in (tmp_path / "told").read_text()


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Runs the module on a host with slurmd; ``jobs`` are Slurm's answers, one after the other."""
    for name, text in (("scontrol", SCONTROL), ("squeue", SQUEUE)):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text.format(place=tmp_path))
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/comm").write_text("slurmd\n")
    (tmp_path / "node").write_text("State=IDLE BootTime=None")
    (tmp_path / "told").write_text("")
    tool = tmp_path / "muster"
    tool.write_text('#!/bin/sh\necho \'{"status": "none"}\'\n')
    tool.chmod(0o755)
    monkeypatch.setattr(burn_in_job, "LocalHost", lambda path: LocalHost(path, str(tmp_path)))
    monkeypatch.setattr(node_jobs, "POLL_SECONDS", 0.05)
    started = []
    monkeypatch.setattr(burn_in_job, "start", lambda module, plan: started.append(plan["id"]))

    def run(*jobs, wait=0, check=False, inlet=None, **more):
        (tmp_path / "jobs").write_text("".join(f"{line}\n" for line in jobs))
        expect = {"class": "x", "tools": {"path": f"{tmp_path}/bin:/usr/bin:/bin"}}
        if inlet is not None:
            expect["bmc"] = {"inlet": {"sensor": "Inlet Temp", "limit_celsius": 35}}
            (tmp_path / "inlet").write_text(inlet)
            tool.write_text(INLET.format(place=tmp_path))
        given = {**PLAN_HERE, "expect": expect, "jobs_wait_seconds": wait, **more}
        return run_module("burn_in_job", check=check, tool=str(tool), **given), started

    return run


def test_no_burn_in_starts_while_a_job_runs_and_the_node_is_drained(slurm, tmp_path):
    result, started = slurm("12|1000|RUNNING 14|1001|COMPLETING")
    assert result["failed"] and not started and result["changed"]
    assert result["msg"] == (
        "burn-in was not started: jobs 12 (uid 1000), 14 (uid 1001) still on gpu-01 after 0 s; the node is drained, "
        "and the next run goes on from here"
    )
    # The next run finds it drained.
    result, started = slurm("14|1001|COMPLETING")
    assert result["failed"] and not started and not result["changed"]
    assert (tmp_path / "told").read_text().count("update") == 1


def test_burn_in_starts_when_the_last_job_has_ended(slurm):
    result, started = slurm("12|1000|RUNNING", "12|1000|RUNNING", "", wait=20)
    assert not result.get("failed") and len(started) == 1 and result["jobs"] == []


def test_jobs_that_wait_or_are_over_are_none(slurm):
    _, started = slurm("12|1000|COMPLETED 14|1001|PENDING")
    assert len(started) == 1


def test_state_that_nobody_knows_is_a_job(slurm):
    result, started = slurm("12|1000|LEVITATING")
    assert result["failed"] and not started


def test_step_of_a_job_that_slurm_does_not_name_starts_no_burn_in(slurm, tmp_path):
    (tmp_path / "proc/8").mkdir()
    (tmp_path / "proc/8/comm").write_text("slurmstepd\n")
    result, started = slurm("", "", "", "", "", "")
    assert result["failed"] and not started
    assert "squeue names no job on gpu-01, and the step of one runs here" in result["msg"]


def test_node_without_jobs_is_drained_too_as_one_might_start(slurm, tmp_path):
    result, started = slurm("")
    assert len(started) == 1 and result["changed"]
    assert (tmp_path / "told").read_text().splitlines().index("update NodeName=gpu-01") > 0


def test_drain_of_a_person_is_left_alone(slurm, tmp_path):
    (tmp_path / "node").write_text("State=IDLE+DRAIN BootTime=None Reason=fan [jo@2026-11-20T10:00:00]")
    result, started = slurm("")
    assert len(started) == 1 and not result["changed"] and "update" not in (tmp_path / "told").read_text()


@pytest.mark.parametrize("trouble", ["gone", "strange"])
def test_no_burn_in_starts_where_slurm_does_not_say(slurm, tmp_path, trouble):
    if trouble == "gone":
        (tmp_path / "gone").touch()
    result, started = slurm(*["no number at all"] * 9)
    assert result["failed"] and not started
    assert "not known whether jobs run on gpu-01" in result["msg"], result["msg"]


@pytest.mark.parametrize("daemon", ["sshd", None])
def test_host_that_does_not_serve_slurm_has_no_jobs(slurm, tmp_path, daemon):
    (tmp_path / "proc/7/comm").write_text(f"{daemon}\n")
    (tmp_path / "gone").touch()
    result, started = slurm()
    assert len(started) == 1 and not result["changed"]


def test_step_that_outlived_slurmd_is_a_job(slurm, tmp_path):
    (tmp_path / "proc/7/comm").write_text("slurmstepd\n")
    result, started = slurm("12|1000|RUNNING")
    assert result["failed"] and not started


def test_check_mode_names_the_jobs_and_drains_nothing(slurm, tmp_path):
    result, started = slurm("12|1000|RUNNING", check=True)
    assert (result["jobs"], result["changed"], started) == (["12"], True, [])
    assert "update" not in (tmp_path / "told").read_text()


def test_run_under_way_is_attached_to_whatever_slurm_says(slurm, tmp_path):
    (tmp_path / "gone").touch()
    status = json.dumps({**STATE, "status": "running", "node": "gpu-01"})
    (tmp_path / "muster").write_text(f"#!/bin/sh\ncat <<'END'\n{status}\nEND\n")
    assert slurm()[0]["status"] == "running"
