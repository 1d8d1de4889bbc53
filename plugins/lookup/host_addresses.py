"""Lookup host_addresses: the address of every declared host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: host_addresses
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Address of every declared host
description:
  - Returns the address by name of every host of the fleet, the variable C(muster_fleet).
  - With a fleet file they come from what the inventory plugin read. A template over C(muster_fleet.nodes) would cost
    each host time for all others.
options:
  _terms:
    description: None are taken.
    required: false
"""

EXAMPLES = r"""
- name: Prepare the host
  ansible.builtin.import_role:
    name: muster.cluster.host_base
  vars:
    host_base_hosts: "{{ lookup('muster.cluster.host_addresses') }}"
"""

RETURN = r"""
_raw:
  description: Addresses by name.
  type: list
  elements: dict
  sample:
    - {ctl: 10.0.0.1, gpu-01: 10.0.0.11}
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible.template import trust_as_template
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import remembered


class LookupModule(LookupBase):
    """Gives the addresses of the hosts of one fleet."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, str]]:
        """Return a list of that one mapping; raises AnsibleLookupError."""
        if terms or kwargs:
            raise AnsibleLookupError("host_addresses: expected no terms and no options")
        fleet = remembered((variables or {}).get("muster_fleet"))
        if fleet is not None:
            return [fleet.addresses]
        nodes = self._templar.template(trust_as_template("{{ muster_fleet.nodes }}"))
        return [{name: node["address"] for name, node in nodes.items()}]
