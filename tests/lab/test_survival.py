"""What the chain must survive, told as one story on one lab: each test leaves the lab as the next one expects it.

Nothing here hands evidence to admission or nodes to the gate: every seam is crossed by the real processes.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest

from .conftest import LEDGER, ROOT, Lab

pytestmark = pytest.mark.lab
FAULTS = {"gpu-03", "gpu-04"}


def test_demo_ends_as_declared() -> None:
    done = subprocess.run(
        [sys.executable, "molecule/lab/demo.py"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    verdicts = {entry["node"]: entry for entry in json.loads((ROOT / "build/demo/verdicts.json").read_text())}
    assert {node: entry["state"] for node, entry in verdicts.items()} == {
        "gpu-01": "admitted",
        "gpu-02": "admitted",
        "gpu-03": "rejected",
        "gpu-04": "rejected",
    }


def test_users_reach_admitted_nodes_only(lab: Lab) -> None:
    assert lab.open_nodes() == {"gpu-01", "gpu-02"}
    ran = lab.ssh("ctl", "cd /tmp && timeout 60 srun -N2 hostname | sort", user="alice")
    assert ran.stdout.split() == ["gpu-01", "gpu-02"]
    for refused in (
        "sbatch -w gpu-03 --wrap true",
        "sbatch -p acceptance --wrap true",
        "srun -p acceptance -w gpu-03 true",
    ):
        answer = lab.ssh("ctl", f"cd /tmp && timeout 30 {refused}", user="alice", check=False)
        assert answer.returncode != 0, f"{refused} was accepted: {answer.stdout}"
    for node in ("gpu-01", "gpu-03"):
        answer = lab.ssh(node, "true", user="alice", check=False)
        assert answer.returncode != 0, f"ssh to {node} without a job was let in"


def test_second_run_retests_the_sick_and_changes_nothing(lab: Lab) -> None:
    before = {node: lab.evidence_ids(node, "burn_in") for node in ("gpu-01", "gpu-03")}
    accepted = {node: lab.evidence_ids(node, "acceptance") for node in ("gpu-01", "gpu-03", "gpu-04")}
    run = lab.play()
    assert run.rc == 2, run.output[-3000:]
    assert run.changed, "nothing was counted"
    assert set(run.changed.values()) == {0}, run.changed
    assert {node for node in run.verdicts if run.state(node) == "rejected"} == FAULTS
    assert lab.evidence_ids("gpu-01", "burn_in") == before["gpu-01"], "valid evidence was gathered again"
    assert len(lab.evidence_ids("gpu-03", "burn_in")) == len(before["gpu-03"]) + 1, (
        "the rejected node was not tested again"
    )
    assert lab.evidence_ids("gpu-01", "acceptance") == accepted["gpu-01"]
    assert lab.evidence_ids("gpu-03", "acceptance") == accepted["gpu-03"] == []
    assert len(lab.evidence_ids("gpu-04", "acceptance")) == len(accepted["gpu-04"]) + 1


def test_check_mode_leaves_no_trace(lab: Lab) -> None:
    def traces() -> list[str]:
        listing = "find /etc /usr/libexec /var/lib/muster /opt -xdev -type f -printf '%p %T@ %s\\n' | sort | sha256sum"
        ledger = [str(lab.query(f"select count(*) from {table}")) for table in ("evidence", "transition", "round")]
        return [*ledger, lab.gate_file(), *(lab.ssh(host, listing).stdout for host in ("ctl", "gpu-01", "gpu-03"))]

    before = traces()
    run = lab.play("site", "--check", "--diff")
    assert run.rc == 2, run.output[-3000:]
    assert "Judge the nodes and reconcile the gate" in run.output, "check mode did not come to the end"
    assert "Traceback" not in run.output
    assert traces() == before
    assert not run.verdicts, "check mode wrote a report"


def test_cleared_fault_is_admitted_though_admit_was_killed(lab: Lab) -> None:
    """The control process dies between the ledger's commit and the gate; the next run carries the decision out."""
    lab.set("gpu-04", network_mbps=None)
    tested = lab.evidence_ids("gpu-01", "acceptance")
    seen = len(lab.evidence_ids("gpu-04", "acceptance"))
    process, _ = lab.start()
    # With the controller's daemon stopped the gate cannot be opened, so the kill falls where it hurts most.
    lab.wait(lambda: len(lab.evidence_ids("gpu-04", "acceptance")) > seen, "acceptance evidence of gpu-04")
    lab.ssh("ctl", "pkill -STOP -x slurmctld")
    try:
        lab.wait(
            lambda: lab.query("select state from node where name='gpu-04'") == [("admitted",)],
            "gpu-04 admitted in the ledger",
        )
        lab.kill(process)
    finally:
        lab.ssh("ctl", "pkill -CONT -x slurmctld")
    assert lab.open_nodes() <= {"gpu-01", "gpu-02", "gpu-04"}
    run = lab.play("site", "-e", "target=gpu-04")
    assert (run.rc, run.state("gpu-04")) == (0, "admitted"), run.output[-3000:]
    assert lab.open_nodes() == {"gpu-01", "gpu-02", "gpu-04"}
    assert lab.evidence_ids("gpu-01", "acceptance") == tested, "what was still valid for the others was repeated"
    assert len(lab.evidence_ids("gpu-04", "acceptance")) == seen + 1, "what the killed run had proven was repeated"


def test_changed_serial_voids_evidence_and_killed_control_process_loses_nothing(lab: Lab) -> None:
    burned = lab.evidence_ids("gpu-02", "burn_in")
    proven = lab.evidence_ids("gpu-02", "acceptance")
    lab.set("gpu-02", gpu_serials={"SXM3": "1650924000001"})
    process, log = lab.start("site", "-e", "target=gpu-02")
    lab.wait(
        lambda: lab.burn_in("gpu-02").get("status") == "running" and lab.burn_in("gpu-02")["id"] not in burned,
        "burn-in of gpu-02",
    )
    job = lab.burn_in("gpu-02")
    assert "gpu-02" not in lab.open_nodes(), (
        "the gate was open while the node was tested again\n" + log.read_text()[-2000:]
    )
    lab.kill(process)
    run = lab.play("site", "-e", "target=gpu-02")
    assert run.rc == 0, run.output[-3000:]
    assert lab.evidence_ids("gpu-02", "burn_in") == [*burned, job["id"]], "burn-in was restarted or lost"
    assert len(lab.evidence_ids("gpu-02", "acceptance")) == len(proven) + 1
    assert run.state("gpu-02") == "admitted"
    assert "gpu-02" in lab.open_nodes()


def test_changed_kernel_repeats_what_depends_on_it_and_a_mass_close_asks_first(lab: Lab) -> None:
    nodes = ("gpu-01", "gpu-02", "gpu-04")
    burned = {node: lab.evidence_ids(node, "burn_in") for node in nodes}
    for node in nodes:
        lab.set(node, kernel="6.1.0-99-amd64")
    refused = lab.play()
    assert refused.rc == 2
    assert "admit_allow_mass_close" in refused.output, refused.output[-3000:]
    assert lab.open_nodes() == set(nodes), "the gate closed without consent"

    # Killed between two rounds: the next run goes on from the recorded ones.
    before = len(lab.query("select * from round"))
    process, _ = lab.start("site", "-e", "admit_allow_mass_close=true")
    lab.wait(lambda: len(lab.query("select * from round")) > before, "the first fabric round")
    lab.kill(process)
    first = lab.query("select campaign, number, started from round order by started")[before]
    run = lab.play("site", "-e", "admit_allow_mass_close=true")
    assert run.rc == 2, run.output[-3000:]
    rounds = lab.query("select campaign, number, started from round order by started")[before:]
    assert rounds[0] == first
    campaigns = list(dict.fromkeys(campaign for campaign, _, _ in rounds))
    assert len(campaigns) == 2, f"one campaign of fabric rounds, one of acceptance, none begun anew: {rounds}"
    for campaign in campaigns:
        numbers = sorted(number for each, number, _ in rounds if each == campaign)
        assert numbers == list(range(1, len(numbers) + 1)), rounds
    assert {node: lab.evidence_ids(node, "burn_in") for node in nodes} == burned, (
        "burn-in does not depend on the kernel"
    )
    assert {node for node in run.verdicts if run.state(node) == "admitted"} == set(nodes)
    assert lab.open_nodes() == set(nodes)


def test_unplanned_reboot_during_burn_in_fails_with_that_reason(lab: Lab) -> None:
    lab.set("gpu-02", gpu_serials={"SXM3": "1650924000002"})
    known = lab.evidence_ids("gpu-02", "burn_in")
    process, log = lab.start("site", "-e", "target=gpu-02")
    lab.wait(
        lambda: lab.burn_in("gpu-02").get("status") == "running" and lab.burn_in("gpu-02")["id"] not in known,
        "burn-in of gpu-02",
    )
    lab.command("reboot", "gpu-02")
    run = lab.finish(process, log)
    assert run.rc in (2, 4)
    assert run.state("gpu-02") != "admitted"
    assert "gpu-02" not in lab.open_nodes()
    # Whatever the interrupted run saw, the record on the node tells the reboot.
    findings = json.loads(
        lab.query("select findings from evidence where id=?", lab.evidence_ids("gpu-02", "burn_in")[-1])[0][0]
    )
    if run.rc == 4:
        rerun = lab.play("site", "-e", "target=gpu-02", "-e", '{"burn_in_wait_seconds": 0}')
        assert rerun.state("gpu-02") != "admitted"
        findings = json.loads(
            lab.query("select findings from evidence where id=?", lab.evidence_ids("gpu-02", "burn_in")[-1])[0][0]
        )
    assert any(item["verdict"] == "fail" and "reboot" in item["reason"] for item in findings), findings
    run = lab.play("site", "-e", "target=gpu-02")
    assert run.state("gpu-02") == "admitted", run.output[-3000:]


def test_host_that_goes_away_is_incomplete_and_others_are_unaffected(lab: Lab) -> None:
    lab.set("gpu-02", gpu_serials={"SXM3": "1650924000003"})
    known = lab.evidence_ids("gpu-02", "burn_in")
    process, log = lab.start()
    lab.wait(
        lambda: lab.burn_in("gpu-02").get("status") == "running" and lab.burn_in("gpu-02")["id"] not in known,
        "burn-in of gpu-02",
    )
    lab.command("stop", "gpu-02")
    try:
        run = lab.finish(process, log)
        assert run.rc == 4, run.output[-3000:]
        assert run.state("gpu-02") not in ("admitted", "rejected")
        assert any(item["verdict"] == "incomplete" for item in run.verdicts["gpu-02"]["findings"])
        assert (run.state("gpu-01"), run.state("gpu-03"), run.state("gpu-04")) == ("admitted", "rejected", "admitted")
        assert lab.open_nodes() == {"gpu-01", "gpu-04"}
    finally:
        lab.command("start", "gpu-02")
    # It lost power under burn-in, which is what the next run finds; the one after that tests it again.
    run = lab.play("site", "-e", "target=gpu-02")
    assert run.state("gpu-02") == "rejected"
    assert any("reboot" in item["reason"] for item in run.verdicts["gpu-02"]["findings"])
    assert lab.play("site", "-e", "target=gpu-02").state("gpu-02") == "admitted"


def test_controller_that_lost_its_state_opens_nothing_and_keeps_manual_drains(lab: Lab) -> None:
    lab.ssh("ctl", "scontrol update nodename=gpu-01 state=drain reason='fan noise, Jo'")
    lab.play("admit")
    state = lab.ssh("ctl", "scontrol show config | awk '/^StateSaveLocation/ {print $3}'").stdout.strip()
    lab.ssh("ctl", f"systemctl stop slurmctld && find {state} -mindepth 1 -delete")
    refused = lab.ssh("ctl", "systemctl start slurmctld", check=False)
    assert refused.returncode != 0, "slurmctld forgot jobs and drains, and nobody was asked"
    lab.play("provision", "-e", "slurm_accept_empty_state=true", "--limit", "ctl,localhost")
    lab.wait(lambda: lab.ssh("ctl", "sinfo -h", check=False).returncode == 0, "slurmctld")
    assert lab.open_nodes() == {"gpu-01", "gpu-02", "gpu-04"}, "the file is the truth"
    refused = lab.ssh("ctl", "cd /tmp && timeout 30 sbatch -w gpu-03 --wrap true", user="alice", check=False)
    assert refused.returncode != 0
    assert "drain" not in lab.ssh("ctl", "sinfo -h -n gpu-01 -o %T").stdout
    lab.play("admit")
    assert "drain" in lab.ssh("ctl", "sinfo -h -n gpu-01 -o %T").stdout
    assert "fan noise, Jo" in lab.ssh("ctl", "sinfo -h -R -n gpu-01 -o %E").stdout
    # Lifted by hand while the controller kept its state: it must not come back.
    lab.ssh("ctl", "scontrol update nodename=gpu-01 state=resume")
    lab.play("admit")
    assert "drain" not in lab.ssh("ctl", "sinfo -h -n gpu-01 -o %T").stdout


@pytest.mark.parametrize("case", ["missing", "empty", "older", "foreign"])
def test_wrong_ledger_stops_before_anything_changes(lab: Lab, case: str) -> None:
    kept = LEDGER.with_suffix(".kept")
    gate = lab.gate_file()
    shutil.copy2(LEDGER, kept)
    try:
        expected = _spoil(case)
        run = lab.play()
        assert run.rc == 2
        assert expected in run.output, run.output[-3000:]
        assert "Traceback" not in run.output
        assert lab.gate_file() == gate
        assert run.changed, "nothing was counted"
        assert not any(run.changed.values()), run.changed
        if case == "missing":
            assert not LEDGER.exists(), "a ledger was made without being asked for"
    finally:
        for name in LEDGER.parent.glob("ledger.sqlite*"):
            if name != kept:
                name.unlink()
        shutil.move(kept, LEDGER)


def _spoil(case: str) -> str:
    """Put the wrong ledger in place; return what the message has to say."""
    if case == "older":
        _write("update meta set generation = generation - 1")
        return "older"
    if case == "foreign":
        _write("update meta set ledger_id = '00000000-0000-4000-8000-000000000000'")
        return "00000000-0000-4000-8000-000000000000"
    LEDGER.unlink()
    if case == "empty":
        LEDGER.touch()
        return "empty"
    return "ledger_create"


def _write(sql: str) -> None:
    with sqlite3.connect(LEDGER, timeout=30) as connection:
        connection.execute(sql)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("lab_h100", "lab_h1000", "lab_h1000"),
        ("gpu-[01-04]", "gpu-[01-", "gpu-[01-"),
        ("cluster:", "clutser:", "clutser"),
    ],
)
def test_wrong_fleet_file_is_one_clear_error(lab: Lab, old: str, new: str, said: str) -> None:
    fleet = ROOT / "inventory/lab/lab.fleet.yml"
    text = fleet.read_text()
    assert old in text
    try:
        fleet.write_text(text.replace(old, new, 1))
        run = lab.play()
    finally:
        fleet.write_text(text)
    assert run.rc != 0
    assert said in run.output
    assert "lab.fleet.yml" in run.output
    assert "Traceback" not in run.output
    assert "PLAY [" not in run.output, "a play began on a fleet that is not valid"


@pytest.mark.parametrize("target", ["gpu-99", "ctl", "all"])
def test_targets_that_are_no_compute_nodes_stop_the_run(lab: Lab, target: str) -> None:
    run = lab.play("site", "-e", f"target={target}")
    assert run.rc != 0
    assert "expected compute nodes" in run.output, run.output[-3000:]
    assert not any(run.changed.values())


def test_limit_without_the_control_machine_is_refused(lab: Lab) -> None:
    run = lab.play("site", "--limit", "gpu-04")
    assert run.rc == 2
    assert "--limit gpu-01,gpu-02,localhost" in run.output
    assert "PLAY [Provision" not in run.output


def test_gpu_that_the_driver_calls_lost_is_rejected_by_name(lab: Lab) -> None:
    """A node in service whose tool can no longer read one GPU: closed, burned in again, the GPU named."""
    lab.set("gpu-01", gpus_lost=["SXM2"])
    try:
        run = lab.play("site", "-e", "target=gpu-01")
        assert run.rc == 2, run.output[-3000:]
        assert "gpu-01" not in lab.open_nodes()
        lost = next(each for each in run.verdicts["gpu-01"]["findings"] if each["verdict"] == "fail")
        assert (run.state("gpu-01"), run.verdicts["gpu-01"]["stage"]) == ("rejected", "burn_in")
        assert (lost["action"], lost["subject"]) == ("reboot", "gpu SXM2 0000:05:00.0")
    finally:
        lab.set("gpu-01", gpus_lost=None)
    run = lab.play("site", "-e", "target=gpu-01")
    assert (run.rc, run.state("gpu-01")) == (0, "admitted"), run.output[-3000:]


def test_xid_on_a_node_in_service_closes_the_gate(lab: Lab) -> None:
    lab.set("gpu-01", kernel_log=["NVRM: Xid (PCI:0000:05:00): 48, pid=7, name=python, DBE (double bit error)"])
    try:
        run = lab.play("site", "-e", "target=gpu-01")
        assert (run.rc, run.state("gpu-01")) == (2, "rejected"), run.output[-3000:]
        assert "gpu-01" not in lab.open_nodes()
    finally:
        lab.set("gpu-01", kernel_log=None)
    assert lab.play("site", "-e", "target=gpu-01").rc == 0


@pytest.mark.parametrize("fault", ["hang", "crash", "truncate", "missing"])
def test_broken_tool_never_admits(lab: Lab, fault: str) -> None:
    """The tool that everything rests on is broken: never admitted; and back when it works again."""
    lab.set("gpu-01", tool_faults={"nvidia-smi": fault})
    try:
        run = lab.play("admit", "-e", "target=gpu-01")
        assert run.state("gpu-01") != "admitted", run.output[-3000:]
        assert "gpu-01" not in lab.open_nodes()
    finally:
        lab.set("gpu-01", tool_faults=None)
    assert lab.play("admit", "-e", "target=gpu-01").state("gpu-01") == "admitted"


def test_all_hosts_gone_closes_the_gate(lab: Lab) -> None:
    nodes = [f"gpu-0{number}" for number in range(1, 5)]
    for node in nodes:
        lab.command("stop", node)
    try:
        started = time.monotonic()
        run = lab.play()
        assert run.rc == 4, run.output[-3000:]
        assert lab.open_nodes() == set()
        assert set(run.verdicts) == set(nodes), "a node that is gone was left out of the verdicts"
        assert not {node for node in nodes if run.state(node) == "admitted"}
        assert time.monotonic() - started < 300
    finally:
        for node in nodes:
            lab.command("start", node)
    run = lab.play()
    assert run.rc == 2, run.output[-3000:]
    assert lab.open_nodes() == {"gpu-01", "gpu-02", "gpu-04"}
