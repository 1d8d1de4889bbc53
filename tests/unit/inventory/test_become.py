"""An ordinary user logs in to the fleet's hosts and becomes root there; the control machine never asks sudo.

SSH and sudo are programs that run everything on this machine; the one of sudo writes down that it was asked.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import warm_ansible

ROOT = Path(__file__).resolve().parents[3]
LAB = ROOT / "inventory" / "lab" / "lab.fleet.yml"
SSH = '#!/bin/sh\nfor command; do :; done\nexec /bin/sh -c "$command"\n'
# Becomes nobody. sudo's own options come before the shell.
SUDO = '#!/bin/sh\necho asked >>{log}\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n'
# No password is given, and sudo wants one.
ASKING = '#!/bin/sh\necho "sudo: a password is required" >&2\nexit 1\n'
PING = {"name": "Ping", "ansible.builtin.ping": {}}
HOSTS = {"hosts": "gpu-01,gpu-02,ctl", "gather_facts": False, "tasks": [PING]}

Run = Callable[..., tuple[str, int]]


def program(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run plays against the lab's fleet; return what was printed, and how often sudo was asked."""

    def run(
        *plays: dict[str, Any], user: str = "ops", options: tuple[str, ...] = (), **variables: Any
    ) -> tuple[str, int]:
        site, log = tmp_path / "site", tmp_path / "sudo.log"
        for part in ("group_vars", "host_vars"):
            (site / part).mkdir(parents=True, exist_ok=True)
        (site / "lab.fleet.yml").write_bytes(LAB.read_bytes())
        everywhere = {
            "ansible_user": user,
            "ansible_python_interpreter": sys.executable,
            "ansible_ssh_executable": program(tmp_path / "ssh", SSH),
            **variables.get("all", {}),
        }
        (site / "group_vars/all.json").write_text(json.dumps(everywhere))
        (site / "host_vars/gpu-01.json").write_text(json.dumps(variables.get("gpu_01", {})))
        (tmp_path / "play.yml").write_text(json.dumps(list(plays)))
        log.write_text("")
        environment = {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"),
            "ANSIBLE_BECOME_EXE": program(tmp_path / "sudo", SUDO.format(log=log)),
            "ANSIBLE_NOCOLOR": "1",
        }
        done = warm_ansible.run(
            ["ansible-playbook", "-i", str(site), *options, str(tmp_path / "play.yml")],
            cwd=tmp_path,
            env={**os.environ, **environment},
        )
        return done.stdout + done.stderr, len(log.read_text().splitlines())

    return run


def test_ordinary_user_becomes_root_on_every_host(run: Run) -> None:
    said, asked = run(HOSTS)
    assert said.count("ok: [") == asked == 3, said


def test_where_root_logs_in_sudo_is_not_asked(run: Run) -> None:
    said, asked = run(HOSTS, user="root")
    assert said.count("ok: [") == 3, said
    assert asked == 0


@pytest.mark.parametrize(
    ("where", "asked"), [({"all": {"ansible_become": False}}, 0), ({"gpu_01": {"ansible_become": False}}, 2)], ids=str
)
def test_site_overrides_it(run: Run, where: dict[str, Any], asked: int) -> None:
    assert run(HOSTS, **where)[1] == asked


def test_command_line_overrides_it(run: Run) -> None:
    assert run(HOSTS, options=("-e", "ansible_become=false"))[1] == 0


def test_localhost_never_asks_sudo(run: Run) -> None:
    """Also not for tasks that a host delegates to it, and the host to which localhost delegates does."""
    local = {**PING, "delegate_to": "localhost"}
    there = {**PING, "delegate_to": "ctl"}
    # Otherwise nothing would be asked anyway where root runs this test.
    always = {"ansible_become_user": "somebody"}
    said, asked = run(
        {"hosts": "localhost", "gather_facts": False, "tasks": [PING]},
        {"hosts": "gpu-01", "gather_facts": False, "tasks": [local]},
        all=always,
    )
    assert said.count("ok: [") == 2, said
    assert asked == 0
    said, asked = run({"hosts": "localhost", "gather_facts": False, "tasks": [there]})
    assert said.count("ok: [") == asked == 1, said


def test_task_that_asks_as_the_login_user_is_not_root(run: Run) -> None:
    """What role slurm does before it restricts ssh; a keyword would be overridden by the inventory."""
    assert run({**HOSTS, "tasks": [{**PING, "vars": {"ansible_become": False}}]})[1] == 0
    assert run({**HOSTS, "tasks": [{**PING, "become": False}]})[1] == 3


def test_missing_password_is_the_hosts_own_reason(run: Run, tmp_path: Path) -> None:
    """The host leaves the run, others go on, and admission hears why."""
    stopped = {"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/stopped.yml")}
    step = {"block": [PING], "rescue": [stopped], "when": "inventory_hostname in groups['compute']"}
    tell = {"name": "Tell", "ansible.builtin.debug": {"msg": "REASONS {{ muster_stopped_reasons | to_json }} END"}}
    play = {
        "hosts": "gpu-01,gpu-02,localhost",
        "gather_facts": False,
        "vars_files": [str(ROOT / "playbooks/group_vars/all.yml")],
    }
    said, asked = run(
        {**play, "tasks": [step]},
        {**play, "tasks": [{**tell, "run_once": True}]},
        gpu_01={"ansible_become_exe": program(tmp_path / "asking", ASKING)},
    )
    assert asked == 1, said
    reasons = said.partition("REASONS ")[2].partition(" END")[0]
    assert json.loads(" ".join(reasons.split())) == {"gpu-01": "Ping: Task failed: Missing sudo password"}
