"""Lookup recorded: which of nodes' evidence the ledger has."""

from __future__ import annotations

DOCUMENTATION = r"""
name: recorded
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Ids of nodes' evidence that the ledger has
description:
  - Returns a mapping of each given node to the ids of its finished evidence of one stage, oldest first. C(node_check)
    and C(burn_in_job) take them.
options:
  _terms:
    description: Names of compute nodes.
    required: true
  stage:
    description: Whose evidence.
    type: str
    required: true
extends_documentation_fragment: muster.cluster.fleet
"""

EXAMPLES = r"""
- name: Show what is recorded
  ansible.builtin.debug:
    msg: "{{ lookup('muster.cluster.recorded', 'gpu-01', 'gpu-02', stage='burn_in', fleet=muster_fleet)['gpu-01'] }}"
"""

RETURN = r"""
_raw:
  description: Ids of evidence by node.
  type: list
  elements: dict
  sample: [{gpu-01: [0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e], gpu-02: []}]
"""

from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger


class LookupModule(LookupBase):
    """Ids of evidence."""

    def run(self, terms: Sequence[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, list[str]]]:
        """Return a list of one mapping, the ids by node; raises AnsibleLookupError."""
        self.set_options(var_options=variables, direct=kwargs)
        fleet, stage = self.get_option("fleet"), self.get_option("stage")
        try:
            ledger = Ledger.open(fleet["ledger"]["url"], fleet["ledger"]["id"], fleet["cluster"], read_only=True)
            with ledger.reading() as reader:
                return [reader.known_by_node(stage, [str(node) for node in terms])]
        except MusterError as exc:
            raise AnsibleLookupError(f"recorded: {exc}") from exc
