"""No option of a run has a role configure the control machine, under whatever name and connection.

Everything here runs in check mode, with this machine as the control machine: a guard that fails shows what it would do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests import warm_ansible
from tests.identified import SYSTEM

ROOT = Path(__file__).resolve().parents[3]
REFUSED = ("is the control machine itself", "has not said in this run which machine it is", "is no host of the fleet")
STEPS = ("provision", "examine", "burn_in", "slurm_upgrade")
ENVIRONMENT = {
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
}
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run playbooks in check mode on the lab's fleet, all of whose hosts are this machine by local connection."""
    place = tmp_path / "inventory" / "lab"
    shutil.copytree(ROOT / "inventory" / "lab", place)
    (tmp_path / "build" / "lab").mkdir(parents=True)
    for step in STEPS:
        own = [{"name": step, "ansible.builtin.import_playbook": str(ROOT / f"playbooks/{step}.yml")}]
        (tmp_path / f"own_{step}.yml").write_text(yaml.safe_dump(own), encoding="utf-8")
    (tmp_path / "here.yml").write_text(
        yaml.safe_dump(
            {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                "slurm_backup_directory": str(tmp_path / "backup"),
            }
        ),
        encoding="utf-8",
    )

    def play(playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [Path(sys.executable).with_name("ansible-playbook"), "-i", place, playbook, "--check", "--diff"]
        return warm_ansible.run(
            [*command, "-e", f"@{tmp_path}/here.yml", *arguments], cwd=tmp_path, env={**os.environ, **ENVIRONMENT}
        )

    return play


def assert_nothing_done(run: subprocess.CompletedProcess[str]) -> None:
    """Assert that no task of a role came further than its condition, on any host."""
    said = run.stdout + run.stderr
    for section in re.split(r"^(?=TASK \[|RUNNING HANDLER \[|PLAY )", run.stdout, flags=re.MULTILINE):
        task = section.partition("\n")[0]
        if not task.startswith(("TASK [muster.cluster.", "RUNNING")) or "Validating arguments" in task:
            continue
        assert not re.search(r"^(ok|changed): \[", section, re.MULTILINE), section
        for failure in re.findall(r"^(?:fatal|failed): \[.*?(?=^\S|\Z)", section, re.MULTILINE | re.DOTALL):
            assert any(words in " ".join(failure.split()) for words in REFUSED), section
    assert "--- before" not in said, said
    assert not re.search(r"changed=[1-9]", run.stdout), said


# A site's own playbook that imports ours: with ours alone, the inventory ends a run that leaves out tasks.
@pytest.mark.parametrize(
    ("step", "task"),
    [
        ("provision", "Write the host's files and run what reads them"),
        ("provision", "Set kernel parameters and check for a pending reboot"),
        ("provision", "Mount and verify the tiers"),
        ("examine", "Install the node program, the burn-in unit and the expectations"),
        ("burn_in", "Start burn-in or attach to it"),
        ("slurm_upgrade", "Check addresses, install munge and Slurm*"),
    ],
)
def test_start_in_the_middle_configures_nothing(run: Run, step: str, task: str) -> None:
    done = run(f"own_{step}.yml", "--start-at-task", task)
    assert "PLAY [" in done.stdout and "No matching task" not in done.stderr, done.stdout + done.stderr
    assert_nothing_done(done)


@pytest.mark.parametrize(
    "arguments",
    [("--tags", "always"), ("--skip-tags", "always"), ("-e", "target=localhost")],
    ids=" ".join,
)
def test_options_leave_no_guard_out(run: Run, arguments: tuple[str, ...]) -> None:
    done = run("own_provision.yml", *arguments)
    assert "PLAY [" in done.stdout, done.stderr
    assert_nothing_done(done)


@pytest.mark.parametrize(("step", "host"), [("provision", "ctl"), ("provision", "gpu-01"), ("examine", "gpu-01")])
def test_host_of_the_fleet_that_is_the_control_machine_is_refused(run: Run, step: str, host: str) -> None:
    done = run(f"own_{step}.yml", "--limit", f"localhost,{host}")
    assert_nothing_done(done)
    assert f"{host} is the control machine itself" in " ".join(done.stdout.split()), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("playbook", "arguments"),
    [
        ("playbooks/site.yml", ("--start-at-task", "Write the host's files and run what reads them")),
        ("playbooks/provision.yml", ("--start-at-task", "no such task")),
        ("muster.cluster.site", ("--tags", "none of ours")),
    ],
)
def test_part_of_a_playbook_is_no_run(run: Run, playbook: str, arguments: tuple[str, ...]) -> None:
    done = run(str(ROOT / playbook) if "/" in playbook else playbook, *arguments)
    assert done.returncode == 1 and "PLAY [" not in done.stdout, done.stdout + done.stderr
    assert f"{arguments[0]} leaves out what guards the fleet" in done.stderr


def test_keys_are_not_created_on_a_controller_that_is_the_control_machine(run: Run, tmp_path: Path) -> None:
    keys = {
        "name": "Read the keys for a node that is another machine",
        "hosts": "gpu-01",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Read the keys",
                "ansible.builtin.import_role": {
                    "name": "muster.cluster.slurm",
                    "tasks_from": "keys",
                    "rolespec_validate": False,
                },
                "vars": {
                    "muster_system": {"boot_id": "another machine's", "system": SYSTEM},
                    "slurm_controllers": [{"name": "ctl"}],
                    "__slurm_unknown_keys": [{"path": str(tmp_path / "munge.key"), "owner": "root"}],
                },
            }
        ],
    }
    (tmp_path / "keys.yml").write_text(yaml.safe_dump([keys]), encoding="utf-8")
    done = run("keys.yml")
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2 and "ctl is the control machine itself" in said, said
