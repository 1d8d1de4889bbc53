"""Lookup outdated: the burn-ins in the ledger that other rules judged."""

from __future__ import annotations

DOCUMENTATION = r"""
name: outdated
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Burn-in evidence that other rules judged
description:
  - Returns, by node, the id of the burn-in whose kept outputs the node has to judge again, because a check that its
    class owes has another version now. M(muster.cluster.node_check) takes it.
  - Reads the ledger once for all nodes.
options:
  _terms:
    description: None are taken.
    required: false
extends_documentation_fragment: muster.cluster.fleet
"""

EXAMPLES = r"""
- name: Show whose burn-in other rules judged
  ansible.builtin.debug:
    msg: "{{ lookup('muster.cluster.outdated', fleet=muster_fleet) }}"
"""

RETURN = r"""
_raw:
  description: Ids of evidence by node.
  type: list
  elements: dict
  sample:
    - {gpu-01: 0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e}
"""

from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger
from ansible_collections.muster.cluster.plugins.plugin_utils.rejudging.outdated_evidence import outdated_burn_ins


class LookupModule(LookupBase):
    """Burn-ins that other rules judged."""

    def run(self, terms: Sequence[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, str]]:
        """Return one mapping; raises AnsibleLookupError."""
        self.set_options(var_options=variables, direct=kwargs)
        fleet = Fleet.from_variables(self.get_option("fleet"))
        try:
            ledger = Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=True)
            with ledger.reading() as reader:
                return [outdated_burn_ins(fleet, reader)]
        except MusterError as exc:
            raise AnsibleLookupError(f"outdated: {exc}") from exc
