"""Lookup recorded: which of a node's evidence the ledger has."""

from __future__ import annotations

DOCUMENTATION = r"""
name: recorded
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Ids of a node's evidence that the ledger has
description:
  - Returns the ids of a node's finished evidence of one stage, oldest first. C(burn_in_job) takes them.
options:
  _terms:
    description: Name of one compute node.
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
    msg: "{{ query('muster.cluster.recorded', inventory_hostname, stage='burn_in', fleet=muster_fleet) }}"
"""

RETURN = r"""
_list:
  description: Ids of evidence.
  type: list
  elements: str
  sample: [0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e]
"""

from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger


class LookupModule(LookupBase):
    """Ids of evidence."""

    def run(self, terms: Sequence[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return the ids; raises AnsibleLookupError."""
        self.set_options(var_options=variables, direct=kwargs)
        if len(terms) != 1:
            raise AnsibleLookupError(f"recorded: {len(terms)} terms, expected the name of one node")
        fleet = self.get_option("fleet")
        try:
            ledger = Ledger.open(fleet["ledger"]["url"], fleet["ledger"]["id"], fleet["cluster"], read_only=True)
            with ledger.reading() as reader:
                return reader.known(self.get_option("stage"), str(terms[0]))
        except MusterError as exc:
            raise AnsibleLookupError(f"recorded: {exc}") from exc
