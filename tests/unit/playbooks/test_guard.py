"""What stops site.yml before it reaches a host: wrong targets and ledgers, on the lab's inventory without its hosts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger

from tests import warm_ansible

ROOT = Path(__file__).resolve().parents[3]
FOREIGN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """A copy of the lab's inventory, with a ledger of its own."""
    # As deep as the original, by whose place it names ledger and keys.
    place = tmp_path / "inventory" / "lab"
    shutil.copytree(ROOT / "inventory" / "lab", place)
    (tmp_path / "build" / "lab").mkdir(parents=True)
    return place


def play(playbook: str, inventory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of the project's playbooks, as an operator would."""
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory), f"playbooks/{playbook}.yml"]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    return warm_ansible.run([*argv, *arguments], cwd=ROOT, env=environment)


def stopped(run: subprocess.CompletedProcess[str], said: str) -> None:
    """Assert that a run ended in the guard, said why, and came no further."""
    assert run.returncode == 2, run.stdout + run.stderr
    assert said in run.stdout + run.stderr, run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
    assert "PLAY [Guard the ledger]" in run.stdout
    assert run.stdout.count("PLAY [") == 1, run.stdout
    assert "changed=0" in run.stdout


@pytest.mark.parametrize("target", ["gpu-99", "ctl", "all"])
def test_targets_that_are_no_compute_nodes_stop_the_run(inventory: Path, target: str) -> None:
    # The first play of site.yml, by itself.
    stopped(play("guard", inventory, "-e", f"target={target}"), "expected compute nodes")


def test_limit_without_the_control_machine_is_refused(inventory: Path) -> None:
    stopped(play("site", inventory, "--limit", "gpu-04"), "--limit gpu-01,gpu-02,localhost")


@pytest.mark.parametrize("case", ["missing", "empty", "foreign"])
def test_wrong_ledger_stops_before_anything_changes(inventory: Path, case: str) -> None:
    ledger = inventory.parents[1] / "build/lab/ledger.sqlite"
    said = {"missing": "ledger_create", "empty": "empty", "foreign": FOREIGN}[case]
    if case == "empty":
        ledger.touch()
    if case == "foreign":
        Ledger.create(f"sqlite:///{ledger}", FOREIGN, "lab")
    stopped(play("site", inventory), said)
    assert ledger.exists() == (case != "missing"), "a ledger was made without being asked for"
