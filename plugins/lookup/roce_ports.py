"""Lookup roce_ports: what each RoCE port of a node is set to."""

from __future__ import annotations

DOCUMENTATION = r"""
name: roce_ports
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Settings of a node's RoCE ports
description:
  - Returns what the fleet's fabric says of each rail of one node, as M(muster.cluster.roce_port) and the role
    P(muster.cluster.roce#role) take it; nothing where the fabric is no RoCE.
  - A setting that the declared backend cannot make is an error.
options:
  _terms:
    description: None are taken.
    required: false
  node:
    description: The node, C(muster_node).
    type: dict
    required: true
  fabric:
    description: The fabric, C(muster_fleet.fabric).
    type: dict
    required: true
  expect:
    description: What the node's hardware class must have, C(muster_expect).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what the ports are set to
  ansible.builtin.debug:
    msg: "{{ query('muster.cluster.roce_ports', node=muster_node, fabric=muster_fleet.fabric, expect=muster_expect) }}"
"""

RETURN = r"""
_list:
  description: The ports in the order of the rails. C(gateway) is the network's, all else the port's.
  type: list
  elements: dict
  sample:
    - rail: 0
      address: "0000:1a:00.0"
      ip: 172.16.0.1/31
      gateway: 172.16.0.0
      backend: doca
      mtu_bytes: 9000
      dscp_priority: [{dscp: 26, priority: 3}, {dscp: 48, priority: 6}]
      lossless_priorities: [3]
      dcqcn: false
      cnp_dscp: null
      cnp_priority: null
      cm_tos: 104
      traffic_class: null
      rings: {rx: 8192, tx: 8192}
      buffers: null
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.roce.decide import unsupported
from ansible_collections.muster.cluster.plugins.module_utils.roce.settings import PortSettings
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError, declared, faults_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import read_fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fabric_of_host import port_settings
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import check_rails, declared_rails


def roce_ports(node: Mapping[str, Any], fabric: Mapping[str, Any], expect: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings of each rail; raises FleetError, and ValueError for what the backend cannot do."""
    network, class_ = read_fabric(fabric), declared(Expectations, expect, "muster_expect")
    rails = declared_rails(node.get("rails"))
    if network.kind == "roce":
        with faults_of("muster_node"):
            check_rails([rail.rail for rail in rails], class_, network)
    ports = port_settings(network, rails, class_)
    impossible = [text for port in ports for text in unsupported(PortSettings.from_dict(port))]
    if impossible:
        raise ValueError("; ".join(impossible))
    return [{"gateway": rail.gateway, **port} for rail, port in zip(rails, ports, strict=False)]


class LookupModule(LookupBase):
    """Settings of a node's RoCE ports."""

    def run(self, terms: Sequence[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return a list of the ports; raises AnsibleLookupError."""
        self.set_options(var_options=variables, direct=kwargs)
        if terms:
            raise AnsibleLookupError(f"roce_ports: {len(terms)} terms, expected none")
        try:
            return roce_ports(*(self.get_option(key) for key in ("node", "fabric", "expect")))
        except (FleetError, ValueError) as exc:
            raise AnsibleLookupError(f"roce_ports: {exc}") from exc
