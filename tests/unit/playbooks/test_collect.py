"""What a node measured while nobody waited for it reaches the ledger before anything is judged on it."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_record import Record
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STRESSES, required
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import COMPONENTS
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission import judge
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.cases import cases_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger

from tests import warm_ansible
from tests.fleets import LEDGER_ID, small_fleet, variables_of

ROOT = Path(__file__).resolve().parents[3]
NODE = "gpu-0001"
NOW = time.time()
FLEET = small_fleet(
    2,
    policy={
        "stages": ["preflight", "burn_in"],
        "burn_in_profile": "p",
        "burn_in_profiles": {"p": {"steps": [{"seconds": 60}], "interval_seconds": 5}},
    },
    scheduler={"partitions": [{"name": "batch", "default": True}], "hooks": {"health": False}},
)
EXPECT = FLEET.classes["hgx_h100"]
# Passes its examination, and has the real program for its burn-in.
TOOL = """#!{python}
import json, os, sys
if sys.argv[1] == "burn-in":
    os.execv(sys.executable, [sys.executable, {program!r}, *sys.argv[1:], "--state-directory", {state!r}])
sys.stdin.read()
asked = dict(zip((word[2:] for word in sys.argv[2::2]), sys.argv[3::2]))
print(json.dumps({{**json.loads({preflight!r}), **asked}}))
"""
BURN_IN = yaml.safe_load((ROOT / "playbooks/burn_in.yml").read_text(encoding="utf-8"))[1]["tasks"][-1]["block"][0]
# What the playbooks that follow ask: is the stage due, and what was told of the node?
ASK = {
    "name": "Ask",
    "hosts": "compute,localhost",
    "gather_facts": False,
    "tasks": [
        {
            "name": "Ask",
            "run_once": True,
            "vars": {"known": BURN_IN["vars"]["burn_in_known"]},
            "ansible.builtin.copy": {
                "dest": "{{ playbook_dir }}/told.json",
                "mode": "0600",
                "content": "{{ {'stopped': muster_stopped_reasons, 'recorded': muster_recorded,"
                " 'known': known,"
                " 'drawn': dict(muster_last_brought.keys() | zip(muster_last_brought.values() | map(attribute='id'))),"
                " 'due': query('muster.cluster.due', *muster_alive,"
                " stage='burn_in', fleet=muster_fleet, evidence=muster_preflights,"
                " collected=muster_brought_ids)} | to_json }}",
            },
            "check_mode": False,
        }
    ],
}


def evidence(number: int, stage: str = "burn_in", verdict: str = "pass", **changes: Any) -> Evidence:
    """Evidence of a node; a later one has a higher number."""
    pairs = required(stage, EXPECT)
    findings = [Finding(check, part, "pass") for check, part in pairs]
    findings[0] = replace(findings[0], verdict=verdict, reason="" if verdict == "pass" else "seen by nobody")
    began = NOW - 10_000 + 1000 * number
    whole = Evidence(
        id=f"run-{number}",
        node=NODE,
        stage=stage,
        started=began,
        finished=began + 100,
        boot_id="boot",
        fingerprint=dict.fromkeys(COMPONENTS, "1"),
        expect_digest=expect_digest_of(stage, plain(EXPECT)),
        findings=tuple(findings),
        detail={"profile": "p", "steps": [{"seconds": 60}], "elapsed_seconds": 60, "examinations": 2},
        rules=rules_of(stage, STRESSES),
        identity={
            **{"board_uuid": "4c4c4544-0053-5210-8038-c8c04f583034", "bmc_mac": "3c:ec:ef:00:00:01"},
            **{"hostname": NODE, "slurmd_node": NODE},
        },
    )
    return replace(whole, **changes)


class Site:
    """One node with the real program, a real ledger, and the real playbooks of who examines it."""

    def __init__(self, place: Path, node_program: Path) -> None:
        self.place = place
        self.record = Record(str(place / "state"))
        self.fleet = variables_of(FLEET, f"sqlite:///{place}/ledger.sqlite")
        self.ledger = Ledger.create(self.fleet["ledger"]["url"], LEDGER_ID, "lab")
        with self.ledger.writing() as writer:
            writer.declare(dict.fromkeys(FLEET.compute, "hgx_h100"), time.time())
        self.preflight = evidence(9, "preflight")
        tool = place / "muster"
        given = {"program": str(node_program), "state": str(place / "state")}
        answer = json.dumps(self.preflight.to_dict())
        tool.write_text(TOOL.format(python=sys.executable, preflight=answer, **given))
        tool.chmod(0o755)
        for name in ("group_vars", "tasks"):
            (place / name).symlink_to(ROOT / "playbooks" / name)

    def knows(self, *found: Evidence) -> None:
        """Put evidence into the ledger."""
        with self.ledger.writing() as writer:
            assert writer.add_evidence(found, time.time()) == []

    def ran(self, found: Evidence, status: str = "finished") -> None:
        """Leave on the node what a run of burn-in leaves there."""
        self.record.store.write(found)
        keys = ("duration_seconds", "interval_seconds", "elapsed_seconds", "left_seconds", "next_step")
        state = {"id": found.id, "status": status, "node": found.node, "started": found.started, "kept": time.time()}
        self.record.write_state({**dict.fromkeys(keys, 0.0), "boot_id": "boot", **state})

    def examine(self, playbook: str = "admit", *options: str) -> dict[str, Any]:
        """Run what a playbook does first, up to where it asks what is due; return what the next plays are told."""
        plays = yaml.safe_load((ROOT / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))
        tasks = [task for task in plays[0]["tasks"] if "import_role" not in str(task) and "lldp" not in str(task)]
        if playbook == "examine":
            # But for what it installs on the host.
            block = plays[0]["tasks"][-1]
            assert "import_role" in str(block) and "tasks/examine.yml" in str(block["block"][-1])
            tasks.append({**block, "block": block["block"][-1:]})
        first = {**plays[0], "tasks": tasks}
        first["module_defaults"] = {"muster.cluster.node_check": {"tool": str(self.place / "muster")}}
        (self.place / "play.yml").write_text(yaml.safe_dump([first, ASK], sort_keys=False), encoding="utf-8")
        here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts: dict[str, Any] = {"hosts": {"localhost": here}, "children": {"compute": {"hosts": {NODE: here}}}}
        hosts["vars"] = {"muster_fleet": self.fleet, "muster_expect": plain(EXPECT)}
        (self.place / "hosts.yml").write_text(yaml.safe_dump({"all": hosts}), encoding="utf-8")
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "play.yml", *options]
        done = warm_ansible.run(command, cwd=self.place, env=environment)
        said = done.stdout + done.stderr
        assert done.returncode in (0, 2), said
        told: dict[str, Any] = json.loads((self.place / "told.json").read_text(encoding="utf-8"))
        return {**told, "said": said}

    def known(self) -> list[str]:
        """Return the ids of the node's burn-in in the ledger; the last one decides."""
        with sqlite3.connect(f"file:{self.place}/ledger.sqlite?mode=ro", uri=True) as connection:
            rows = connection.execute("select id from evidence where node=? and stage='burn_in' order by seq", [NODE])
            return [row[0] for row in rows]

    def state(self) -> tuple[str, str]:
        """The state that the node would get now, and why."""
        with self.ledger.reading() as reader:
            cases = cases_of(FLEET, reader, {NODE: self.preflight}, time.time())
        judged = judge(cases[NODE], FLEET.policy, time.time())
        return judged.state, judged.reason


@pytest.fixture
def site(tmp_path: Path, node_program: Path) -> Site:
    return Site(tmp_path, node_program)


@pytest.mark.parametrize("playbook", ["examine", "burn_in", "prove", "admit"])
def test_failing_burn_in_that_nobody_waited_for_counts_and_no_older_pass_comes_back(site: Site, playbook: str) -> None:
    site.knows(evidence(1))
    assert site.state()[0] == "admitted"
    site.ran(evidence(1))
    site.ran(evidence(2, verdict="fail"))
    told = site.examine(playbook)
    # It is this run's result: the next one tests again.
    assert (site.state()[0], told["due"], told["stopped"]) == ("rejected", [], {})
    assert site.known() == ["run-1", "run-2"]
    assert site.examine(playbook)["due"] == [NODE]


def test_burn_in_of_parts_that_were_exchanged_since_is_repeated_at_once(site: Site) -> None:
    """What nobody waited for says nothing of the node as it is now: a run that stops there leaves a sound node out."""
    site.ran(evidence(1, fingerprint={**site.preflight.fingerprint, "gpu_serials": "others"}))
    told = site.examine("burn_in")
    assert (site.state()[0], told["due"], site.known()) == ("testing", [NODE], ["run-1"])
    # By which burn_in_job starts another.
    assert told["known"] == ["run-1"]


def test_reboot_that_cut_a_burn_in_off_before_it_had_read_its_host_is_not_hidden_by_a_repetition(site: Site) -> None:
    reboot = Finding("reboot", "host", "fail", reason="the host rebooted in mid burn-in")
    site.ran(evidence(1, fingerprint={}, identity={}, findings=(reboot,)))
    told = site.examine("burn_in")
    assert (site.state()[0], told["due"]) == ("rejected", [])
    assert site.examine("burn_in")["due"] == [NODE]


@pytest.mark.parametrize("playbook", ["examine", "admit"])
def test_burn_in_that_is_brought_along_is_drawn_before_it_is_judged(playbook: str) -> None:
    plays = yaml.safe_load((ROOT / f"playbooks/{playbook}.yml").read_text(encoding="utf-8"))
    tasks = [task for play in plays for task in play["tasks"] if "tasks/rejudge.yml" in str(task)]
    # The preflight's is the last: muster_judged_preflights goes by it.
    assert [task["vars"]["rejudge_stage"] for task in tasks] == ["burn_in", "preflight"]
    assert "muster_last_brought" in tasks[0]["vars"]["rejudge_evidence"]


def test_draw_takes_the_last_run_of_those_that_a_node_brought(site: Site) -> None:
    site.ran(evidence(1, verdict="fail"))
    site.ran(evidence(2))
    assert site.examine()["drawn"] == {NODE: "run-2"}


def test_several_runs_are_recorded_in_the_order_in_which_they_ran(site: Site) -> None:
    site.knows(evidence(1))
    for number, verdict in ((1, "pass"), (2, "fail"), (3, "pass"), (4, "fail")):
        site.ran(evidence(number, verdict=verdict))
    site.examine()
    assert (site.known(), site.state()[0]) == (["run-1", "run-2", "run-3", "run-4"], "rejected")
    # Nothing is new any more.
    said = site.examine()["said"]
    assert "Keep burn-in that nobody collected" not in said
    assert site.known() == ["run-1", "run-2", "run-3", "run-4"]


def test_last_run_decides_though_the_clock_was_set_back_before_it(site: Site) -> None:
    site.ran(evidence(7))
    site.ran(evidence(5, verdict="fail"))
    site.examine()
    assert (site.known(), site.state()[0]) == (["run-7", "run-5"], "rejected")


def test_run_older_than_what_the_ledger_knows_does_not_become_the_newest(site: Site) -> None:
    site.ran(evidence(2, verdict="fail"))
    site.ran(evidence(3))
    site.knows(evidence(3))
    site.examine()
    assert (site.known(), site.state()[0]) == (["run-3"], "admitted")


def test_run_under_way_keeps_an_older_pass_from_counting(site: Site) -> None:
    """It was started when a part had changed, and the part has changed back since."""
    site.knows(evidence(1))
    with site.record.locked() as mine:
        assert mine
        site.ran(evidence(2, finished=None), "running")
        told = site.examine()
        assert (site.state(), told["due"]) == (("testing", "burn_in: evidence run-2: has not finished"), [NODE])
    # Its end takes the place of what was recorded of it.
    site.ran(evidence(2, verdict="fail"))
    site.examine()
    assert (site.known(), site.state()[0]) == (["run-1", "run-2"], "rejected")


def test_run_that_was_cut_off_is_closed_and_recorded(site: Site) -> None:
    site.knows(evidence(1))
    site.ran(evidence(2, finished=None), "running")
    site.examine()
    state, reason = site.state()
    assert state == "rejected" and "unplanned reboot during burn-in: boot id boot" in reason
    assert site.record.state()["status"] == "finished"


def test_evidence_that_cannot_be_read_keeps_an_older_pass_from_counting(site: Site) -> None:
    site.knows(evidence(1))
    site.ran(evidence(2, verdict="fail"))
    site.record.store.path("burn_in", "run-2").write_text('{"half')
    told = site.examine()
    assert (site.state(), told["due"]) == (("testing", "burn_in: evidence run-2: has not finished"), [NODE])


def test_what_another_node_left_on_the_disk_is_not_taken(site: Site) -> None:
    site.knows(evidence(1))
    site.ran(evidence(2, verdict="fail", node="gpu-0002"))
    assert site.examine()["stopped"] == {}
    assert (site.known(), site.state()[0]) == (["run-1"], "admitted")


def test_check_mode_settles_and_records_nothing(site: Site) -> None:
    site.knows(evidence(1))
    site.ran(evidence(2, finished=None), "running")
    before = {path: path.stat().st_mtime_ns for path in (site.place / "state").rglob("*")}
    site.examine("admit", "--check")
    assert before == {path: path.stat().st_mtime_ns for path in (site.place / "state").rglob("*")}
    assert site.known() == ["run-1"]


def test_node_whose_evidence_the_ledger_refuses_is_stopped(site: Site) -> None:
    site.knows(evidence(1), evidence(2, node="gpu-0002"))
    site.ran(evidence(2, verdict="fail"))
    assert site.examine()["stopped"] == {NODE: "evidence run-2: another record has this id already"}


def test_node_that_is_not_recorded_as_the_ledger_cannot_be_written_is_stopped(site: Site) -> None:
    site.knows(evidence(1))
    site.ran(evidence(2, verdict="fail"))
    with sqlite3.connect(site.place / "ledger.sqlite") as connection:
        connection.execute("create trigger broken before insert on evidence begin select raise(fail, 'broken'); end")
    told = site.examine()
    assert "broken" in told["stopped"][NODE], told["stopped"]


def test_node_that_cannot_say_what_it_has_is_stopped(site: Site) -> None:
    site.ran(evidence(1))
    (site.place / "state/burn_in").rename(site.place / "state/gone")
    (site.place / "state/burn_in").write_text("a file")
    told = site.examine()
    assert "burn-in settle: " in told["stopped"][NODE] and "Not a directory" in told["stopped"][NODE], told["stopped"]
