"""Slurm's daemon on this machine: ``scontrol show slurmd``, and the daemon's process.

``scontrol`` asks at the address that slurm.conf has for this hostname (slurm_load_slurmd_status of Slurm 22.05 to
24.11). Where hostname or address is another host's, so is the answer: it counts only if the process that it names is
here. ``Hostname`` in the answer is the NodeName that the daemon runs as, ``Boot time`` when the daemon was started.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "slurmd"
PROCESSES = ("ps", "-C", "slurmd", "-o", "euid=,pid=,args=")
STATUS = ("scontrol", "show", "slurmd")
VERSION = ("slurmd", "-V")
TIMEOUT_SECONDS = 10.0

_PROCESS = re.compile(r" *([0-9]+) +([0-9]+) +(\S.*)", re.ASCII)
_FIELD = re.compile(r"^(Hostname|Slurmd PID|Boot time) += (\S+) *\n", re.MULTILINE)
_NODE_OPTION = re.compile(r" -N ?([A-Za-z0-9][\w.-]*)(?= |$)", re.ASCII)


@dataclass(frozen=True)
class Slurmd:
    """The nodes that Slurm runs on this machine, and since when (local time); none where it is not installed."""

    nodes: tuple[str, ...] = ()
    started: str | None = None


def collect(host: Host, expect: Expectations) -> Output:
    """List the daemon's processes; ask the daemon if there is one, and else whether it is installed."""
    processes = host.run(PROCESSES, TIMEOUT_SECONDS)
    name, argv = ("status", STATUS) if processes.stdout.strip() else ("version", VERSION)
    return blocks.joined({"processes": processes, name: host.run(argv, TIMEOUT_SECONDS)})


def parse(output: Output) -> Slurmd:
    """Return what runs; raises Unreadable, also where the daemon is installed and does not run."""
    found = blocks.split(output.stdout)
    processes = found.get("processes", Output(rc=None, error="no list of processes"))
    if processes.rc is None or (processes.rc != 0 and processes.stdout):
        raise Unreadable(f"ps: {processes.error or f'exit status {processes.rc}'}")
    # A user's program may be called slurmd; the daemon runs as root (slurm.conf(5), SlurmdUser).
    running = {int(pid): args for euid, pid, args in map(_process, processes.stdout.splitlines()) if euid == "0"}
    if not running:
        version = found.get("version", Output(rc=None, error="not asked"))
        if version.rc is None and "slurmd: not found in " in version.error:
            return Slurmd()
        raise Unreadable(f"slurmd does not run ({version.error or version.stdout.strip()[:60]})")
    status = found.get("status", Output(rc=None, error="not asked"))
    told = dict(_FIELD.findall(status.stdout)) if status.rc == 0 else {}
    pid = told.get("Slurmd PID", "")
    mine = running.get(int(pid)) if re.fullmatch("[0-9]{1,9}", pid) else None
    names = {args: match.group(1) for args in running.values() if (match := _NODE_OPTION.search(args))}
    if mine is not None and told.get("Hostname"):
        names[mine] = told["Hostname"]
    # A child that the daemon has just made shows the arguments of its parent.
    if not all(args in names for args in running.values()):
        why = f"process {pid} is not on this machine" if told and mine is None else status.error or status.stderr
        raise Unreadable(f"slurmd does not say which node it is: {why.strip()[:200] or 'no Hostname in its status'}")
    return Slurmd(tuple(sorted({*names.values()})), told.get("Boot time") if mine is not None else None)


def _process(line: str) -> tuple[str, ...]:
    match = _PROCESS.fullmatch(line)
    if not match:
        raise Unreadable(f"ps printed {line[:60]!r}, expected user id, process id and arguments")
    return match.groups()
