"""What scontrol and squeue of Slurm 22.05 and later print of partitions, nodes and jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..host.host_lists import HostListError, expand
from ..words.errors import MusterError

# How the reasons of drains begin that Muster gives.
OUR_REASON = "muster:"


class SlurmGateError(MusterError):
    """Why the gate is not as wanted; ``result`` holds what was done before."""

    def __init__(self, message: str, result: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.result = dict(result or {})


class NoAnswer(SlurmGateError):
    """The controller did not answer."""


@dataclass(frozen=True)
class NodeState:
    """What the controller says of a node: ``state`` as it prints it (``IDLE+DRAIN``), reason and who gave it when.

    Times are as scontrol prints them, such as ``2026-11-20T10:02:27``; ``booted`` is when the node booted, by its own
    word when it registered last.
    """

    state: str
    reason: str = ""
    by: str = ""
    at: str = ""
    booted: str = ""

    @property
    def drained(self) -> bool:
        """Whether new jobs are kept off the node."""
        return "DRAIN" in self.state.split("+")

    @property
    def down(self) -> bool:
        """Whether Slurm has given the node up, or somebody has."""
        return "DOWN" in self.state.split("+")

    @property
    def kept_off(self) -> bool:
        """Whether Slurm starts no jobs on the node, for whatever reason."""
        return self.drained or self.down

    @property
    def busy(self) -> bool:
        """Whether a job is on the node, or just leaving it."""
        return not {"ALLOCATED", "MIXED", "COMPLETING"}.isdisjoint(self.state.split("+"))

    @property
    def drained_by_others(self) -> bool:
        """Whether somebody other than Muster drained the node."""
        return self.drained and not self.reason.startswith(OUR_REASON)


@dataclass(frozen=True)
class Job:
    """A job that runs in a partition on some nodes."""

    id: str
    partition: str
    nodes: frozenset[str]


@dataclass(frozen=True)
class NodeJob:
    """A job that the controller names with a node: its own number (not its array's), its user, its state."""

    id: str
    uid: int
    state: str


def parse_partitions(text: str) -> dict[str, frozenset[str]]:
    """Return the nodes by partition from ``scontrol show partition --oneliner``; raises SlurmGateError."""
    partitions = {}
    for line in text.splitlines():
        keys = dict(re.findall(r"(?:^| )(\w+)=(\S*)", line))
        if "PartitionName" in keys and "Nodes" in keys:
            partitions[keys["PartitionName"]] = frozenset(_names(keys["Nodes"]))
        elif line.strip() and not line.startswith("No partitions"):
            raise SlurmGateError(f"scontrol show partition: {line[:80]!r}, expected PartitionName= and Nodes=")
    return partitions


def parse_nodes(text: str) -> dict[str, NodeState]:
    """Return the nodes by name from ``scontrol show node --oneliner``; raises SlurmGateError."""
    nodes = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("No nodes"):
            continue
        name = re.match(r"NodeName=(\S+)", line)
        state = re.search(r" State=(\S+)", line)
        if not name or not state:
            raise SlurmGateError(f"scontrol show node: {line[:80]!r}, expected NodeName= and State=")
        why = re.search(r" Reason=(.*) \[([^@\]]+)@([^\]]+)\]", line) or re.search(r" Reason=(.*?)()()\s*$", line)
        # A star marks a node that does not answer; other signs belong to power saving and reboots.
        booted = re.search(r" BootTime=(\S+)", line)
        reason, by, at = why.groups() if why else ("", "", "")
        clean = re.sub(r"[^A-Z_+]", "", state.group(1))
        nodes[name.group(1)] = NodeState(clean, reason, by, at, booted.group(1) if booted else "")
    return nodes


def parse_jobs(text: str) -> list[Job]:
    """Return the jobs of ``squeue --format=%A|%P|%N``; raises SlurmGateError."""
    jobs = []
    for line in text.splitlines():
        words = line.strip().split("|")
        if len(words) != 3 or not words[0].isdecimal():
            raise SlurmGateError(f"squeue: {line[:80]!r}, expected JOB|PARTITION|NODES")
        jobs.append(Job(words[0], words[1], frozenset(_names(words[2]))))
    return jobs


def parse_node_jobs(text: str) -> list[NodeJob]:
    """Return the jobs of ``squeue --format=%A|%U|%T``; raises SlurmGateError."""
    jobs = []
    for line in text.splitlines():
        words = line.strip().split("|")
        if len(words) != 3 or not words[0].isdecimal() or not words[1].isdecimal() or not words[2]:
            raise SlurmGateError(f"squeue: {line[:80]!r}, expected JOB|UID|STATE")
        jobs.append(NodeJob(words[0], int(words[1]), words[2]))
    return jobs


def _names(text: str) -> list[str]:
    try:
        return expand(text)
    except HostListError as exc:
        raise SlurmGateError(str(exc)) from exc
