"""All declared hosts of a fleet file, when somebody asks for them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_nodes
short_description: All declared hosts of a fleet file
description:
  - Returns what C(muster_fleet.nodes) holds. The inventory plugin P(muster.cluster.fleet#inventory) sets that variable
    to this lookup, so that the hosts of a large fleet are not written out once for every host.
options:
  _terms:
    description: Path of one fleet file.
    required: true
author: The Muster developers
"""

EXAMPLES = r"""
- name: Show the address of every declared host
  ansible.builtin.debug:
    msg: "{{ item.key }} {{ item.value.address }}"
  loop: "{{ lookup('muster.cluster.fleet_nodes', '/etc/muster/site.fleet.yml') | dict2items }}"
"""

RETURN = r"""
_raw:
  description: Each declared host by name.
  type: dict
  sample:
    gpu-01: {role: compute, hardware_class: hgx_h100, address: 10.0.0.11, pod: p1, rack: r1, rails: []}
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import fleet_at


class LookupModule(LookupBase):
    """Looks hosts up in the fleet that this run started with."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        try:
            return [fleet_at(str(term)).node_variables() for term in terms]
        except FleetError as exc:
            raise AnsibleLookupError(str(exc)) from exc
