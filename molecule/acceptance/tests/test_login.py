"""Ansible logs in as an ordinary user: ssh that follows jobs lets that user in, or role slurm does not restrict it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
INVENTORY = PROJECT / "molecule/acceptance/inventory"
SSH = ("ssh", "-F", str(PROJECT / "build/lab/ssh_config"), "-o", "BatchMode=yes")
NODE = "gpu-01"
PLAY = [
    {
        "hosts": NODE,
        "gather_facts": False,
        "vars_files": [str(PROJECT / "playbooks/group_vars/all.yml")],
        "tasks": [
            {"name": "Identify", "muster.cluster.system_info": {}, "register": "muster_system"},
            {"name": "Join", "ansible.builtin.import_role": {"name": "muster.cluster.slurm"}},
        ],
        "vars": {"slurm_roles": ["compute"]},
    }
]

pytestmark = pytest.mark.main_road


def ssh(command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
    argv = [*SSH, "-l", user, NODE, command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def as_root(command: str) -> str:
    done = ssh(command)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def unrestricted() -> Iterator[None]:
    """A node whose ssh does not follow jobs yet, and whose operator is in none of the groups that may log in."""
    as_root("cp -p /etc/pam.d/sshd /root/pam && sed -i '/Muster/d; /pam_slurm/d; /pam_succeed_if/d' /etc/pam.d/sshd")
    as_root("gpasswd --delete ops sudo")
    try:
        yield
    finally:
        as_root("gpasswd --add ops sudo && mv /root/pam /etc/pam.d/sshd")


def test_operator_logs_in_without_a_job_and_others_do_not() -> None:
    assert ssh("id -un", "ops").stdout == "ops\n"
    assert ssh("true", "alice").returncode == 255


def test_operator_who_would_be_locked_out_is_told_and_ssh_stays_as_it_is(unrestricted: None, tmp_path: Path) -> None:
    before = as_root("cat /etc/pam.d/sshd")
    (tmp_path / "play.yml").write_text(json.dumps(PLAY), encoding="utf-8")
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", f"--inventory={INVENTORY}", tmp_path / "play.yml"],
        cwd=PROJECT,
        env={**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "user ops, as whom Ansible logs in, is in ops, expected one of" in said, said
    assert as_root("cat /etc/pam.d/sshd") == before and ssh("true", "ops").returncode == 0


def test_operator_in_none_of_the_groups_would_have_been_refused(unrestricted: None) -> None:
    """That there is something to be told of: the rule itself, with this user."""
    as_root("cp -p /root/pam /etc/pam.d/sshd")
    assert ssh("true", "ops").returncode == 255
