"""Fetching the raw outputs of drawn nodes, with real Ansible: what a node does not give costs that node alone."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger

from tests import warm_ansible
from tests.fleets import LEDGER_ID, small_fleet, variables_of

ROOT = Path(__file__).resolve().parents[3]
HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
# Nobody listens there: ssh is refused at once.
GONE = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_connection": "ssh"}
VARIABLES = yaml.safe_load((ROOT / "playbooks/group_vars/all.yml").read_text(encoding="utf-8"))
OURS = {name: text for name, text in VARIABLES.items() if name == "muster_judged_preflights"}
PLAY = """
- hosts: compute,localhost
  gather_facts: false
  tasks:
    - name: Judge here too
      ansible.builtin.import_tasks: {root}/playbooks/tasks/rejudge.yml
      vars:
        rejudge_stage: preflight
        rejudge_evidence: "{{{{ given }}}}"
    - name: Keep what admission is told
      ansible.builtin.copy:
        content: "{{{{ {{'told': muster_judged_preflights, 'hosts': ansible_play_hosts}} | to_json }}}}"
        dest: "{place}/told.json"
        mode: "0644"
      delegate_to: localhost
      run_once: true
"""


@pytest.fixture
def play(tmp_path: Path) -> Any:
    """Play the tasks over a node that is here and one that is gone; return what admission is told, and who is left."""
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    fleet = variables_of(small_fleet(2), url)
    Ledger.create(url, LEDGER_ID, fleet["cluster"], 1.0)
    names = ["gpu-0001", "gpu-0002"]
    said = {
        name: Evidence(f"p-{name}", name, "preflight", 1.0, 2.0, "b", {}, "d", raw={"lscpu": "0" * 64}).to_dict()
        for name in names
    }

    def run(nodes: dict[str, Any] | None = None, **change: Any) -> tuple[dict[str, Any], Any]:
        variables = {"muster_fleet": fleet, "muster_preflights": said, "muster_examine_seconds": 20, **OURS}
        variables |= {"given": "{{ muster_preflights }}", **change}
        hosts = {"gpu-0001": nodes or HERE, "gpu-0002": GONE}
        inventory = {
            "all": {"vars": variables, "hosts": {"localhost": HERE}, "children": {"compute": {"hosts": hosts}}}
        }
        (tmp_path / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
        (tmp_path / "play.yml").write_text(PLAY.format(root=ROOT, place=tmp_path), encoding="utf-8")
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.json", "play.yml"]
        done = warm_ansible.run(command, cwd=tmp_path, env=environment)
        assert (tmp_path / "told.json").exists(), done.stdout + done.stderr
        return yaml.safe_load((tmp_path / "told.json").read_text(encoding="utf-8")), done

    return run


def test_node_that_is_gone_or_has_kept_nothing_is_incomplete_and_the_run_goes_on(play: Any, tmp_path: Path) -> None:
    told, done = play()
    found = {name: Evidence.from_dict(records[-1]).findings for name, records in told["told"].items()}
    assert {name: [(each.check, each.verdict) for each in findings] for name, findings in found.items()} == {
        "gpu-0001": [("rejudged", "incomplete")],
        "gpu-0002": [("rejudged", "incomplete")],
    }, done.stdout
    assert "raw output of evidence p-gpu-0001 is not there" in found["gpu-0001"][0].reason
    assert "connect" in found["gpu-0002"][0].reason.lower()
    assert sorted(told["hosts"]) == ["gpu-0001", "gpu-0002", "localhost"], done.stdout
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.sqlite", LEDGER_ID, read_only=True).reading() as reader:
        assert reader.unsettled("preflight") == {"gpu-0001", "gpu-0002"}


def test_node_that_hangs_is_incomplete_and_the_run_goes_on(play: Any, tmp_path: Path) -> None:
    dead = tmp_path / "python3"
    dead.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    dead.chmod(0o755)
    told, done = play({**HERE, "ansible_python_interpreter": str(dead)}, muster_examine_seconds=3)
    for records in told["told"].values():
        assert [each.verdict for each in Evidence.from_dict(records[-1]).findings] == ["incomplete"], done.stdout
    assert sorted(told["hosts"]) == ["gpu-0001", "gpu-0002", "localhost"], done.stdout


def test_drawn_evidence_stands_open_in_the_ledger_where_it_could_not_be_judged_here(play: Any, tmp_path: Path) -> None:
    """Admission, which reads the ledger, does not take it."""
    told, done = play(given="{{ {} if muster_raw_outputs is defined else muster_preflights }}")
    assert sorted(told["hosts"]) == ["gpu-0001", "gpu-0002", "localhost"], done.stdout + done.stderr
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.sqlite", LEDGER_ID, read_only=True).reading() as reader:
        assert reader.drawn_and_not_judged() == {"p-gpu-0001", "p-gpu-0002"}


def test_run_whose_ledger_is_gone_tells_admission_what_the_nodes_said(play: Any, tmp_path: Path) -> None:
    """Admission says itself that there is no ledger."""
    (tmp_path / "ledger.sqlite").unlink()
    told, done = play()
    assert {name: record["id"] for name, record in told["told"].items()} == {
        "gpu-0001": "p-gpu-0001",
        "gpu-0002": "p-gpu-0002",
    }
    assert "no such file" in done.stdout + done.stderr
