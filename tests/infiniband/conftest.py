"""A simulated InfiniBand fabric with the subnet managers that the role configures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "molecule" / "lab"))

import ibsim  # noqa: E402 -- found on the path just set

MANAGERS = ("sm-1", "sm-2")
PARTITIONS = [{"name": "compute", "pkey": 0x11, "ipoib": True}, {"name": "storage", "pkey": 0x12, "ipoib": False}]


@pytest.fixture(scope="session")
def tools() -> None:
    """OpenSM, the simulator and the diagnostics; installed where that is possible."""
    try:
        ibsim.install()
    except (OSError, subprocess.CalledProcessError) as exc:
        pytest.skip(f"the InfiniBand simulator cannot be installed here: {exc}")
    if not Path(ibsim.PRELOAD).exists():
        pytest.skip(f"the InfiniBand simulator needs {ibsim.PRELOAD}, which this machine has not")


class Site:
    """What the role wrote for two managers, below one directory, as if each were a host."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.said: list[str] = []
        for number, name in enumerate(MANAGERS):
            port = directory / name / "sys/class/infiniband/ibsim0/ports/1"
            (port / "gids").mkdir(parents=True)
            (port / "link_layer").write_text("InfiniBand\n")
            # The simulator numbers in order: the adapter, then its port.
            guid = 0x100001 + 2 * number
            (port / "gids/0").write_text(f"fe80:0000:0000:0000:0000:0000:{guid >> 16:04x}:{guid & 0xFFFF:04x}\n")

    def configuration(self, name: str) -> Path:
        """Return the configuration of one manager."""
        return self.directory / name / "opensm.conf"

    def apply(self, *runs: dict[str, Any]) -> list[str]:
        """Run the part of the role that configures once for each of the keywords of a play; return what each said.

        All in one run of Ansible, which takes its seconds to start.
        """
        own = f"{self.directory}/{{{{ inventory_hostname }}}}"
        given = {
            "subnet_manager_hosts": list(MANAGERS),
            "subnet_manager_routing_engine": "updn,no_fallback",
            # Seconds in place of the usual forty until the other one takes over.
            "subnet_manager_settings": {"sminfo_polling_timeout": 200, "polling_retry_number": 2, "sweep_interval": 1},
            "subnet_manager_program": shutil.which("opensm", path="/usr/sbin:/usr/bin"),
            "subnet_manager_root": own,
            "__subnet_manager_directory": own,
            "__subnet_manager_log": f"{own}/opensm.log",
            "__subnet_manager_files": [
                {"path": f"{own}/{name}", "content": f"{{{{ lookup('ansible.builtin.template', '{name}.j2') }}}}"}
                for name in ("partitions.conf", "qos-policy.conf", "muster-opensm.service", "logrotate")
            ],
            "__subnet_manager_installed": {"changed": False, "failed": False},
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
        }
        role = {"name": "muster.cluster.subnet_manager", "tasks_from": "configure"}
        plays = [{"gather_facts": False, "tasks": [{"ansible.builtin.import_role": role}], **run} for run in runs]
        (self.directory / "play.json").write_text(json.dumps(plays))
        (self.directory / "given.json").write_text(json.dumps(given))
        # Nothing is started here: what would be is told to this stand-in.
        systemctl = self.directory / "bin/systemctl"
        systemctl.parent.mkdir(exist_ok=True)
        systemctl.write_text('#!/bin/sh\n[ "$1" != show ] || printf "LoadState=loaded\\nActiveState=active\\n"\n')
        systemctl.chmod(0o755)
        command = [Path(sys.executable).with_name("ansible-playbook"), "--diff", "-i", ",".join(MANAGERS)]
        done = subprocess.run(
            [*command, "-e", f"@{self.directory}/given.json", self.directory / "play.json"],
            cwd=ROOT,
            env={
                **os.environ,
                "PATH": f"{systemctl.parent}:{os.environ['PATH']}",
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.partition("PLAY RECAP")[0].split("PLAY [")[1:]


@pytest.fixture(scope="module")
def site(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two managers for a fleet whose hosts use a partition of their own: set up, again, and foreseen otherwise."""
    site = Site(tmp_path_factory.mktemp("site"))
    declared = {"subnet_manager_partitions": PARTITIONS}
    other = {"subnet_manager_partitions": PARTITIONS[:1], "subnet_manager_qos": True}
    site.said = site.apply(
        {"hosts": "all", "vars": declared},
        {"hosts": "sm-1", "vars": declared},
        {"hosts": "sm-1", "vars": other, "check_mode": True},
    )
    return site
