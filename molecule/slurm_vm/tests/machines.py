"""The machines, and commands on them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import NodeState, parse_nodes
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
# Several scenarios have these tests.
SCENARIO = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"])
FLEET = Fleet.load(SCENARIO / "inventory/vm.fleet.yml")
CONTROLLER, NODE, USER = "vm-ctl", "vm-01", "alice"
# Emulated processors take their time.
PATIENCE = 120.0
# Without a driver behind it, a device that may be opened does not answer.
MAY, MAY_NOT = "No such device or address", "Operation not permitted"


def ask(host: str, command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
    """Run a shell command on a machine."""
    argv = ["ssh", "-F", str(PROJECT / "build/vm" / SCENARIO.name / "ssh_config"), "-l", user, host, command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE)


def on(host: str, command: str, user: str = "root") -> str:
    """Return what a shell command prints on a machine; it must succeed."""
    done = ask(host, command, user)
    assert done.returncode == 0, f"{user}@{host}: {command}\nended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def wait_for(what: str, condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not seen within {PATIENCE:g} s: {what}; last was {answer!r}"
        time.sleep(1)


def idle() -> bool:
    """Return whether Slurm could start a job on the node."""
    return on(CONTROLLER, f"sinfo -h -a -n {NODE} -o %t").split()[:1] == ["idle"]


def shown() -> NodeState:
    """Return what the controller says of the node, as Muster reads it."""
    return parse_nodes(on(CONTROLLER, f"scontrol show node {NODE} --oneliner"))[NODE]
