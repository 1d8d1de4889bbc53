"""What provisioning asks of a compute host before its first change, and what becomes of a host that lacks it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import warm_ansible
from tests.identified import IDENTIFIED

ROOT = Path(__file__).resolve().parents[3]
LAB = ROOT / "inventory/lab"
GOVERNOR = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


def play() -> dict[str, Any]:
    plays = yaml.safe_load((ROOT / "playbooks/provision.yml").read_text(encoding="utf-8"))
    (found,) = (play for play in plays if play["name"] == "Provision the compute nodes")
    return dict(found)


def say(text: str) -> dict[str, Any]:
    return {"ansible.builtin.debug": {"msg": text}}


def test_host_is_asked_before_anything_is_changed() -> None:
    identify, preflight, *rest = play()["tasks"][0]["block"]
    assert "muster.cluster.system_info" in identify and "muster.cluster.host_preflight" in preflight
    roles = [role for task in rest for role in task.get("block", [task])]
    assert [role for role in roles if not any(key.endswith("_role") for key in role)] == []


@pytest.fixture
def provision(tmp_path: Path) -> Callable[..., str]:
    """Run the play here for the lab's first node, with a message in the place of its roles; return what is printed."""

    def run(classes: dict[str, Any], **variables: Any) -> str:
        chosen = play()
        block = chosen["tasks"][0]["block"]
        block[:] = [block[1], {"name": "Change it", **say("{{ inventory_hostname }} is set up")}]
        after = {"hosts": "localhost", "gather_facts": False, "tasks": [{"name": "Go on", **say("the run goes on")}]}
        shutil.copytree(ROOT / "playbooks/tasks", tmp_path / "tasks", dirs_exist_ok=True)
        inventory = tmp_path / "lab"
        shutil.copytree(LAB, inventory)
        fleet = inventory / "lab.fleet.yml"
        data = {**yaml.safe_load(fleet.read_text(encoding="utf-8")), "hardware_classes": classes}
        fleet.write_text(yaml.safe_dump(data), encoding="utf-8")
        (tmp_path / "play.yml").write_text(yaml.safe_dump([chosen, after], sort_keys=False), encoding="utf-8")
        given = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "target": "gpu-01",
        }
        identified = {name: IDENTIFIED[name] for name in ("muster_system", "muster_control_system")}
        (tmp_path / "given.json").write_text(json.dumps({**given, **identified, **variables}), encoding="utf-8")
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
        command = [Path(sys.executable).with_name("ansible-playbook"), "-i", "lab/lab.fleet.yml", "-e", "@given.json"]
        done = warm_ansible.run([*command, "play.yml"], cwd=tmp_path, env=environment)
        return " ".join((done.stdout + done.stderr).split())

    return run


def test_host_that_lacks_something_leaves_the_run_with_the_list(provision: Callable[..., str]) -> None:
    # /opt/lab is not there: neither files nor tools.
    said = provision({})
    assert "gpu-01 is set up" not in said and "the run goes on" in said, said
    reason = "Check that the host has what it needs: cpu.governor: performance, and the host has no frequency scaling"
    assert reason in said and "perftest: ib_write_bw: not found in /opt/lab/bin" in said, said
    assert "pytorch.python: /opt/muster/pytorch/bin/python3 is not there: declare gpu_stack_pytorch" in said, said


def test_host_that_has_all_is_set_up(provision: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / GOVERNOR).parent.mkdir(parents=True)
    (tmp_path / GOVERNOR).write_text("performance\n", encoding="utf-8")
    classes = {"lab_h100": {"tools": {"root": str(tmp_path)}}}
    digest = f"--hash=sha256:{'0' * 64}"
    pytorch = {"requirements": f"numpy==2.1 {digest}\ntorch==2.8.0 {digest}\n", "index": "https://mirror.example.com/"}
    said = provision(classes, gpu_stack_tools=[{"name": "perftest"}], gpu_stack_pytorch=pytorch)
    assert "gpu-01 is set up" in said and "the run goes on" in said, said
