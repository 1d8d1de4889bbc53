"""What is known of nodes, put together from fleet, ledger and this run's preflight: the input of every judgement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.evidence import Evidence
from ansible_collections.muster.cluster.plugins.plugin_utils.admission import (
    NO_RULES,
    Case,
    Policy,
    PolicyError,
    Record,
    Trouble,
    rules_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Reader


def compute_nodes(fleet: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fleet's nodes that run jobs."""
    return {name: node for name, node in fleet["nodes"].items() if node["role"] == "compute"}


def cases_of(
    fleet: Mapping[str, Any],
    reader: Reader,
    preflights: Mapping[str, Evidence | None],
    now: float,
    troubles: Mapping[str, Trouble] | None = None,
) -> dict[str, Case]:
    """Return by node all that judging it needs, with one query a stage however many nodes there are.

    ``preflights`` is this run's preflight evidence by node, in the ledger or not yet; a node with None has no
    fingerprint and passes nothing. Raises PolicyError for a name that is no compute node of the fleet.
    """
    policy = Policy.from_fleet(fleet["policy"])
    known = compute_nodes(fleet)
    if strangers := sorted(set(preflights) - set(known)):
        raise PolicyError(f"nodes: {', '.join(strangers)}, expected compute nodes of the fleet")
    records = reader.records(policy.stages, preflights)
    rows, decisions = reader.nodes(), reader.decisions()
    rules = rules_of(fleet["classes"], policy)
    cases = {}
    for name, preflight in preflights.items():
        required, digests = rules.get(known[name]["hardware_class"], NO_RULES)
        row = rows.get(name)
        if preflight and all(each.evidence.id != preflight.id for each in records[name]):
            records[name].append(Record(preflight, now, max((each.order for each in records[name]), default=0) + 1))
        cases[name] = Case(
            node=name,
            required=required,
            records=records[name],
            fingerprint=preflight.fingerprint if preflight else None,
            expect_digests=digests,
            decision=decisions.get(name),
            trouble=(troubles or {}).get(name),
            admitted_since=row.since if row is not None and row.state == "admitted" else None,
        )
    return cases
