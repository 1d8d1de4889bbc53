"""The scenario's hosts as an operator meets them: the role with another declaration, commands over ssh, the power."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
INVENTORY = PROJECT / "molecule/gpu_stack/inventory"
LAB = [sys.executable, str(PROJECT / "molecule/lab/lab.py"), f"--inventory={INVENTORY}"]
CLASSES = yaml.safe_load((INVENTORY / "gpu_stack.fleet.yml").read_text(encoding="utf-8"))["hardware_classes"]
OLD_DRIVER, NEW_DRIVER = "570.86.15", "570.124.06"
LOADED = "/opt/lab/root/proc/driver/nvidia/version"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Play:
    """What one run of the role printed and counted."""

    def __init__(self, done: subprocess.CompletedProcess[str], seconds: float) -> None:
        self.rc, self.seconds = done.returncode, seconds
        self.text = done.stdout + done.stderr
        # Messages are wrapped and quoted by the callback: told apart by their words alone.
        self.words = re.sub(r"\s+", " ", self.text)
        recap = re.search(r"changed=(\d+) .*failed=(\d+)", self.text)
        assert recap, self.text
        self.changed, self.failed = int(recap[1]), int(recap[2])


def play(packages: dict[str, str], driver: str, *arguments: str, target: str = "stack-01", **variables: Any) -> Play:
    """Run the role with another declaration."""
    given = {
        "target": target,
        "gpu_stack_driver": driver,
        "gpu_stack_packages": [{"name": name, "version": version} for name, version in packages.items()],
        **variables,
    }
    return run("role.yml", given, *arguments)


def run(playbook: str, given: dict[str, Any], *arguments: str) -> Play:
    """Run one of the scenario's playbooks with extra variables."""
    command = [str(Path(sys.executable).parent / "ansible-playbook"), f"--inventory={INVENTORY}", "--diff"]
    command += [*arguments, f"--extra-vars={json.dumps(given)}", str(PROJECT / "molecule/gpu_stack" / playbook)]
    began = time.monotonic()
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200"}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    return Play(done, time.monotonic() - began)


def declared(hardware_class: str) -> dict[str, str]:
    """Return the packages that the fleet file declares for a class, with their versions."""
    return {package["name"]: package["version"] for package in CLASSES[hardware_class]["gpu_stack"]["packages"]}


def on(host: str, command: str, check: bool = True) -> str:
    """Return what a command prints on a host."""
    config = str(PROJECT / "build/lab/ssh_config")
    done = subprocess.run(["ssh", "-F", config, host, command], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


@contextmanager
def power_button(host: str) -> Iterator[None]:
    """Boot the container again when its own reboot has ended it, as a machine's firmware would."""
    ended = threading.Event()

    def press() -> None:
        while not ended.is_set():
            status = subprocess.run([*LAB, "status"], cwd=PROJECT, capture_output=True, text=True, check=False).stdout
            if re.search(rf"^{host}\s+\S+\s+(exited|stopped)", status, re.MULTILINE):
                subprocess.run([*LAB, "start", host], cwd=PROJECT, capture_output=True, check=False)
                # A container sees the boot id of the machine below; whoever waits for the reboot compares it.
                own = [*LAB, "exec", host, "mount", "--bind", f"/opt/lab/root{BOOT_ID}", BOOT_ID]
                subprocess.run(own, cwd=PROJECT, capture_output=True, check=False)
            ended.wait(1)

    finger = threading.Thread(target=press)
    finger.start()
    try:
        yield
    finally:
        ended.set()
        finger.join()
