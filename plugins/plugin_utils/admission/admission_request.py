"""What a play asks of one admission, and the evidence that it hands over, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, EvidenceError
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission import (
    HEALTH,
    Trouble,
    fault_counts,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate import ALLOW_SWITCH
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate_ledger import TRUST_SWITCH
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

# The gate opens by what a node was just now. Thousands of nodes are examined in some minutes.
EXAMINED_WITHIN_SECONDS = 1800.0


@dataclass(frozen=True)
class Request:
    """What the play asks of one admission."""

    fleet: Fleet
    nodes: Sequence[str]
    evidence: Mapping[str, Any] = field(default_factory=dict)
    health: Mapping[str, Any] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)
    unreachable: Sequence[str] = ()
    close_only: bool = False
    allow_mass_close: bool = False
    trust_ledger: bool = False
    check: bool = False

    @property
    def approval(self) -> str:
        """The switches that the operator gave, without which a run stops where it is in doubt."""
        given = {ALLOW_SWITCH: self.allow_mass_close, TRUST_SWITCH: self.trust_ledger}
        return " ".join(switch for switch, on in given.items() if on)


@dataclass(frozen=True)
class Handed:
    """This run's evidence by node: preflights in the order given, and health checks that did not pass.

    ``unread`` says why something that was given for a node was not accepted.
    """

    preflights: Mapping[str, Sequence[Evidence]]
    health: Mapping[str, Evidence]
    unread: Mapping[str, str]

    @classmethod
    def of(cls, request: Request) -> Handed:
        """Return what the request hands over."""
        preflights, unread = _preflights(request.evidence)
        return cls(preflights, _health(request.health), unread)

    def preflight(self, node: str) -> Evidence | None:
        """Return the preflight by which a node is judged, None where there is none."""
        items = self.preflights.get(node)
        return items[-1] if items else None


def _preflights(given: Mapping[str, Any]) -> tuple[dict[str, list[Evidence]], dict[str, str]]:
    """Return preflights by node (one record or a list of them), and why a node's could not be read.

    What other stages found comes into the ledger by who watched them: a host's word about itself is not enough.
    """
    parsed: dict[str, list[Evidence]] = {}
    unread: dict[str, str] = {}
    for node, items in given.items():
        parsed[node] = []
        for item in items if isinstance(items, list | tuple) else [items]:
            try:
                evidence = Evidence.from_dict(item)
            except EvidenceError as exc:
                unread.setdefault(node, str(exc))
                continue
            if evidence.node != node:
                unread.setdefault(node, f"evidence {evidence.id}: belongs to node {evidence.node}")
                continue
            if evidence.stage != "preflight":
                unread.setdefault(node, f"evidence {evidence.id}: is {evidence.stage}, expected preflight")
                continue
            parsed[node].append(evidence)
    return parsed, unread


def _health(given: Mapping[str, Any]) -> dict[str, Evidence]:
    """Return by node the evidence of a health check that did not pass; what is none, or another's, is left out."""
    found = {}
    for name, answer in given.items():
        try:
            evidence = Evidence.from_dict(answer["evidence"])
        except (EvidenceError, KeyError, TypeError):
            continue
        if evidence.node == name and evidence.stage == HEALTH:
            found[name] = evidence
    return found


def trouble_of(
    request: Request, name: str, unread: str | None, examined: Evidence | None, now: float
) -> Trouble | None:
    """Return why a node could not be examined in this run, None where it was."""
    if name in request.unreachable:
        return Trouble("preflight", "reach", "unreachable in this run")
    if name in request.stopped:
        why = request.stopped[name] or "the reason is not known"
        return Trouble("preflight", "preflight", f"stopped in this run: {why}")
    if unread:
        return Trouble("preflight", "preflight", f"evidence of this run was not accepted: {unread}")
    if examined is None:
        return Trouble("preflight", "preflight", "not examined in this run; the reason is not known")
    age = now - (examined.finished or examined.started)
    # A fault counts however old it is.
    if age > EXAMINED_WITHIN_SECONDS and not fault_counts(examined, request.fleet.policy, now):
        said = f"examined {age / 60:.0f} min before this judgement, expected at most {EXAMINED_WITHIN_SECONDS / 60:.0f}"
        return Trouble("preflight", "preflight", said)
    return None
