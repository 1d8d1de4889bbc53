"""Lookup in_state: the nodes that the ledger has in a state."""

from __future__ import annotations

DOCUMENTATION = r"""
name: in_state
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Nodes that are in a state
description:
  - Returns the names of the fleet's nodes that the ledger has in the given state. Reads the ledger when the task runs,
    unlike the groups C(state_*), which are as old as the inventory.
options:
  _terms:
    description: States, such as C(admitted).
    required: true
  proven:
    description:
      - Only those that were admitted before they came into the state, and whose newest evidence of every stage of the
        policy passed. A decision such as C(spare) asks for no evidence.
    type: bool
    default: false
extends_documentation_fragment: muster.cluster.fleet
"""

EXAMPLES = r"""
- name: Show who is in service
  ansible.builtin.debug:
    msg: "{{ query('muster.cluster.in_state', 'admitted', fleet=muster_fleet) }}"

- name: Show the spares that may tell about others
  ansible.builtin.debug:
    msg: "{{ query('muster.cluster.in_state', 'spare', proven=true, fleet=muster_fleet) }}"
"""

RETURN = r"""
_list:
  description: Names of nodes.
  type: list
  elements: str
  sample: [gpu-01, gpu-02]
"""

from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger_reader import Reader


class LookupModule(LookupBase):
    """Names of nodes by state."""

    def run(self, terms: Sequence[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return the names; raises AnsibleLookupError."""
        self.set_options(var_options=variables, direct=kwargs)
        try:
            fleet = Fleet.from_variables(self.get_option("fleet"))
            ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=True)
            with ledger.reading() as reader:
                states = reader.states()
                found = [name for name in fleet.compute if states.get(name) in terms]
                return _proven(reader, fleet.policy.stages, found) if self.get_option("proven") else found
        except MusterError as exc:
            raise AnsibleLookupError(f"in_state: {exc}") from exc


def _proven(reader: Reader, stages: Sequence[str], nodes: Sequence[str]) -> list[str]:
    before = {move.node: move.from_state for move in reader.transitions()}
    records = reader.records(stages, nodes)
    return [
        node
        for node in nodes
        if before.get(node) == "admitted"
        and {each.evidence.stage for each in records[node]} == set(stages)
        and all(finding.verdict == PASS for each in records[node] for finding in each.evidence.findings)
    ]
