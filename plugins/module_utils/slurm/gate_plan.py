"""Decides what brings the gate to what is wanted: which nodes close and open, which jobs end, which nodes come back."""

from __future__ import annotations

import calendar
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..host.host_lists import in_order
from . import drain_reason
from .gate_file import NO_LEDGER, GateFile
from .scontrol_output import Job, NodeState, SlurmGateError


@dataclass(frozen=True)
class Examined:
    """A node whose preflight of this run passed: on which boot, when it began (seconds since the epoch).

    ``in_service`` says that users can reach it, or are about to; ``healthy`` that its health check passed too, and
    ``burned_in`` that no burn-in is due.
    """

    boot_id: str
    began: float
    in_service: bool
    healthy: bool = False
    burned_in: bool = False

    @classmethod
    def from_params(cls, name: str, data: Any) -> Examined:
        """Return what a module was given for a node; raises SlurmGateError."""
        try:
            flags = bool(data["in_service"]), bool(data["healthy"]), bool(data.get("burned_in"))
            return cls(str(data["boot_id"]), float(data["began"]), *flags)
        except (KeyError, TypeError, ValueError) as exc:
            expected = "boot_id, began, in_service and healthy"
            raise SlurmGateError(f"resume: {name}: {data!r}, expected {expected} ({exc!r})") from exc


@dataclass(frozen=True)
class NodeHandling:
    """What a reconciliation does besides the partitions: nodes that may come back, jobs on nodes that leave."""

    examined: Mapping[str, Examined] = field(default_factory=dict)
    end_jobs: bool = False


@dataclass(frozen=True)
class Steps:
    """What brings file and controller to the wanted state: closing before opening.

    ``closing`` is the wanted file without nodes that are not open yet. ``set_closed`` and ``set_open`` are the nodes to
    set live by partition; ``reconfigure`` is needed where a partition appears, goes or has other parameters.
    """

    closing: GateFile
    wanted: GateFile
    set_closed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    set_open: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reconfigure: bool = False
    opened: Mapping[str, list[str]] = field(default_factory=dict)
    closed: Mapping[str, list[str]] = field(default_factory=dict)
    changed: bool = False


@dataclass(frozen=True)
class Closing:
    """What takes nodes out of file and controller: the file, the nodes to set by live partition, who closes where."""

    file: GateFile
    set_live: Mapping[str, tuple[str, ...]]
    closed: Mapping[str, list[str]]


def leaving(jobs: Iterable[Job], wanted: GateFile) -> list[Job]:
    """Return the jobs of user partitions that run on a node which is not open there."""
    return [job for job in jobs if job.partition in wanted.nodes and job.nodes - wanted.nodes[job.partition]]


def returns(node: NodeState, examined: Examined) -> bool:
    """Return whether a node that jobs are kept off comes back now that its preflight passed.

    One that Slurm found rebooted, and one that our own checks drained for a boot, once the boot is examined on which it
    registered; one that was drained for a burn-in which is over; one that our checks drained for want of a measurement
    that has passed since, or that users cannot reach; and one that they drained for a fault, if users cannot reach it
    and its check passes again, so that it can be tested. One that Slurm drained because it registered with less than
    declared, once it has registered with all. Never one that a person or Slurm drained otherwise, or of which state or
    reason is not known.
    """
    booted, since = seconds_of(node.booted), seconds_of(node.at)
    if booted is None or since is None or booted > examined.began:
        return False
    if not node.drained:
        return node.down and node.reason == drain_reason.REBOOTED
    if drain_reason.for_registration(node.reason, node.by):
        checked = examined.healthy or not examined.in_service
        return node.registered and since <= examined.began and checked
    if not node.drained_by_muster:
        return False
    if boot := drain_reason.boot_in(node.reason):
        return boot == examined.boot_id or since <= examined.began
    if node.reason == drain_reason.RESTART:
        return booted > since
    if since > examined.began:
        return False
    if node.reason == drain_reason.BURN_IN:
        return examined.burned_in
    if drain_reason.waits(node.reason):
        return examined.healthy or not examined.in_service
    # One whose check still fails would be drained again, by every run anew.
    return drain_reason.fault_in(node.reason) is not None and examined.healthy and not examined.in_service


def seconds_of(text: str) -> float | None:
    """Return a time of scontrol's, asked for in UTC (slurm_controller.TIMES), in seconds since the epoch."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except (ValueError, OverflowError):
        return None


def guard(current: GateFile | None, wanted: GateFile) -> None:
    """Raise SlurmGateError if the file was rendered from another ledger or from a newer copy of this one."""
    if current is None or current.ledger_id == NO_LEDGER:
        return
    if current.ledger_id != wanted.ledger_id:
        raise SlurmGateError(f"the file belongs to ledger {current.ledger_id}, given was ledger {wanted.ledger_id}")
    if current.generation > wanted.generation:
        raise SlurmGateError(
            f"the file is of generation {current.generation}, given was generation {wanted.generation} of ledger "
            f"{wanted.ledger_id}: this is an older copy of the ledger"
        )


def plan(current: GateFile | None, live: Mapping[str, Collection[str]] | None, wanted: GateFile) -> Steps:
    """Return what has to be done; ``live`` is None where the controller does not answer."""
    filed = current.nodes if current else {}
    seen = filed if live is None else live
    goal = wanted.nodes
    closing = replace(
        wanted, partitions=tuple(each.open_for(filed.get(each.name, frozenset())) for each in wanted.partitions)
    )
    shape = _shape(current) if current else None
    reconfigure = shape != _shape(wanted) or any(each.name not in seen for each in wanted.partitions)
    before = {name: set(filed.get(name, ())) | set(seen.get(name, ())) for name in {*filed, *goal}}
    after = {name: goal.get(name, frozenset()) for name in before}
    closed = {name: in_order(before[name] - after[name]) for name in sorted(before)}
    opened = {
        name: in_order(after[name] - (set(filed.get(name, ())) & set(seen.get(name, ())))) for name in sorted(before)
    }
    return Steps(
        closing=closing,
        wanted=wanted,
        set_closed={
            each.name: each.open_for(seen[each.name]).nodes
            for each in wanted.partitions
            if each.name in seen and set(seen[each.name]) - set(each.nodes)
        },
        set_open={each.name: each.nodes for each in wanted.partitions if opened[each.name]},
        reconfigure=reconfigure,
        opened={name: nodes for name, nodes in opened.items() if nodes},
        closed={name: nodes for name, nodes in closed.items() if nodes},
        changed=reconfigure or any(opened.values()) or any(closed.values()),
    )


def closing_of(
    current: GateFile, live: Mapping[str, Collection[str]], unread: Collection[str], names: Collection[str]
) -> Closing:
    """Return what takes the nodes out of the file and of its partitions live; nothing else closes, and nothing opens.

    ``unread`` are partitions whose live nodes are not known: they are set to what the file still lists.
    """
    file = current.without(names)
    set_live: dict[str, tuple[str, ...]] = {}
    closed: dict[str, list[str]] = {}
    for each in file.partitions:
        seen = set(live.get(each.name, ()))
        if each.name in unread:
            set_live[each.name] = each.nodes
        elif seen & set(names):
            set_live[each.name] = tuple(in_order(seen - set(names)))
        if gone := (seen | current.nodes[each.name]) & set(names):
            closed[each.name] = in_order(gone)
    return Closing(file, set_live, closed)


def _shape(content: GateFile) -> list[tuple[Any, ...]]:
    return sorted((each.name, each.default, each.parameters) for each in content.partitions)
