"""Lookup of the table that says how many queue pairs NCCL should use on a fleet's fabric."""

from __future__ import annotations

DOCUMENTATION = """
name: queue_pair_table
short_description: How evenly a fleet's fabric spreads flows, by number of queue pairs
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Returns a Markdown table, line by line. For each kind of leaf switch (rails below, links upwards) and each routing
    it has the expected load of the fullest uplink over the mean of all, by number of queue pairs for each connection,
    and the number that NCCL gets where the fleet file declares none.
  - No line where no switches with uplinks are declared.
options:
  _terms:
    description: The fleet, C(muster_fleet). One term.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = """
- name: Show how evenly flows spread
  ansible.builtin.debug:
    msg: "{{ query('muster.cluster.queue_pair_table', muster_fleet) }}"
"""

RETURN = """
_raw:
  description: Lines of the table.
  type: list
  elements: str
  sample: ['| 1536 | 16 | 18 | e_ecmp (declared) | 3.30 | 2.57 | 2.07 | 1.74 | 1.51 | 1.36 | 16 |']
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.spread import table_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


class LookupModule(LookupBase):
    """Gives the table of one fleet."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return the lines."""
        if len(terms) != 1 or kwargs:
            raise AnsibleLookupError("queue_pair_table: expected one term, the fleet (muster_fleet), and no options")
        try:
            fleet = Fleet.from_variables(terms[0])
        except MusterError as exc:
            raise AnsibleLookupError(str(exc)) from exc
        return table_of(fleet.fabric, fleet.nodes)
