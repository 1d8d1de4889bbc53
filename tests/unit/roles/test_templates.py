"""What the roles write, rendered by Ansible itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SLURM = {
    "slurm_role": "controller",
    "slurm_cluster": "lab",
    "slurm_controller": {"name": "ctl", "address": "10.0.0.1"},
    "slurm_nodes": {
        "gpu-8": {"address": "10.0.1.8", "hardware_class": "b"},
        "gpu-9": {"address": "10.0.1.9", "hardware_class": "a"},
        "gpu-10": {"address": "10.0.1.10", "hardware_class": "a"},
    },
    "slurm_node_parameters": {"a": {"CPUs": 4}},
    "slurm_partitions": [{"name": "batch", "default": True, "parameters": {"MaxTime": "1-0"}}],
    "slurm_parameters": {"SlurmdTimeout": 20},
}


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
        done = subprocess.run(
            [playbook, "-i", "localhost,", "-c", "local", "-e", python, tmp_path / "play.json"],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return (tmp_path / "out").read_text()

    return call


def test_slurm_conf_declares_all_nodes_and_opens_none(render):
    text = render("slurm", "slurm.conf.j2", SLURM)
    lines = text.splitlines()
    assert "NodeName=gpu-[9-10] NodeAddr=10.0.1.[9-10] CPUs=4 State=UNKNOWN" in lines
    assert "NodeName=gpu-8 NodeAddr=10.0.1.8 State=UNKNOWN" in lines
    assert [line.split()[0] for line in lines if line.startswith("PartitionName")] == ["PartitionName=acceptance"]
    acceptance = next(line for line in lines if line.startswith("PartitionName"))
    assert {"Nodes=gpu-[8-10]", "AllowGroups=muster", "Hidden=YES", "OverSubscribe=EXCLUSIVE", "State=UP"} <= set(
        acceptance.split()
    )
    assert lines[-1] == "Include muster_partitions.conf"


def test_site_parameters_replace_defaults_once(render):
    text = render("slurm", "slurm.conf.j2", SLURM)
    assert re.findall(r"^SlurmdTimeout=.*$", text, re.MULTILINE) == ["SlurmdTimeout=20"]
    keys = [line.split("=")[0] for line in text.splitlines() if re.match(r"[A-Z]\w+=", line)]
    assert [key for key in keys if keys.count(key) > 1 and key != "NodeName"] == []
    assert "EnforcePartLimits=NO" in text.splitlines()


def test_user_partitions_are_written_closed(render):
    text = render("slurm", "muster_partitions.conf.j2", SLURM)
    assert text.splitlines()[0] == "# muster ledger none generation 0"
    assert text.splitlines()[-1] == "PartitionName=batch Default=YES MaxTime=1-0"
    assert "Nodes=" not in text


def test_slurm_conf_of_12500_nodes_stays_small(render):
    nodes = {
        f"gpu-{number:05}": {"address": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "hardware_class": "a"}
        for number in range(1, 12501)
    }
    text = render("slurm", "slurm.conf.j2", {**SLURM, "slurm_nodes": nodes})
    assert "NodeName=gpu-[00001-12500] " in text
    assert len(text) < 8192


@pytest.mark.parametrize(
    ("fabric", "settings"),
    [
        ("ethernet", {"NCCL_IB_DISABLE": "1"}),
        ("roce", {"NCCL_IB_HCA": "=mlx5_0,mlx5_1", "NCCL_IB_QPS_PER_CONNECTION": "4", "NCCL_IB_TIMEOUT": "22"}),
        ("infiniband", {"NCCL_IB_HCA": "=mlx5_0,mlx5_1", "NCCL_IB_ADAPTIVE_ROUTING": "1", "NCCL_IB_TIMEOUT": "22"}),
    ],
)
def test_nccl_conf_follows_the_fabric(render, fabric, settings):
    given = {"nccl_fabric": fabric, "nccl_socket_interface": "eth0", "nccl_devices": ["mlx5_0", "mlx5_1"]}
    text = render("nccl", "nccl.conf.j2", given)
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    assert found == {"NCCL_SOCKET_IFNAME": "=eth0", **settings}


def test_nccl_without_named_devices_leaves_the_choice_to_nccl(render):
    text = render("nccl", "nccl.conf.j2", {"nccl_fabric": "roce", "nccl_socket_interface": "eth0"})
    assert "NCCL_IB_HCA" not in text
