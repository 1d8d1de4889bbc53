"""What the roles write, rendered by Ansible itself."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests import warm_ansible

ROOT = Path(__file__).parents[3]


@pytest.fixture
def render(tmp_path):
    def call(role: str, template: str, variables: dict) -> str:
        tasks = [
            {"ansible.builtin.include_vars": str(ROOT / "roles" / role / f"{part}/main.yml")}
            for part in ("defaults", "vars")
            if (ROOT / "roles" / role / part).exists()
        ]
        given = {"ansible.builtin.include_vars": str(tmp_path / "given.json")}
        written = {"src": str(ROOT / "roles" / role / "templates" / template), "dest": str(tmp_path / "out")}
        play = {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [*tasks, given, {"ansible.builtin.template": written}],
        }
        (tmp_path / "given.json").write_text(json.dumps(variables))
        (tmp_path / "play.json").write_text(json.dumps([play]))
        playbook = Path(sys.executable).with_name("ansible-playbook")
        python = f"ansible_python_interpreter={sys.executable}"
        done = warm_ansible.run(
            [playbook, "-i", "localhost,", "-c", "local", "-e", python, tmp_path / "play.json"],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return (tmp_path / "out").read_text()

    return call


def test_slurmctld_waits_for_the_mount_of_its_state(render):
    state = {"slurm_state_directory": "/shared/slurm", "slurm_controllers": [{}, {}]}
    lines = render("slurm", "slurmctld.conf.j2", state).splitlines()
    assert "RequiresMountsFor=/shared/slurm" in lines
    guard = "/usr/libexec/muster/slurmctld-state /shared/slurm /var/lib/muster/slurm/bootstrap"
    assert f"ExecStartPre=+{guard}" in lines


def test_slurmd_asks_both_controllers(render):
    hosts = {"slurm_controllers": [{"address": "10.0.0.1"}, {"address": "10.0.0.2"}]}
    assert "Environment=SLURMD_CONF_SERVER=10.0.0.1,10.0.0.2" in render("slurm", "slurmd.conf.j2", hosts).splitlines()


def test_nccl_conf_has_each_reason_above_its_value(render):
    variables = [
        {"name": "NCCL_SOCKET_IFNAME", "value": "=eth0", "reason": "ranks meet here"},
        {"name": "NCCL_IB_DISABLE", "value": "1", "reason": "no RDMA fabric is declared"},
    ]
    lines = render("nccl", "nccl.conf.j2", {"nccl_variables": variables}).splitlines()
    assert lines[-4:] == [
        "# ranks meet here",
        "NCCL_SOCKET_IFNAME==eth0",
        "# no RDMA fabric is declared",
        "NCCL_IB_DISABLE=1",
    ]
    # NCCL reads what has an equals sign and, in old versions, comments too.
    assert [line for line in lines[:-4] if "=" in line or not line.startswith("#")] == []
