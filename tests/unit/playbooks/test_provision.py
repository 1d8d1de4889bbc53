"""The plays of provision.yml that nodes share: what one host does must not end the run of all."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from tests import warm_ansible
from tests.identified import IDENTIFIED

ROOT = Path(__file__).resolve().parents[3]
# Nobody listens there: ssh is refused at once.
GONE = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_connection": "ssh"}
HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
# Whatever comes after provisioning; what closes the gate runs on the control machine.
REST = {
    "name": "The rest of the run",
    "hosts": "compute,localhost",
    "gather_facts": False,
    "tasks": [{"name": "Go on", "ansible.builtin.debug": {"msg": "on {{ inventory_hostname }} as ever"}}],
}


@pytest.fixture
def run(tmp_path):
    """Run plays of provision.yml by name, and the rest of the run after them."""

    def played(names, nodes, **variables):
        plays = yaml.safe_load((ROOT / "playbooks/provision.yml").read_text(encoding="utf-8"))
        chosen = [play for play in plays if play["name"] in names]
        assert len(chosen) == len(names)
        shutil.copytree(ROOT / "playbooks/tasks", tmp_path / "tasks", dirs_exist_ok=True)
        (tmp_path / "play.yml").write_text(yaml.safe_dump([*chosen, REST], sort_keys=False), encoding="utf-8")
        expect = {
            "gpu": {"driver": "570.86.15"},
            "gpu_stack": {"packages": [{"name": "nvidia-open-570", "version": "570.86.15-1"}], "services": []},
            "tools": {"root": "/"},
        }
        hosts = {
            "all": {
                "hosts": {"localhost": HERE, "builder": GONE},
                "children": {"compute": {"hosts": nodes}},
                "vars": {"muster_expect": expect, "gpu_stack_repositories": [], **IDENTIFIED, **variables},
            }
        }
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "play.yml"]
        done = warm_ansible.run(command, cwd=tmp_path, env=environment)
        return done.stdout + done.stderr

    return played


def tool(name, directory, **over):
    archive = directory / "source.tar.gz"
    if not archive.exists():
        (directory / "source").mkdir()
        (directory / "source/program").write_text("#!/bin/sh\n", encoding="utf-8")
        subprocess.run(["tar", "czf", str(archive), "-C", str(directory), "source"], check=True)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return {
        "name": name,
        "version": "1",
        "source": str(archive),
        "sha256": digest,
        "build": [],
        "files": ["program"],
        **over,
    }


def test_tool_that_cannot_be_built_beside_one_that_can_does_not_end_the_run(run, tmp_path):
    tools = [tool("good", tmp_path), tool("bad", tmp_path, sha256="0" * 64)]
    said = run(
        ["Build the GPU tools"], {"gpu-01": HERE}, gpu_stack_tools=tools, gpu_stack_archive_directory=str(tmp_path)
    )
    assert "on localhost as ever" in said and "on gpu-01 as ever" in said, said
    assert "sha256 is" in said


def test_build_host_that_is_gone_does_not_end_the_run(run, tmp_path):
    tools = [tool("good", tmp_path)]
    said = run(["Build the GPU tools"], {"gpu-01": HERE}, gpu_stack_tools=tools, gpu_stack_build_host="builder")
    assert "on localhost as ever" in said and "on gpu-01 as ever" in said, said


def test_first_node_that_is_gone_does_not_end_the_run(run):
    said = run(["Install the GPU stack"], {"gpu-01": GONE, "gpu-02": GONE})
    assert "on localhost as ever" in said, said


def test_first_node_on_which_the_stack_fails_does_not_end_the_run(run):
    said = run(["Install the GPU stack"], {"gpu-01": HERE, "gpu-02": HERE}, gpu_stack_repositories="none")
    assert "on localhost as ever" in said and "on gpu-01 as ever" in said, said


def test_node_whose_stack_changed_is_given_back_after_the_gate_is_closed():
    site = [
        each["ansible.builtin.import_playbook"] for each in yaml.safe_load((ROOT / "playbooks/site.yml").read_text())
    ]
    names = []
    for playbook in site:
        text = (ROOT / "playbooks" / playbook).read_text(encoding="utf-8")
        names += [f"{play['name']}: {yaml.safe_dump(play['tasks'])}" for play in yaml.safe_load(text)]
    places = {
        word: [index for index, text in enumerate(names) if word in text]
        for word in ("tasks_from: resume", "close_only: true")
    }
    role = "".join(path.read_text() for path in (ROOT / "roles/gpu_stack/tasks").glob("*.yml") if path.stem != "resume")
    assert "state: resumed" not in role
    assert len(places["tasks_from: resume"]) == 1
    assert places["close_only: true"][0] < places["tasks_from: resume"][0]


@pytest.mark.parametrize(("declared", "governor"), [("performance", "performance"), (None, "")])
def test_node_gets_the_governor_that_its_class_declares(declared, governor):
    plays = yaml.safe_load((ROOT / "playbooks/provision.yml").read_text(encoding="utf-8"))
    (play,) = (play for play in plays if play["name"] == "Provision the compute nodes")
    (given,) = (
        task["vars"]
        for task in play["tasks"][0]["block"]
        if task.get("ansible.builtin.import_role", {}).get("name") == "muster.cluster.host_base"
    )
    expect = {"cpu": {"governor": declared}, "tools": {"root": "/opt/lab/root"}}
    found = {name: NativeEnvironment().from_string(text).render(muster_expect=expect) for name, text in given.items()}
    assert found == {"host_base_governor": governor, "host_base_root": "/opt/lab/root"}
