"""What hosts found, taken into the ledger, and what operators decided."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import STAGES, Evidence, EvidenceError
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate_ledger import require_match
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.last_seen import remember
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError, Refused

RELEASE = "release"
# What is measured between nodes is recorded by who led the rounds: no host's word is taken for it.
RECORDED = tuple(stage for stage in STAGES if stage not in ("fabric", "storage", "acceptance"))


def record(fleet: Fleet, stage: str, evidence: Mapping[str, Any], now: float, check: bool = False) -> dict[str, Any]:
    """Append the evidence that each host gave of one stage in one transaction and return the task's result.

    A host gives one record, or a list of them in the order in which they came. What cannot be imported is told and left
    out: a sick host's record must not cost the others theirs. Raises LedgerError, also for a stage of which no host's
    word is taken.
    """
    if stage not in RECORDED:
        raise LedgerError(f"stage {stage!r}, expected one of {', '.join(RECORDED)}")
    parsed: list[Evidence] = []
    refused: list[Refused] = []
    for host, item in ((host, item) for host, items in evidence.items() for item in _listed(items)):
        try:
            each = Evidence.from_dict(item)
        except EvidenceError as exc:
            refused.append(Refused(host, "", str(exc)))
            continue
        if why := _strange(each, host, stage, fleet.compute):
            refused.append(Refused(host, each.id, f"evidence {each.id}: {why}"))
        else:
            parsed.append(each)
    ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=check)
    if parsed:
        with ledger.rehearsed(check) as book, book.writing() as writer:
            refused += writer.add_evidence(parsed, now)
    left_out = {(item.node, item.id) for item in refused}
    return {
        # Gathering evidence is no change.
        "changed": False,
        "recorded": [item.id for item in parsed if (item.node, item.id) not in left_out],
        "refused": [vars(item) for item in refused],
        "warnings": [f"{item.node}: {item.reason}" for item in refused],
    }


def _listed(items: Any) -> Sequence[Any]:
    return items if isinstance(items, list | tuple) else [items]


def _strange(evidence: Evidence, host: str, stage: str, known: Container[str]) -> str:
    """Return why this is not what the host was asked for."""
    if host not in known:
        return f"{host} is no compute node of the fleet"
    if evidence.node != host:
        return f"belongs to node {evidence.node}, expected {host}"
    return "" if evidence.stage == stage else f"is {evidence.stage}, expected {stage}"


@dataclass(frozen=True)
class Decision:
    """What an operator says of a node: one of the ledger's decisions, or RELEASE."""

    node: str
    decision: str
    reason: str


def decide(fleet: Fleet, given: Decision, who: str, now: float, check: bool = False) -> dict[str, Any]:
    """Record the decision and return the task's result; raises LedgerError."""
    node = given.node
    if node not in fleet.compute:
        raise LedgerError(f"node {node!r} is no compute node of the fleet")
    if not given.reason.strip():
        raise LedgerError(f"node {node}: a decision needs a reason, -e reason='...'")
    ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=check)
    # An admission under way would go on to render what it read before.
    lock = nullcontext() if check else ledger.locked()
    with lock, ledger.rehearsed(check) as book, book.writing() as writer:
        # Into an older copy nothing is decided: it would come to look like the newest.
        require_match(ledger.id, writer.progress(), None)
        writer.declare({node: fleet.compute[node].hardware_class}, now)
        move = writer.decide(node, "none" if given.decision == RELEASE else given.decision, given.reason, who, now)
        state = writer.states()[node]
        progress = writer.progress()
    if not check:
        # The gate follows later, perhaps only when its controller is back; a copy from before this is older already.
        remember(ledger.id, progress)
    return {"changed": move is not None, "node": node, "state": state, "transition": vars(move) if move else None}
