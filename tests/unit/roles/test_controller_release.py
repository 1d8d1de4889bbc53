"""What a host of Slurm hears of the primary controller's release before it installs its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import PackageError
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_packages import said_release

from tests import warm_ansible

ROOT = Path(__file__).resolve().parents[3]
ROLE = ROOT / "roles/slurm"
NODES = ("node-1", "node-2")
Heard = Callable[..., list[Any]]


def read(name: str) -> Any:
    return yaml.safe_load((ROLE / name).read_text(encoding="utf-8"))


@pytest.fixture
def heard(tmp_path: Path) -> Heard:
    """Return what role slurm gives to slurm_packages as ``controller_says`` on two hosts, None where it has none.

    ``lines`` are those of the controller's slurmctld, None for a controller without one; ``asks`` says whether the
    role's main part runs, or its installation alone.
    """

    def run(
        lines: list[str] | None,
        *options: str,
        role: str = "compute",
        asks: bool = True,
        known: bool = True,
        **controller: Any,
    ) -> Any:
        slurmctld = tmp_path / "slurmctld"
        if lines is not None:
            slurmctld.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
            slurmctld.chmod(0o755)
        configure = read("tasks/main.yml")[0]["block"]
        (task,) = (each for each in configure if each["name"] == "Read the release of the primary controller")
        asking = json.loads(json.dumps(task).replace("/usr/sbin/slurmctld", str(slurmctld)))
        install = read("tasks/install.yml")[0]["block"][0]["muster.cluster.slurm_packages"]
        names = ("__slurm_is_served", "__slurm_controller_asked", "__slurm_controller_says")
        play = {
            "hosts": list(NODES),
            "gather_facts": False,
            "vars": {
                **{name: value for name, value in read("vars/main.yml").items() if name in names},
                "slurm_roles": [role],
                "slurm_controllers": [{"name": "ctl"}],
                "given": install["controller_says"].replace("omit", "none"),
            },
            "tasks": [
                *([asking] if asks else []),
                {
                    "ansible.builtin.copy": {
                        "content": "{{ given | to_json }}",
                        "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}.json",
                    },
                    "check_mode": False,
                },
            ],
        }
        here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts = {"all": {"hosts": {**dict.fromkeys(NODES, here), **({"ctl": {**here, **controller}} if known else {})}}}
        (tmp_path / "play.yml").write_text(json.dumps([play]), encoding="utf-8")
        (tmp_path / "hosts.yml").write_text(json.dumps(hosts), encoding="utf-8")
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        command = [Path(sys.executable).with_name("ansible-playbook"), "-i", "hosts.yml", "play.yml", *options]
        done = warm_ansible.run(command, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads((tmp_path / f"{node}.json").read_text(encoding="utf-8")) for node in NODES]

    return run


@pytest.mark.parametrize(("role", "options"), [("compute", ()), ("compute", ("--check",)), ("login", ())])
def test_all_hosts_hear_what_slurmctld_says_by_one_question(
    heard: Heard, tmp_path: Path, role: str, options: tuple[str, ...]
) -> None:
    lines = ['echo asked >> "$0.asked"', 'echo "slurm-wlm 23.11.4 $*"']
    assert heard(lines, *options, role=role) == ["slurm-wlm 23.11.4 -V"] * 2
    assert (tmp_path / "slurmctld.asked").read_text(encoding="utf-8") == "asked\n"


def test_controller_without_slurmctld_says_nothing(heard: Heard) -> None:
    assert heard(None, "--check") == [None, None]


@pytest.mark.parametrize("role", ["controller", "database"])
def test_hosts_of_the_services_ask_for_others_alone(heard: Heard, tmp_path: Path, role: str) -> None:
    assert heard(['echo asked >> "$0.asked"', "echo slurm 24.11.5"], role=role) == [None, None]
    assert (tmp_path / "slurmctld.asked").exists()


def test_installation_alone_does_not_ask(heard: Heard) -> None:
    assert heard(["echo slurm 24.11.5"], asks=False) == [None, None]


@pytest.mark.parametrize("lines", [[], ["echo broken library >&2", "exit 127"], ["echo slurm 24.11.5", "exit 1"]])
def test_slurmctld_that_fails_or_says_nothing_is_no_release(heard: Heard, lines: list[str]) -> None:
    for said in heard(lines):
        with pytest.raises(PackageError, match="slurmctld -V on the primary controller: found"):
            said_release(said)


def test_controller_that_does_not_answer_is_no_release(heard: Heard) -> None:
    for said in heard(["echo slurm 24.11.5"], ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1):
        with pytest.raises(PackageError, match=r"found .*Make sure this host can be reached"):
            said_release(said)


def test_controller_that_is_not_in_the_inventory_is_not_asked(heard: Heard) -> None:
    assert heard(["echo slurm 24.11.5"], known=False) == [None, None]
