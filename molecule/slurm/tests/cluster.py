"""The scenario's cluster as users and operators meet it: commands over ssh, playbooks, and conditions to wait for."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
sys.path[:0] = [str(PROJECT / "molecule/lab"), str(PROJECT)]

from lab_tasks import counting  # noqa: E402 -- found on the path just set

INVENTORY = PROJECT / "molecule/slurm/inventory"
FLEET = INVENTORY / "slurm.fleet.yml"
# The scenario's lab, named MUSTER_LAB.
PLACE = PROJECT / "build/slurm_lab"
LEDGER = PLACE / "ledger.sqlite"
SSH = ("ssh", "-n", "-F", str(PLACE / "ssh_config"), "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
LEADING, STANDBY, DATABASE, LOGIN = "ctl", "ctl-2", "db", "login-1"
CONTROLLERS = (LEADING, STANDBY)
NODES = ("gpu-01", "gpu-02", "gpu-03")
USER, OTHER_USER = "alice", "bob"
# What a busy machine with two cores may take for anything that takes seconds on an idle one.
PATIENCE = 180.0


@dataclass(frozen=True)
class Run:
    """How a playbook ended: exit status, output, and `changed` and evaluated tasks by host."""

    rc: int
    output: str
    changed: dict[str, int]
    tasks: dict[str, dict[str, int]]


def ssh(host: str, command: str, user: str = "root", seconds: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run a shell command on a host; no end in time gives status 124."""
    argv = [*SSH, "-l", user, host, command]
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired as exc:
        said = exc.stdout.decode(errors="replace") if isinstance(exc.stdout, bytes) else exc.stdout or ""
        return subprocess.CompletedProcess(argv, 124, said, f"no end within {seconds:g} s")


def on(host: str, command: str, user: str = "root") -> str:
    """Return what a shell command prints on a host; it must succeed."""
    done = ssh(host, command, user)
    assert done.returncode == 0, f"{user}@{host}: {command}\nended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def wait_for(what: str, condition: Callable[[], Any], seconds: float = PATIENCE, every: float = 0.5) -> Any:
    """Return the first true answer of ``condition``; fail naming what was waited for, and the last answer."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not seen within {seconds:g} s: {what}; last was {answer!r}"
        time.sleep(every)


def lab(*arguments: str) -> str:
    """Run one command of lab.py."""
    argv = [sys.executable, str(PROJECT / "molecule/lab/lab.py"), f"--inventory={INVENTORY}", *arguments]
    environment = {**os.environ, "MUSTER_LAB": PLACE.name}
    done = subprocess.run(argv, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"lab.py {shlex.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def show(host: str, **state: Any) -> None:
    """Change what a host's simulated hardware shows; None is healthy again."""
    lab("state", host, *[f"{key}={json.dumps(value)}" for key, value in state.items()])


@dataclass
class Playing:
    """A playbook that was started."""

    process: subprocess.Popen[str]
    log: Path
    counts: Path

    def result(self, seconds: float = 900) -> Run:
        """Wait for its end."""
        rc = self.process.wait(timeout=seconds)
        counted = json.loads(self.counts.read_text(encoding="utf-8")) if self.counts.exists() else {}
        return Run(rc, self.log.read_text(encoding="utf-8"), counted.get("changed", {}), counted.get("hosts", {}))


def start_playing(playbook: str, *arguments: str, inventory: Path = INVENTORY) -> Playing:
    """Start one of the project's playbooks as an operator would."""
    scratch = Path(tempfile.mkdtemp(prefix="play-", dir=PROJECT / "build/molecule"))
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
        "ANSIBLE_HOME": str(PROJECT / "build/ansible"),
        "ANSIBLE_NOCOLOR": "1",
        **counting(scratch / "tasks.json"),
    }
    program = str(Path(sys.executable).parent / "ansible-playbook")
    argv = [program, f"--inventory={inventory}", f"playbooks/{playbook}.yml", "-e", f"report_directory={scratch}"]
    with (scratch / "log").open("w") as log:
        process = subprocess.Popen(
            [*argv, *arguments], cwd=PROJECT, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True
        )
    return Playing(process, scratch / "log", scratch / "tasks.json")


def try_to_play(playbook: str, *arguments: str, inventory: Path = INVENTORY) -> Run:
    """Run a playbook to its end."""
    return start_playing(playbook, *arguments, inventory=inventory).result()


def play(playbook: str, *arguments: str) -> Run:
    """Run a playbook, which must succeed."""
    run = try_to_play(playbook, *arguments)
    assert run.rc == 0, f"{playbook} {shlex.join(arguments)} ended with {run.rc}:\n{run.output[-6000:]}"
    return run


def decide(node: str, decision: str) -> Run:
    """Record an operator's decision; the gate follows."""
    return play("decide", "-e", f"node={node}", "-e", f"decision={decision}", "-e", "reason=scenario")


def admit(*nodes: str) -> Run:
    """Judge nodes again, all of them unless some are named; the gate follows."""
    return play("admit", *(["-e", f"target={','.join(nodes)}"] if nodes else []))


def answering(host: str = LOGIN) -> bool:
    """Say whether a controller answers."""
    return ssh(host, "sinfo --noheader", seconds=30).returncode == 0


def open_nodes(partition: str = "batch", host: str = LOGIN) -> set[str]:
    """Return the nodes of a user partition as the controller has them."""
    return set(on(host, f"sinfo --noheader --Node --partition={partition} --format=%N").split())


def node_state(node: str) -> str:
    """Return the state of a node, in lower case: ``idle``, ``down*``, ``idle+drain``."""
    return on(LOGIN, f"scontrol --oneliner show node {node}").partition(" State=")[2].split()[0].lower()


def usable(node: str) -> bool:
    """Say whether a node would take a job."""
    return node_state(node) in ("idle", "mixed", "allocated")


def submit(body: str, *options: str, user: str = USER) -> str:
    """Submit a batch job from the login host and return its number."""
    words = ["sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", *options, f"--wrap={body}"]
    return on(LOGIN, shlex.join(words), user).strip().partition(";")[0]


def job(number: str) -> dict[str, str]:
    """Return what the controller says of a job: ``JobState``, ``NodeList``, ``Reason``, ...; empty if it forgot it."""
    done = ssh(LOGIN, f"scontrol --oneliner show job {number}")
    return dict(re.findall(r"(?:^|\s)([A-Za-z:/]+)=(\S*)", done.stdout.partition("\n")[0]))


def wait_for_job(number: str, *states: str, seconds: float = PATIENCE) -> dict[str, str]:
    """Wait until a job has one of the states and return what the controller says of it."""
    last: dict[str, str] = {}

    def there() -> bool:
        last.clear()
        last.update(job(number))
        return last.get("JobState") in states

    try:
        wait_for(f"job {number} {' or '.join(states)}", there, seconds)
    except AssertionError as exc:
        raise AssertionError(f"{exc}: {last.get('JobState')} {last.get('Reason')} {last.get('NodeList')}") from None
    return last


def now() -> str:
    """Return the present time as sacct takes it, by the cluster's clocks."""
    return on(LOGIN, "date +%Y-%m-%dT%H:%M:%S").strip()


@dataclass(frozen=True)
class Accounted:
    """One allocation as accounting has it; ``start`` as ``now`` gives it, ``Unknown`` for one that has not begun."""

    number: str
    user: str
    state: str
    seconds: int
    nodes: str
    account: str
    start: str


def accounted(since: str, *options: str) -> list[Accounted]:
    """Return the allocations that accounting has from a time on."""
    fields = "JobID,User,State,ElapsedRaw,NodeList,Account,Start"
    command = ["sacct", "--allusers", "--allocations", "--noheader", "--parsable2", "--duplicates"]
    text = on(LOGIN, shlex.join([*command, f"--starttime={since}", "--endtime=now", f"--format={fields}", *options]))
    rows = [line.split("|") for line in text.splitlines()]
    return [Accounted(row[0], row[1], row[2], int(row[3] or 0), row[4], row[5], row[6]) for row in rows]


def expand(nodes: str) -> list[str]:
    """Return the names in one of Slurm's host lists of this cluster; none for a job that was never given a node."""
    return [name for name in NODES if _within(name, nodes)]


def _within(name: str, nodes: str) -> bool:
    folded = re.findall(r"([^\[,]+)(?:\[([^\]]+)\])?", nodes)
    for prefix, ranges in folded:
        ends = [part.partition("-") for part in ranges.split(",")] if ranges else []
        if name == prefix and not ranges:
            return True
        number = name.removeprefix(prefix)
        if name.startswith(prefix) and any(first <= number <= (last or first) for first, _, last in ends):
            return True
    return False


def run_as(user: str, command: Sequence[str], host: str = LOGIN) -> subprocess.CompletedProcess[str]:
    """Run a command as an ordinary user."""
    return ssh(host, f"cd /tmp && {shlex.join(command)}", user)


def changed_inventory(name: str, *changes: tuple[str, str]) -> Path:
    """Return a copy of the inventory whose fleet file has other text; each old text must be there."""
    # As deep below the project as the original: ledger and keys are named by relative paths.
    place = PROJECT / "build/molecule" / f"slurm-{name}"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(INVENTORY, place)
    fleet = place / FLEET.name
    text = fleet.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, f"{old!r} is not in {FLEET}"
        text = text.replace(old, new, 1)
    fleet.write_text(text, encoding="utf-8")
    return place
