"""A Slurm that the site sets up itself: which nodes go on, and which playbooks leave it alone."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import warm_ansible

ROOT = Path(__file__).resolve().parents[3]


def site_of(place: Path, managed: bool) -> Path:
    """Return an inventory with the lab's fleet and two controllers, whose Slurm the site sets up unless ``managed``."""
    data = yaml.safe_load((ROOT / "inventory/lab/lab.fleet.yml").read_text(encoding="utf-8"))
    data["hosts"].append({"name": "ctl-2", "role": "controller", "address": "10.77.0.20"})
    data["scheduler"]["state_directory"] = "/srv/slurm"
    if not managed:
        for key in ("parameters", "cgroup", "ssh_access"):
            del data["scheduler"][key]
        data["scheduler"]["managed"] = False
    (place / "lab.fleet.yml").write_text(yaml.safe_dump(data), encoding="utf-8")
    return place / "lab.fleet.yml"


def play(place: Path, playbook: str, answers: dict[str, Any] | None = None, managed: bool = False) -> str:
    """Return what a playbook says; ``answers`` are the controllers' of this run, by name."""
    (place / "host_vars").mkdir()
    for name, answer in (answers or {}).items():
        text = json.dumps({"muster_site_slurm": answer})
        (place / f"host_vars/{name}.json").write_text(text, encoding="utf-8")
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", str(site_of(place, managed)), playbook]
    done = warm_ansible.run(
        [*map(str, command), "-e", f"slurm_backup_directory={place}/backup"], cwd=place, env=environment
    )
    return done.stdout + done.stderr


def last_play(place: Path, answers: dict[str, Any], managed: bool = False) -> dict[str, str]:
    """Return by node the reason with which it leaves the last play of provision.yml, or that it goes on.

    What the play installs on nodes before is left out.
    """
    plays = yaml.safe_load((ROOT / "playbooks/provision.yml").read_text(encoding="utf-8"))
    _, asking = plays[-1]["tasks"]
    *_, check = asking["block"]
    asking["block"] = [check]
    kept = {
        "content": "{{ dict(groups['compute'] | zip(groups['compute'] | map('extract', hostvars) "
        "| map(attribute='muster_stopped', default='goes on'))) | to_json }}",
        "dest": f"{place}/reasons.json",
    }
    after = {"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.copy": kept}]}
    for name in ("tasks", "group_vars"):
        shutil.copytree(ROOT / "playbooks" / name, place / name)
    (place / "play.yml").write_text(yaml.safe_dump([plays[-1], after], sort_keys=False), encoding="utf-8")
    said = play(place, "play.yml", answers, managed)
    assert (place / "reasons.json").exists(), said
    return json.loads((place / "reasons.json").read_text(encoding="utf-8"))


WHOLE = {"lacking": [], "nodes": {}}


def test_nodes_go_on_where_slurm_lacks_nothing(tmp_path: Path) -> None:
    assert set(last_play(tmp_path, {"ctl": WHOLE, "ctl-2": WHOLE}).values()) == {"goes on"}


def test_what_muster_sets_up_is_not_asked_for(tmp_path: Path) -> None:
    assert set(last_play(tmp_path, {}, managed=True).values()) == {"goes on"}


def test_what_all_lack_stops_all_and_what_one_lacks_that_one(tmp_path: Path) -> None:
    one = {
        "lacking": ["EnforcePartLimits: is ANY"],
        "nodes": {"gpu-02": ["partition acceptance does not list the node"]},
    }
    told = last_play(tmp_path, {"ctl": {**one, "failed": True}, "ctl-2": {**one, "failed": True}})
    assert all(text.count("EnforcePartLimits: is ANY") == 1 for text in told.values()), told
    assert [name for name, text in told.items() if "does not list the node" in text] == ["gpu-02"]


def test_a_node_that_alone_lacks_something_stops_alone(tmp_path: Path) -> None:
    one = {"lacking": [], "nodes": {"gpu-02": ["Gres has 7 GPUs"]}}
    told = last_play(tmp_path, {"ctl": WHOLE, "ctl-2": one})
    assert "Gres has 7 GPUs" in told.pop("gpu-02")
    assert set(told.values()) == {"goes on"}


@pytest.mark.parametrize("answer", [None, {"unreachable": True, "msg": "ssh"}, {"failed": True, "msg": "Traceback"}])
def test_a_controller_that_was_not_read_stops_all(tmp_path: Path, answer: dict[str, Any] | None) -> None:
    answers = {"ctl": WHOLE} if answer is None else {"ctl": WHOLE, "ctl-2": answer}
    told = last_play(tmp_path, answers)
    assert all("was not read on ctl-2 in this run" in text for text in told.values()), told


@pytest.mark.parametrize("name", ["slurm_backup", "slurm_restore", "slurm_upgrade"])
def test_playbooks_that_change_slurm_refuse_at_once(tmp_path: Path, name: str) -> None:
    said = play(tmp_path, str(ROOT / f"playbooks/{name}.yml"))
    assert said.count("TASK [") == 1, said
    assert "scheduler.managed of the fleet file is false: the site sets up Slurm itself" in " ".join(said.split())
    assert not (tmp_path / "backup").exists()
