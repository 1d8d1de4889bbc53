"""What one admission records and renders: pure, from judgements and from what ledger and controller said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import outdated
from ansible_collections.muster.cluster.plugins.module_utils.slurm import drain_reason
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import INVALID_REGISTRATION
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission import (
    HEALTH,
    NO_REQUIREMENTS,
    Judgement,
    requirements_of,
    text_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission_request import Handed, Request
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.cases import reclassified
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import GateInfo
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate import (
    closes_of,
    mass_close,
    only_closing,
    opened_in,
    still_open,
    unconfirmed,
    wanted_partitions,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import Partition
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import NodeRow
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import DECISIONS, AdmittedBy


@dataclass(frozen=True)
class Situation:
    """What one admission decides by.

    ``rows`` and ``drains`` are the ledger's, ``info`` is the controller's answer, None where it gave none.
    ``quarantined`` are the nodes that their health check drained, with the reason; ``judgements`` those of the targeted
    nodes. ``admitted_by`` is, by stage, by what a node was admitted that has a fault of that stage now.
    ``faults`` is evidence of faults that came into the ledger after a node in service was judged last.
    """

    request: Request
    handed: Handed
    info: GateInfo | None
    rows: Mapping[str, NodeRow]
    drains: Mapping[str, str]
    quarantined: Mapping[str, str]
    judgements: Mapping[str, Judgement]
    admitted_by: Mapping[str, Mapping[str, AdmittedBy]]
    faults: Mapping[str, Evidence] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What one admission will record and render.

    ``moves`` are (state, stage, reason) by node. ``opened`` is who is open now, ``stop`` why doubtful nodes are left as
    they are. ``partitions`` is None where the gate is left alone.
    """

    moves: Mapping[str, tuple[str, str, str]]
    opened: Mapping[str, Sequence[str]]
    partitions: list[dict[str, Any]] | None
    drains: Mapping[str, str]
    stop: str
    resume: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def closing(self) -> Plan | None:
        """Return the part of the plan that only closes nodes, None where none is closed."""
        if self.partitions is None or not closes_of(self.partitions, self.opened):
            return None
        return replace(self, partitions=only_closing(self.partitions, self.opened))


def health_drains(info: GateInfo | None) -> dict[str, str]:
    """Return the reason of every drain by a health check that measured a fault."""
    if info is None:
        return {}
    return {
        name: str(node.get("reason", ""))
        for name, node in info.nodes.items()
        if "DRAIN" in str(node.get("state", "")).split("+") and drain_reason.fault_in(str(node.get("reason", "")))
    }


def refused_registrations(info: GateInfo | None) -> dict[str, str]:
    """Return what Slurm says of the nodes that registered with less than slurm.conf declares of them.

    Fewer GPUs (``gres/gpu count reported lower than configured (7 < 8)``), processors or less memory. The drain that
    Slurm gives such a node keeps the reason of an earlier one.
    """
    return {
        name: f"it registered with less than slurm.conf declares ({node.get('reason') or 'Slurm gives no reason'})"
        for name, node in (info.nodes if info else {}).items()
        if INVALID_REGISTRATION in str(node.get("state", "")).split("+")
    }


def drained_by_health(fleet: Fleet, rows: Mapping[str, NodeRow], info: GateInfo | None) -> dict[str, str]:
    """Return the nodes in service, targeted or not, that their health check drained, and the reason to record."""
    reasons = {}
    for name, reason in health_drains(info).items():
        fault = drain_reason.fault_in(reason)
        if fault is not None and name in fleet.compute and name in rows and rows[name].state == "admitted":
            reasons[name] = f"{fault.check} failed in service, evidence {fault.evidence_id or 'unknown'}"
    return reasons


def plan_of(situation: Situation) -> Plan:
    """Return what to record and to render: new states, wanted partitions, drains, and the breaker's word."""
    request, info = situation.request, situation.info
    before = {name: row.state for name, row in situation.rows.items()}
    moves = _moves(situation, before)
    states = {**before, **{name: move[0] for name, move in moves.items()}}
    classes = {name: node.hardware_class for name, node in request.fleet.compute.items()}
    partitions = request.fleet.scheduler.partitions
    opened = opened_by(partitions, info)
    if info is None:
        admitted_as = {name: situation.rows[name].hardware_class for name in classes}
        opened = {each["name"]: each["nodes"] for each in wanted_partitions(before, partitions, admitted_as)}
    # What the ledger admits and nobody looked at in this run stays open, but does not open.
    known = {node for nodes in opened.values() for node in nodes} | situation.judgements.keys()
    wanted = [
        {**partition, "nodes": [name for name in partition["nodes"] if name in known]}
        for partition in wanted_partitions(states, partitions, classes)
    ]
    if request.close_only:
        wanted = only_closing(wanted, opened)
    confirmed = _confirmed(situation) | {
        name
        for name in states
        if before[name] == "rejected" or (states[name] in DECISIONS and name not in situation.quarantined)
    }
    limit = request.fleet.policy.close_limit_percent
    stop = "" if request.allow_mass_close else mass_close(wanted, opened, confirmed, limit)
    plan = Plan(moves, opened, wanted, _drains(situation.drains, info), stop)
    return _stopped(plan, wanted, unconfirmed(wanted, opened, confirmed)) if stop else plan


def _moves(situation: Situation, before: Mapping[str, str]) -> dict[str, tuple[str, str, str]]:
    """Return the states to record, as (state, stage, reason) by node."""
    request, judgements = situation.request, situation.judgements
    moves = {
        name: ("testing", "preflight", reason)
        for name, reason in reclassified(request.fleet, situation.rows).items()
        if name not in judgements
    }
    moves |= {
        name: ("testing", "preflight", "taken out of the fleet file")
        for name, state in before.items()
        if state == "admitted" and name not in request.fleet.compute
    }
    unreadable = {} if situation.info is None else situation.info.unreadable
    moves |= {
        # A node that can make Slurm's word about itself unreadable could hide its drain.
        name: ("testing", "preflight", f"what Slurm says of the node cannot be read: {unreadable[f'node {name}']}")
        for name in request.fleet.compute
        if f"node {name}" in unreadable and before.get(name) == "admitted"
    }
    moves |= {
        name: ("rejected", evidence.stage, _fault_text(evidence))
        for name, evidence in situation.faults.items()
        if name in request.fleet.compute
    }
    moves |= {name: ("quarantined", HEALTH, reason) for name, reason in situation.quarantined.items()}
    moves |= {
        name: (judgement.state, judgement.stage, judgement.reason)
        for name, judgement in judgements.items()
        if (before[name] == "admitted" and judgement.state != "admitted")
        # What an operator decided was recorded when it was decided, with the reason.
        or not (request.close_only or before[name] == judgement.state in DECISIONS)
        if not (judgement.state == "admitted" and f"node {name}" in unreadable)
    }
    return moves


def _fault_text(evidence: Evidence) -> str:
    return text_of(evidence.stage, next(finding for finding in evidence.findings if finding.verdict == FAIL))


def _stopped(plan: Plan, wanted: Sequence[Mapping[str, Any]], doubtful: set[str]) -> Plan:
    """Return the part of a plan that holds though the breaker stops it: what closes for a reason of its own."""
    kept: list[dict[str, Any]] | None = still_open(wanted, plan.opened, doubtful)
    left = set(doubtful)
    # A partition that the fleet file no longer has cannot be rendered, so its doubtful nodes keep the whole gate.
    stranded = [name for name, nodes in plan.opened.items() if name not in _names(wanted) and doubtful & set(nodes)]
    stop = plan.stop
    if stranded:
        stop += f"; {', '.join(stranded)} is not in the fleet file, so that no other node was closed either"
        left = {name for nodes in plan.opened.values() for name in nodes}
    if stranded or not closes_of(kept or (), plan.opened):
        kept = None
    moves = {name: move for name, move in plan.moves.items() if move[0] != "admitted" and name not in left}
    return replace(plan, moves=moves, partitions=kept, stop=stop)


def opened_by(partitions: Sequence[Partition], info: GateInfo | None) -> dict[str, list[str]]:
    """Return who is open by the file or by the running controller, which has partitions of others too."""
    if info is None:
        return {}
    ours = {partition.name for partition in partitions}
    return opened_in(info.partitions, {name: nodes for name, nodes in info.live_partitions.items() if name in ours})


def _names(partitions: Sequence[Mapping[str, Any]]) -> set[str]:
    return {partition["name"] for partition in partitions}


def faulty_by_stage(judgements: Mapping[str, Judgement], stages: Sequence[str]) -> dict[str, list[str]]:
    """Return the nodes with a measured fault, by the stages that measured it."""
    found = {stage: [name for name, each in judgements.items() if stage in each.faults] for stage in stages}
    return {stage: names for stage, names in found.items() if names}


def _confirmed(situation: Situation) -> set[str]:
    """Return the nodes for whose closing there is a reason of their own: a measured fault, or Slurm lost them too.

    A fault counts if the node was admitted by the same expectations and by the same version of the check: a number
    mistyped in the fleet file, or a check that is wrong, makes all nodes of a class fail at once. So does a fault that
    the health check of a drained node measured.
    """
    request, info = situation.request, situation.info
    gone = info.unreachable if info is not None else frozenset()
    confirmed = {name for name in request.unreachable if name in gone}
    rules = requirements_of(request.fleet.classes, request.fleet.policy)
    nodes = request.fleet.compute
    for stage, faulty in faulty_by_stage(situation.judgements, request.fleet.policy.stages).items():
        then = situation.admitted_by.get(stage, {})
        now = {name: rules.get(nodes[name].hardware_class or "", NO_REQUIREMENTS)[1].get(stage) for name in faulty}
        confirmed |= {
            name
            for name in faulty
            if name in then
            and then[name].expect_digest == now[name]
            and not outdated(then[name].rules, stage, _failed(situation.judgements[name].findings))
        }
    confirmed |= {
        name
        for name, evidence in situation.faults.items()
        if (by := situation.admitted_by.get(evidence.stage, {}).get(name))
        and by.expect_digest == evidence.expect_digest
        and all(by.rules.get(check) == evidence.rules.get(check) for check in _failed(evidence.findings))
    }
    then = situation.admitted_by.get(HEALTH, {})
    checked = {name: item.expect_digest for name, item in situation.handed.health.items()}
    return confirmed | {
        name for name in situation.quarantined if name in then and then[name].expect_digest == checked.get(name)
    }


def _failed(findings: Iterable[Finding]) -> list[str]:
    return sorted({finding.check for finding in findings if finding.verdict == FAIL})


def _drains(known: Mapping[str, str], info: GateInfo | None) -> dict[str, str]:
    if info is None:
        return dict(known)
    # Slurm that lost its state has forgotten drains; one that kept it shows which were lifted.
    kept = known if info.state_lost else {name: why for name, why in known.items() if f"node {name}" in info.unreadable}
    return {**kept, **info.drains}
