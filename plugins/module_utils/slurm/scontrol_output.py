"""What scontrol and squeue of Slurm 22.05 and later print of partitions, reservations, nodes and jobs.

Whatever a line says, it costs what it speaks of and nothing else: a partition, a reservation or a node that cannot be
read is told with the reason, and the others stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..host.host_lists import HostListError, expand
from ..words.errors import MusterError
from . import drain_reason

# The state of a node of which the line cannot be read; no state of Slurm's.
UNREADABLE = "UNREADABLE"
# Of a node that registered with less than slurm.conf declares of it (sinfo(1), since 21.08); it goes with the next
# registration that is right, and the drain that Slurm gave the node does not.
INVALID_REGISTRATION = "INVALID_REG"
# What decides whether users can submit to a partition, as scontrol names it.
ACCESS_KEYS = (
    *("State", "RootOnly", "Hidden", "ReqResv", "AllocNodes"),
    *("AllowGroups", "AllowAccounts", "DenyAccounts", "AllowQos", "DenyQos"),
)

# A node's line has four parts, in this order (22.05 to 25.11): what the node tells of itself, of which OS= and Version=
# are free text; State= to BootTime=; more words without blanks; free text of people and of the node.
_FREE_TEXT = "Reason|Comment|Extra|InstanceId|InstanceType|ReservationName"
_WORDS = rf"(?:\s+(?!(?:State|BootTime|{_FREE_TEXT})=)\w+=\S*)*"
_STATE = re.compile(rf"\sState=(\S+){_WORDS}\s+BootTime=(\S+)")
_BEHIND = re.compile(rf"{_WORDS}(?:\s+((?:{_FREE_TEXT})=.*))?\s*")
# Who gave a reason and when stands behind its first line; further lines follow with more than one blank, and what is no
# part of the reason with one.
_STAMP = re.compile(r" \[([^\s\[\]]+)@([^\s@\[\]]+)\]")
_NEXT_TEXT = re.compile(rf"(?<!\s) (?:{_FREE_TEXT})=")


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
    word when it registered last. Where the node's line cannot be read, the state is ``UNREADABLE`` and the reason says
    why: such a node is taken for one that is kept off jobs, and is never given back.
    """

    state: str
    reason: str = ""
    by: str = ""
    at: str = ""
    booted: str = ""

    @property
    def readable(self) -> bool:
        """Whether the controller's line of the node could be read."""
        return self.state != UNREADABLE

    @property
    def drained(self) -> bool:
        """Whether new jobs are kept off the node."""
        return "DRAIN" in self.state.split("+")

    @property
    def registered(self) -> bool:
        """Whether the node has registered with all that is declared of it."""
        return self.readable and INVALID_REGISTRATION not in self.state.split("+")

    @property
    def down(self) -> bool:
        """Whether Slurm has given the node up, or somebody has."""
        return "DOWN" in self.state.split("+")

    @property
    def kept_off(self) -> bool:
        """Whether Slurm starts no jobs on the node, for whatever reason."""
        return self.drained or self.down or not self.readable

    @property
    def busy(self) -> bool:
        """Whether a job is on the node, or just leaving it, or may be."""
        return not self.readable or not {"ALLOCATED", "MIXED", "COMPLETING"}.isdisjoint(self.state.split("+"))

    @property
    def drained_by_muster(self) -> bool:
        """Whether Muster itself drained the node."""
        return self.drained and drain_reason.is_own(self.reason, self.by)

    @property
    def drained_by_others(self) -> bool:
        """Whether somebody other than Muster drained the node."""
        return self.drained and not self.drained_by_muster


@dataclass(frozen=True)
class LivePartition:
    """A partition as the controller has it: its nodes, and who may use it (``ACCESS_KEYS``, as printed).

    ``trouble`` says why the nodes are not known.
    """

    nodes: frozenset[str]
    access: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True)
class Reservation:
    """A reservation: its nodes, for whom they are kept (a name with ``-`` is left out), and when; as printed.

    ``trouble`` says why it is not known.
    """

    nodes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    start: str = ""
    end: str = ""
    state: str = ""
    trouble: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reservation:
        """Return a reservation from plain data."""
        given: dict[str, Any] = {key: each if isinstance(each, str) else tuple(each) for key, each in data.items()}
        return cls(**given)


@dataclass(frozen=True)
class Job:
    """A job that runs in a partition on some nodes."""

    id: str
    partition: str
    nodes: frozenset[str]


# Slurm's states (22.05 to 25.11).
_OVER = (
    *(
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "TIMEOUT",
    ),
    *("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "REVOKED", "SPECIAL_EXIT"),
)


@dataclass(frozen=True)
class NodeJob:
    """A job that the controller names with a node: its own number (not its array's), its user, its state."""

    id: str
    uid: int
    state: str

    @property
    def over(self) -> bool:
        """Whether nothing of the job runs; in a state that is not known here, it does."""
        return self.state in _OVER


def parse_partitions(text: str) -> dict[str, LivePartition]:
    """Return the partitions by name from ``scontrol show partition --oneliner``.

    A line that names no partition goes by its beginning.
    """
    partitions: dict[str, LivePartition] = {}
    for line in _lines(text, "No partitions"):
        keys = dict(re.findall(r"(?:^| )(\w+)=(\S*)", line))
        name = keys.get("PartitionName") or line[:80]
        access = {key: keys[key] for key in ACCESS_KEYS if key in keys}
        # State= stands behind Nodes=: a line that was cut is not taken for a shorter list.
        if not {"PartitionName", "Nodes", "State"} <= set(keys) or name in partitions:
            why = f"scontrol show partition: {line[:80]!r}, expected PartitionName=, Nodes= and State=, once each name"
            partitions[name] = LivePartition(frozenset(), access, why)
            continue
        try:
            partitions[name] = LivePartition(frozenset(expand(keys["Nodes"])), access)
        except HostListError as exc:
            partitions[name] = LivePartition(frozenset(), access, str(exc))
    return partitions


def parse_reservations(text: str) -> dict[str, Reservation]:
    """Return the reservations by name from ``scontrol show reservation --oneliner``.

    A line that names no reservation goes by its beginning.
    """
    reservations: dict[str, Reservation] = {}
    for line in _lines(text, "No reservations"):
        # A comment stands at the end and is free text.
        keys = dict(re.findall(r"(?:^| )(\w+)=(\S*)", line.partition(" Comment=")[0]))
        name = keys.get("ReservationName") or line[:80]
        wanted = ("ReservationName", "Nodes", "Users", "Groups", "Accounts", "Flags", "StartTime", "EndTime", "State")
        missing = [f"{key}=" for key in wanted if key not in keys]
        if missing or name in reservations:
            why = f"scontrol show reservation: {line[:80]!r}, expected {', '.join(missing) or 'each name once'}"
            reservations[name] = Reservation(trouble=why)
            continue
        try:
            nodes = tuple(expand(keys["Nodes"]))
        except HostListError as exc:
            reservations[name] = Reservation(trouble=str(exc))
            continue
        reservations[name] = Reservation(
            nodes,
            users=_listed(keys["Users"]),
            accounts=_listed(keys["Accounts"]),
            groups=_listed(keys["Groups"]),
            flags=_listed(keys["Flags"]),
            start=keys["StartTime"],
            end=keys["EndTime"],
            state=keys["State"],
        )
    return reservations


def parse_nodes(text: str) -> dict[str, NodeState]:
    """Return the nodes by name from ``scontrol show node --oneliner``.

    Raises SlurmGateError where the text does not begin with a node. A line that does not is a piece of the text of the
    node above it; of two lines of one name, one was written into the text of the node above it.
    """
    nodes: dict[str, NodeState] = {}
    first_above: dict[str, str] = {}
    above = ""
    for line in _lines(text, "No nodes"):
        match = re.match(r"NodeName=(\S+) ", line)
        if not match:
            if not above:
                raise SlurmGateError(f"scontrol show node: {line[:80]!r}, expected NodeName=")
            nodes[above] = _unreadable(f"its text goes on in another line: {line[:80]!r}")
            continue
        name = match.group(1)
        if name in nodes:
            why = f"there are two lines of node {name}"
            nodes |= {each: _unreadable(why) for each in (name, above, first_above[name]) if each}
        else:
            nodes[name], first_above[name] = _node(line), above
        above = name
    return nodes


def _node(line: str) -> NodeState:
    """Return what a whole line says of its node."""
    found = list(_STATE.finditer(line))
    if len(found) != 1:
        return _unreadable(f"{len(found)} times State= and BootTime= in {line[:200]!r}, expected once")
    behind = _BEHIND.fullmatch(line, found[0].end())
    # A star marks a node that does not answer; other signs belong to power saving and reboots.
    state = re.sub(r"[^A-Z_+]", "", found[0].group(1))
    if not behind or not state:
        return _unreadable(f"{line[found[0].start() :][:200]!r}, expected words KEY=VALUE behind State=")
    text = behind.group(1) or ""
    reason, by, at = _reason(text[len("Reason=") :]) if text.startswith("Reason=") else ("", "", "")
    return NodeState(state, reason, by, at, found[0].group(2))


def _reason(text: str) -> tuple[str, str, str]:
    """Return a reason, who gave it and when; nobody and never where the text shows none, or several."""
    stamps = list(_STAMP.finditer(text))
    if len(stamps) != 1:
        return text.strip(), "", ""
    (stamp,) = stamps
    further, *_others = _NEXT_TEXT.split(text[stamp.end() :], maxsplit=1)
    return " ".join([text[: stamp.start()].strip(), *further.split()]), stamp.group(1), stamp.group(2)


def _unreadable(why: str) -> NodeState:
    return NodeState(UNREADABLE, why)


def _lines(text: str, nothing: str) -> Iterator[str]:
    """Yield the lines that hold something, of which scontrol's word that there is nothing is none."""
    for line in text.split("\n"):
        if line.strip() and not line.startswith(nothing):
            yield line


def _listed(text: str) -> tuple[str, ...]:
    return () if text in ("", "(null)") else tuple(text.split(","))


def parse_jobs(text: str) -> list[Job]:
    """Return the jobs of ``squeue --format=%A|%P|%N``; raises SlurmGateError."""
    jobs = []
    for line in text.splitlines():
        words = line.strip().split("|")
        if len(words) != 3 or not words[0].isdecimal():
            raise SlurmGateError(f"squeue: {line[:80]!r}, expected JOB|PARTITION|NODES")
        try:
            jobs.append(Job(words[0], words[1], frozenset(expand(words[2]))))
        except HostListError as exc:
            raise SlurmGateError(str(exc)) from exc
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
