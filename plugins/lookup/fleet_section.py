"""One section of a fleet file's declaration, when somebody asks for it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_section
short_description: One section of a fleet file's declaration
description:
  - Returns what one key of C(muster_fleet) holds. The inventory plugin P(muster.cluster.fleet#inventory) sets the large
    keys to this lookup, so that what holds for a whole fleet is not written out once for every host.
options:
  _terms:
    description: Path of one fleet file.
    required: true
  section:
    description: The key, such as V(nodes).
    type: str
    required: true
author: The Muster developers (@muster-cluster)
"""

EXAMPLES = r"""
- name: Show the address of every declared host
  ansible.builtin.debug:
    msg: "{{ item.key }} {{ item.value.address }}"
  loop: "{{ lookup('muster.cluster.fleet_section', '/etc/muster/site.fleet.yml', section='nodes') | dict2items }}"
"""

RETURN = r"""
_raw:
  description: The section; C(nodes) holds each declared host by name.
  type: dict
  sample:
    gpu-01: {role: compute, hardware_class: hgx_h100, address: 10.0.0.11, pod: p1, rack: r1, rails: []}
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import fleet_at


class LookupModule(LookupBase):
    """Looks sections up in the fleet that this run started with."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        self.set_options(var_options=variables, direct=kwargs)
        section = self.get_option("section")
        try:
            fleets = [fleet_at(str(term)) for term in terms]
        except MusterError as exc:
            raise AnsibleLookupError(str(exc)) from exc
        if section == "nodes":
            return [fleet.node_variables() for fleet in fleets]
        known = [fleet.variables() for fleet in fleets]
        for sections in known:
            if section not in sections:
                raise AnsibleLookupError(f"section is {section!r}, expected one of nodes, {', '.join(sections)}")
        return [sections[section] for sections in known]
