"""The container lab as the tests drive it: playbooks as a site runs them, faults as data, users' own commands."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "molecule/lab"))

from lab_tasks import counting  # noqa: E402 -- found on the path just set

BIN = Path(sys.executable).parent
LAB = [sys.executable, str(ROOT / "molecule/lab/lab.py")]
LEDGER = ROOT / "build/lab/ledger.sqlite"
INVENTORY = "inventory/lab"
GATE = "/etc/slurm/muster_partitions.conf"


def descendants(pid: int) -> list[int]:
    """Return all processes that descend from one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found, left = [], [pid]
    while left:
        left += children.get(left.pop(), [])
        found += [each for each in left if each not in found]
    return found


@dataclass(frozen=True)
class Run:
    """How one ansible-playbook ended: exit status, output, verdicts by node, `changed` by host."""

    rc: int
    output: str
    verdicts: dict[str, dict[str, Any]]
    changed: dict[str, int]

    def state(self, node: str) -> str:
        """State of a node as the run reported it."""
        return str(self.verdicts[node]["state"])


class Lab:
    """Five hosts, one ledger, one inventory."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    def start(
        self, playbook: str = "site", *extra: str, before: Sequence[str] = (), inventory: str = INVENTORY
    ) -> tuple[subprocess.Popen[str], Path]:
        """Start a playbook in a process group of its own; its output goes to the returned file.

        ``before`` is a command that runs the playbook's, such as a tracer.
        """
        log = self.scratch / f"{playbook}-{time.monotonic_ns()}.log"
        # A run that judged nothing must not be taken for the one before it.
        for stale in (self.scratch / "verdicts.json", self.scratch / "tasks.json"):
            stale.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "ANSIBLE_HOME": str(ROOT / "build/ansible"),
            **counting(self.scratch / "tasks.json"),
        }
        command = [*before, str(BIN / "ansible-playbook"), "-i", inventory, f"playbooks/{playbook}.yml"]
        command += ["-e", f"report_directory={self.scratch}", *extra]
        with log.open("w") as stream:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        return process, log

    def finish(self, process: subprocess.Popen[str], log: Path, seconds: float = 600) -> Run:
        """Wait for a started playbook."""
        rc = process.wait(timeout=seconds)
        verdicts = self.scratch / "verdicts.json"
        tasks = self.scratch / "tasks.json"
        return Run(
            rc,
            log.read_text(),
            {entry["node"]: entry for entry in json.loads(verdicts.read_text())} if verdicts.exists() else {},
            json.loads(tasks.read_text())["changed"] if tasks.exists() else {},
        )

    def play(self, playbook: str = "site", *extra: str, inventory: str = INVENTORY) -> Run:
        """Run a playbook to its end."""
        return self.finish(*self.start(playbook, *extra, inventory=inventory))

    @staticmethod
    def kill(process: subprocess.Popen[str]) -> None:
        """Kill the control process and its workers, as a lost control machine would end."""
        workers = descendants(process.pid)
        process.kill()
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        process.wait()

    @staticmethod
    def command(*arguments: str) -> str:
        """Run one lab.py command."""
        done = subprocess.run([*LAB, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, f"lab.py {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def set(self, host: str, **state: Any) -> None:
        """Change a host's simulated state; None clears a fault."""
        self.command("state", host, *[f"{key}={json.dumps(value)}" for key, value in state.items()])

    @staticmethod
    def ssh(host: str, command: str, user: str = "root", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a host through its real sshd."""
        address = {"ctl": "10.77.0.10", **{f"gpu-0{n}": f"10.77.0.1{n}" for n in range(1, 5)}}[host]
        done = subprocess.run(
            [
                *("ssh", "-n", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "StrictHostKeyChecking=yes"),
                *("-o", f"UserKnownHostsFile={ROOT}/build/lab/known_hosts", "-i", f"{ROOT}/build/lab/id_ed25519"),
                f"{user}@{address}",
                command,
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert not check or done.returncode == 0, f"{user}@{host}: {command}: {done.stdout}{done.stderr}"
        return done

    def open_nodes(self, partition: str = "batch") -> set[str]:
        """Nodes that the live controller has in a user partition."""
        answer = self.ssh("ctl", f"sinfo -h -N -p {partition} -o %N").stdout
        return set(answer.split())

    def gate_file(self) -> str:
        """The gate's file as it lies on the controller."""
        return self.ssh("ctl", f"cat {GATE}").stdout

    @staticmethod
    def query(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read the ledger as another program would."""
        with sqlite3.connect(f"file:{LEDGER}?mode=ro", uri=True, timeout=30) as connection:
            return connection.execute(sql, values).fetchall()

    def evidence_ids(self, node: str, stage: str) -> list[str]:
        """Ids of a node's evidence of one stage, oldest first."""
        return [
            row[0]
            for row in self.query("select id from evidence where node=? and stage=? order by started", node, stage)
        ]

    @staticmethod
    def wait(condition: Callable[[], bool], what: str, seconds: float = 600, every: float = 0.25) -> None:
        """Wait until something is seen; fail naming it."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not seen within {seconds:g} s: {what}"
            time.sleep(every)

    def burn_in(self, host: str) -> dict[str, Any]:
        """State of the burn-in that is resident on a host; empty when there never was one."""
        text = self.ssh(host, "cat /var/lib/muster/burn_in/state.json 2>/dev/null || echo '{}'").stdout
        return dict(json.loads(text))

    def wait_for_burn_in(self, host: str, known: list[str]) -> None:
        """Wait until a burn-in runs on a host that the ledger does not know of."""
        self.wait(
            lambda: (state := self.burn_in(host)).get("status") == "running" and state["id"] not in known,
            f"burn-in of {host}",
        )


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab after a demo; it is left as it is, for whoever wants to look."""
    yield Lab(tmp_path_factory.mktemp("runs"))
