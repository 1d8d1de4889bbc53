"""Lookup due: what has still to be tested on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
name: due
author: The Muster developers
version_added: 0.1.0
short_description: Stages that a node has to run now
description:
  - Returns the names of the stages that are due on a node and whose turn it is. C(preflight) always is; a later stage
    is when every stage before it has been passed and is still valid, and its own evidence is missing, old, about other
    parts or other expectations, or not a pass.
  - Reads the ledger when the task runs, so it sees what an earlier task recorded.
options:
  _terms:
    description: Name of one compute node.
    required: true
  fleet:
    description: The fleet, C(muster_fleet).
    type: dict
    required: true
  evidence:
    description:
      - This run's preflight evidence of the node, which says what parts it has now.
      - Without it the newest preflight in the ledger is taken.
    type: dict
  skip_turn:
    description: Return every due stage, even those that have to wait for an earlier one.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Burn in where it is due
  ansible.builtin.include_role:
    name: muster.cluster.burn_in
  when: "'burn_in' in lookup('muster.cluster.due', inventory_hostname, fleet=muster_fleet, wantlist=True)"
"""

RETURN = r"""
_list:
  description: Names of stages, in their order.
  type: list
  elements: str
  sample: [preflight, burn_in]
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.evidence import Evidence, EvidenceError
from ansible_collections.muster.cluster.plugins.plugin_utils.admission import (
    NO_RULES,
    Case,
    Policy,
    PolicyError,
    Record,
    due_stages,
    rules_of,
    runnable_stages,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Ledger, LedgerError


def case_of(fleet: Mapping[str, Any], node: str, evidence: Any, now: float) -> tuple[Case, Policy]:
    """Return what is known of the node now; raises LedgerError, PolicyError or EvidenceError."""
    declared = fleet["nodes"].get(node)
    if declared is None or declared["role"] != "compute":
        raise PolicyError(f"{node} is no compute node of the fleet")
    policy = Policy.from_fleet(fleet["policy"])
    ledger = Ledger.open(fleet["ledger"]["url"], fleet["ledger"]["id"], fleet["cluster"], read_only=True)
    with ledger.reading() as reader:
        records = reader.records(policy.stages, [node])[node]
        row, decision = reader.nodes().get(node), reader.decisions().get(node)
    if evidence:
        mine = Evidence.from_dict(evidence)
        if mine.node != node or mine.stage != "preflight":
            raise EvidenceError(f"evidence {mine.id}: is {mine.stage} of {mine.node}, expected preflight of {node}")
        if all(each.evidence.id != mine.id for each in records):
            records.append(Record(mine, now, max((each.order for each in records), default=0) + 1))
        fingerprint = mine.fingerprint
    else:
        preflights = [each.evidence for each in records if each.evidence.stage == "preflight"]
        newest = max(preflights, key=lambda each: each.started, default=None)
        fingerprint = newest.fingerprint if newest else {}
    name = declared["hardware_class"]
    rules = rules_of({name: fleet["classes"][name]}, policy) if name in fleet["classes"] else {}
    required, digest = rules.get(name, NO_RULES)
    since = row.since if row is not None and row.state == "admitted" else None
    return Case(node, required, records, fingerprint, digest, decision, admitted_since=since), policy


class LookupModule(LookupBase):
    """Stages due on one node."""

    def run(self, terms: Sequence[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return the stages' names; raises AnsibleLookupError."""
        self.set_options(var_options=variables, direct=kwargs)
        if len(terms) != 1:
            raise AnsibleLookupError(f"due: {len(terms)} terms, expected the name of one node")
        node, now = str(terms[0]), time.time()
        try:
            case, policy = case_of(self.get_option("fleet"), node, self.get_option("evidence"), now)
        except (LedgerError, PolicyError, EvidenceError) as exc:
            raise AnsibleLookupError(f"due: {exc}") from exc
        return list((due_stages if self.get_option("skip_turn") else runnable_stages)(case, policy, now))
