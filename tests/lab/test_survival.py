"""What the chain must survive, told as one story on one lab: each test leaves the lab as the next one expects it.

Nothing here hands evidence to admission or nodes to the gate: every seam is crossed by the real processes. A playbook
run takes most of a minute, so faults on different nodes share one. What stops a run before it reaches a host is tested
without the lab, in tests/unit/playbooks/test_guard.py; a second run that changes nothing in molecule/default.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from ..oracle.demo import changes
from .conftest import INVENTORY, LEDGER, ROOT, Lab
from .kills import SEED, Traced, drawn, killed

pytestmark = pytest.mark.lab
# All but gpu-03, which has lost a GPU from the first run to the last.
SOUND = ("gpu-01", "gpu-02", "gpu-04")
TARGET = ("-e", f"target={','.join(SOUND)}")
CLOSE_MANY = ("-e", "admit_allow_mass_close=true")
KILLS = 3


@pytest.mark.main_road
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
    assert changes(list(verdicts.values())) == []


@pytest.mark.main_road
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


@pytest.mark.main_road
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


# --- killed at every seam: new kernels, a changed GPU and a cleared fault, and three runs that do not come to their end


@dataclass
class Before:
    """What the ledger had before the changes; ``job`` and ``first_round`` are what killed runs had begun."""

    burned: dict[str, list[str]]
    accepted: dict[str, list[str]]
    rounds: int
    job: str = ""
    first_round: tuple[Any, ...] = ()


@pytest.fixture(scope="module")
def before(lab: Lab) -> Before:
    """Change kernels and a GPU, clear the fault of gpu-04, and return what the ledger had until then."""
    found = Before(
        {node: lab.evidence_ids(node, "burn_in") for node in SOUND},
        {node: lab.evidence_ids(node, "acceptance") for node in SOUND},
        len(lab.query("select * from round")),
    )
    for node in SOUND:
        lab.set(node, kernel="6.1.0-99-amd64")
    lab.set("gpu-02", gpu_serials={"SXM3": "1650924000001"})
    lab.set("gpu-04", network_mbps=None)
    return found


@pytest.mark.main_road
def test_new_kernels_close_nothing_and_a_changed_gpu_closes_its_node_before_burn_in(lab: Lab, before: Before) -> None:
    process, log = lab.start("site", *TARGET)
    lab.wait_for_burn_in("gpu-02", before.burned["gpu-02"])
    before.job = lab.burn_in("gpu-02")["id"]
    assert lab.open_nodes() == {"gpu-01"}, log.read_text()[-2000:]
    lab.kill(process)


@pytest.mark.main_road
def test_next_run_is_killed_between_two_rounds(lab: Lab, before: Before) -> None:
    process, _ = lab.start("site", *TARGET)
    lab.wait(lambda: len(lab.query("select * from round")) > before.rounds, "the first fabric round")
    lab.kill(process)
    before.first_round = lab.query("select campaign, number, started from round order by started")[before.rounds]


@pytest.mark.main_road
def test_next_run_is_killed_between_the_ledger_and_the_gate(lab: Lab, before: Before) -> None:
    process, _ = lab.start("site", *TARGET)
    seen = len(before.accepted["gpu-04"])
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
    assert lab.open_nodes() <= set(SOUND)


@pytest.mark.main_road
def test_last_run_carries_everything_out_and_repeats_nothing(lab: Lab, before: Before) -> None:
    run = lab.play("site", *TARGET)
    assert run.rc == 0, run.output[-3000:]
    assert {node: run.state(node) for node in SOUND} == dict.fromkeys(SOUND, "admitted")
    assert lab.open_nodes() == set(SOUND)
    # Burn-in does not depend on the kernel; the one that a killed run had started was taken up.
    assert {node: lab.evidence_ids(node, "burn_in") for node in SOUND} == {
        **before.burned,
        "gpu-02": [*before.burned["gpu-02"], before.job],
    }
    for node in SOUND:
        assert len(lab.evidence_ids(node, "acceptance")) == len(before.accepted[node]) + 1, (
            f"what a killed run had proven of {node} was repeated, or the new kernel was not tested"
        )
    rounds = lab.query("select campaign, number, started from round order by started")[before.rounds :]
    assert rounds[0] == before.first_round
    campaigns = list(dict.fromkeys(campaign for campaign, _, _ in rounds))
    assert len(campaigns) == 2, f"one campaign of fabric rounds, one of acceptance, none begun anew: {rounds}"
    for campaign in campaigns:
        numbers = sorted(number for each, number, _ in rounds if each == campaign)
        assert numbers == list(range(1, len(numbers) + 1)), rounds
    again = lab.play("site", *TARGET)
    assert (again.rc, set(again.changed.values())) == (0, {0}), again.output[-3000:]
    assert len(lab.query("select * from round")) == before.rounds + len(rounds), (
        "what nothing had voided was proven again"
    )


# --- faults under way and in service, one on each node


def test_reboot_and_lost_host_during_burn_in_leave_the_others_alone(lab: Lab) -> None:
    known = {node: lab.evidence_ids(node, "burn_in") for node in SOUND}
    for node in ("gpu-02", "gpu-04"):
        # No two nodes may have the same one.
        lab.set(node, gpu_serials={"SXM3": f"16509250000{node[-2:]}"})
    process, log = lab.start("site", *CLOSE_MANY)
    for node in ("gpu-02", "gpu-04"):
        lab.wait_for_burn_in(node, known[node])
    lab.command("stop", "gpu-04")
    try:
        lab.command("reboot", "gpu-02")
        run = lab.finish(process, log)
        assert run.rc == 4, run.output[-3000:]
        assert (run.state("gpu-01"), run.state("gpu-03")) == ("admitted", "rejected")
        assert run.state("gpu-02") != "admitted"
        assert run.state("gpu-04") not in ("admitted", "rejected")
        assert any(item["verdict"] == "incomplete" for item in run.verdicts["gpu-04"]["findings"])
        assert lab.open_nodes() == {"gpu-01"}
    finally:
        lab.command("start", "gpu-04")
    # gpu-04 lost power under burn-in, which is what the next run finds; the one after that tests it again. Whatever the
    # interrupted run saw of gpu-02, the record on the node tells the reboot: at the latest the next run reads it.
    run = lab.play("site", *TARGET)
    assert run.rc == 2, run.output[-3000:]
    assert run.state("gpu-04") == "rejected"
    assert any("reboot" in item["reason"] for item in run.verdicts["gpu-04"]["findings"])
    failed = [
        item["reason"]
        for each in lab.evidence_ids("gpu-02", "burn_in")
        if each not in known["gpu-02"]
        for item in json.loads(lab.query("select findings from evidence where id=?", each)[0][0])
        if item["verdict"] == "fail"
    ]
    assert any("reboot" in reason for reason in failed), failed
    run = lab.play("site", *TARGET)
    assert {node: run.state(node) for node in SOUND} == dict.fromkeys(SOUND, "admitted"), run.output[-3000:]
    assert lab.open_nodes() == set(SOUND)


@pytest.mark.main_road
def test_faults_in_service_close_the_gate_to_each_node_by_its_own_reason(lab: Lab) -> None:
    """A GPU that the driver calls lost, a double bit error in the kernel log, a NIC driver that waits for a reboot."""
    lab.set("gpu-01", gpus_lost=["SXM2"])
    lab.set("gpu-02", kernel_log=["NVRM: Xid (PCI:0000:05:00): 48, pid=7, name=python, DBE (double bit error)"])
    lab.set("gpu-04", doca_not_loaded=True)
    try:
        # Consent is for three at a time only: each alone is closed without it, as in molecule/slurm.
        run = lab.play("site", *TARGET, *CLOSE_MANY)
        assert run.rc == 2, run.output[-3000:]
        assert lab.open_nodes() == set()
        lost = next(each for each in run.verdicts["gpu-01"]["findings"] if each["verdict"] == "fail")
        assert (run.state("gpu-01"), run.verdicts["gpu-01"]["stage"]) == ("rejected", "burn_in")
        assert (lost["action"], lost["subject"]) == ("reboot", "gpu SXM2 0000:05:00.0")
        assert run.state("gpu-02") == "rejected"
        assert run.state("gpu-04") != "admitted" and "reboot pending: ib_core, " in run.output, run.output[-3000:]
    finally:
        lab.set("gpu-01", gpus_lost=None)
        lab.set("gpu-02", kernel_log=None)
        lab.set("gpu-04", doca_not_loaded=None)
    run = lab.play("site", *TARGET)
    assert run.rc == 0, run.output[-3000:]
    assert {node: run.state(node) for node in SOUND} == dict.fromkeys(SOUND, "admitted")


@pytest.mark.main_road
def test_broken_tool_never_admits(lab: Lab) -> None:
    """The tool that everything rests on is broken, in another way on each node; and back when it works again."""
    first, *others = SOUND
    for node, fault in zip(others, ("crash", "truncate"), strict=True):
        lab.set(node, tool_faults={"nvidia-smi": fault})
    try:
        refused = lab.play("admit", *TARGET)
        assert (refused.rc, lab.open_nodes()) == (2, set(SOUND)), "the gate closed to most nodes without consent"
        assert "admit_allow_mass_close" in refused.output, refused.output[-3000:]
        lab.set(first, tool_faults={"nvidia-smi": "hang"})
        lab.set(others[0], tool_faults={"nvidia-smi": "missing"})
        run = lab.play("admit", *TARGET, *CLOSE_MANY)
        assert "admitted" not in {run.state(node) for node in SOUND}, run.output[-3000:]
        assert lab.open_nodes() == set()
    finally:
        for node in SOUND:
            lab.set(node, tool_faults=None)


@pytest.fixture(scope="module")
def whole(lab: Lab) -> Traced:
    """Return a run that opens the nodes that the last test closed, with its effects counted."""
    run = Traced(lab, None, "admit")
    run.ended()
    return run


@pytest.mark.main_road
def test_node_left_out_stays_closed_and_no_machine_answers_to_anothers_name(lab: Lab, whole: Traced) -> None:
    """One node is taken out of the fleet file, so that the addresses of all behind it are those of their neighbours."""
    assert lab.open_nodes() == set(SOUND), whole.log.read_text()[-3000:]
    place = ROOT / "build/changed"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / INVENTORY, place)
    fleet = place / "lab.fleet.yml"
    text = fleet.read_text()
    assert "name: gpu-[01-04]" in text
    fleet.write_text(text.replace("name: gpu-[01-04]", "name: gpu-[01,03-04]"))
    run = lab.play("admit", *CLOSE_MANY, inventory=str(place))
    assert lab.open_nodes() == {"gpu-01"}, run.output[-3000:]
    # gpu-03, which lost a GPU, has the address of a sound one.
    assert run.state("gpu-03") != "admitted"
    assert any("gpu-02" in item["reason"] for item in run.verdicts["gpu-03"]["findings"]), run.verdicts["gpu-03"]
    shutil.rmtree(place)
    # Declared again, and sick meanwhile: a run that does not look at it does not open it.
    lab.set("gpu-02", gpus_missing=["SXM6"])
    run = lab.play("admit", "-e", "target=gpu-01")
    assert run.rc == 0, run.output[-3000:]
    assert lab.open_nodes() == {"gpu-01"}
    lab.set("gpu-02", gpus_missing=None)


def test_run_that_is_killed_anywhere_opens_nothing_that_is_not_admitted(lab: Lab, whole: Traced) -> None:
    """A handful of kills, by turns of runs that open a node and that close one; tests/lab/kills.py has hundreds."""
    for number in range(1, KILLS + 1):
        # By turns a node is to be opened, and to be closed again.
        lab.set("gpu-02", gpus_missing=None if number % 2 else ["SXM6"])
        # A run that closes has less to do than the one that was counted.
        entry = killed(lab, drawn(SEED, number, whole.effects * 3 // 4), playbook="admit")
        assert entry["fell"] and not entry["wrong_open"], entry
    lab.set("gpu-02", gpus_missing=None)
    # The same run has to notice a drain by hand, which the next test takes the controller's memory of.
    lab.ssh("ctl", "scontrol update nodename=gpu-01 state=drain reason='fan noise, Jo'")
    run = lab.play("admit", *TARGET)
    assert {node: run.state(node) for node in SOUND} == dict.fromkeys(SOUND, "admitted")
    assert lab.open_nodes() == set(SOUND)


def test_controller_that_lost_its_state_opens_nothing_and_keeps_manual_drains(lab: Lab) -> None:
    state = lab.ssh("ctl", "scontrol show config | awk '/^StateSaveLocation/ {print $3}'").stdout.strip()
    lab.ssh("ctl", f"systemctl stop slurmctld && find {state} -mindepth 1 -delete")
    refused = lab.ssh("ctl", "systemctl start slurmctld", check=False)
    assert refused.returncode != 0, "slurmctld forgot jobs and drains, and nobody was asked"
    lab.play("provision", "-e", "slurm_accept_empty_state=true", "--limit", "ctl,localhost")
    lab.wait(lambda: lab.ssh("ctl", "sinfo -h", check=False).returncode == 0, "slurmctld")
    assert lab.open_nodes() == set(SOUND), "the file is the truth"
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


@pytest.mark.main_road
def test_ledger_older_than_the_gate_stops_before_anything_changes(lab: Lab) -> None:
    """Only the live gate tells that a ledger is an older copy."""
    kept = LEDGER.with_suffix(".kept")
    gate = lab.gate_file()
    shutil.copy2(LEDGER, kept)
    try:
        with sqlite3.connect(LEDGER, timeout=30) as connection:
            connection.execute("update meta set generation = generation - 1")
        run = lab.play()
        assert run.rc == 2
        assert "older" in run.output, run.output[-3000:]
        assert "Traceback" not in run.output
        assert lab.gate_file() == gate
        assert run.changed, "nothing was counted"
        assert not any(run.changed.values()), run.changed
    finally:
        for name in LEDGER.parent.glob("ledger.sqlite*"):
            if name != kept:
                name.unlink()
        shutil.move(kept, LEDGER)


@pytest.mark.main_road
def test_all_hosts_gone_closes_the_gate(lab: Lab) -> None:
    nodes = [f"gpu-0{number}" for number in range(1, 5)]
    for node in nodes:
        lab.command("stop", node)
    try:
        run = lab.play()
        assert run.rc == 4, run.output[-3000:]
        assert lab.open_nodes() == set()
        assert set(run.verdicts) == set(nodes), "a node that is gone was left out of the verdicts"
        assert not {node for node in nodes if run.state(node) == "admitted"}
    finally:
        for node in nodes:
            lab.command("start", node)
    # slurmd waits for the rails to be set.
    for node in SOUND:
        lab.wait(
            lambda node=node: lab.ssh(node, "scontrol show slurmd", check=False).returncode == 0, f"slurmd of {node}"
        )
    lab.play("admit")
    assert lab.open_nodes() == set(SOUND)
