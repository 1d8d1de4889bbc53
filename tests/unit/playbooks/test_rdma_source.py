"""What provisioning asks role rdma for, by the inventories that come with Muster: backend and software agree."""

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
# What the role asks for where nobody says otherwise, which DOCA-OFED's archive does not have in these names alone.
PACKAGES = yaml.safe_load((ROOT / "roles/rdma/defaults/main.yml").read_text(encoding="utf-8"))["rdma_packages"]


def preflight() -> dict[str, Any]:
    """Return the task by which provision.yml installs RDMA software, cut down to the role's preflight."""
    plays = yaml.safe_load((ROOT / "playbooks/provision.yml").read_text(encoding="utf-8"))
    (play,) = (play for play in plays if play["name"] == "Provision the compute nodes")
    (task,) = (task for task in play["tasks"][0]["block"] if task["name"] == "Install the RDMA software")
    task["ansible.builtin.import_role"] = {**task["ansible.builtin.import_role"], "tasks_from": "preflight"}
    # What the host is like is not asked here.
    task["vars"]["rdma_peer_memory"] = "none"
    return task


@pytest.fixture
def asked(tmp_path: Path) -> Callable[..., str]:
    """Run the preflight on the first node of a copy of an inventory, here, and return what Ansible prints."""

    def run(name: str, **variables: Any) -> str:
        place = tmp_path / "inventory" / name
        shutil.copytree(ROOT / "inventory" / name, place, dirs_exist_ok=True)
        (fleet,) = place.glob("*.fleet.yml")
        if name.startswith("example"):
            # The key of the site's mirror, which the inventory reads.
            (place / "doca.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n", encoding="utf-8")
        play = {"hosts": "compute[0]", "gather_facts": False, "tasks": [preflight()]}
        (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
        given = {
            **IDENTIFIED,
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            **variables,
        }
        (tmp_path / "given.json").write_text(json.dumps(given), encoding="utf-8")
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
        command = [Path(sys.executable).with_name("ansible-playbook"), "-i", fleet, "-e", f"@{tmp_path}/given.json"]
        done = warm_ansible.run([*command, tmp_path / "play.yml"], cwd=tmp_path, env=environment)
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize("name", ["example_roce", "example_infiniband", "lab"])
def test_shipped_inventory_asks_for_software_of_its_backend(asked: Callable[..., str], name: str) -> None:
    shown = asked(name)
    assert "ok=1 " in shown and "failed=0" in shown, shown


def test_backend_doca_without_doca_is_told_before_anything_is_installed(asked: Callable[..., str]) -> None:
    # The lab's fabric has the default backend.
    shown = asked("lab", rdma_packages=PACKAGES)
    assert "rdma_repository: nothing, expected url and signing_key" in shown, shown
    assert "rdma_packages: ibverbs-providers, " in shown and "with fabric.backend doca" in shown, shown
    shown = asked("lab", rdma_source="distribution", rdma_packages=PACKAGES)
    assert "rdma_source: distribution, expected doca, as fabric.backend is doca" in shown, shown


def test_software_is_there_before_the_gpu_stack_and_modules_are_loaded_after_it() -> None:
    plays = yaml.safe_load((ROOT / "playbooks/provision.yml").read_text(encoding="utf-8"))
    roles = [
        task[module]
        for play in plays
        for block in play["tasks"]
        for task in block.get("block", [])
        for module in ("ansible.builtin.import_role", "ansible.builtin.include_role")
        if module in task
    ]
    places = [(role["name"].rpartition(".")[2], role.get("tasks_from", "main")) for role in roles]
    order = [("rdma", "install"), ("gpu_stack", "main"), ("rdma", "configure"), ("boot", "main")]
    assert [place for place in places if place in order] == order
    assert [place for place in places if place[0] == "rdma"] == [("rdma", "install"), ("rdma", "configure")]
    # What the two do must not follow from different declarations.
    tasks = [task for play in plays for block in play["tasks"] for task in block.get("block", [])]
    first, second = (task["vars"] for task in tasks if "rdma_fabric" in task.get("vars", {}))
    assert first == second
