"""Lookup infiniband_files: the files of an InfiniBand host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: infiniband_files
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Files of a host with InfiniBand rails
description:
  - Returns the files that M(muster.cluster.file_set) writes for the role P(muster.cluster.infiniband#role), with node
    descriptions, addresses, routes, mode and partitions of the rails; and the patterns of files of earlier times. No
    file names a device or an interface of the system. What contradicts itself is an error.
options:
  _terms:
    description: The node's rails, as C(muster_node.rails) has them. One term, a list.
    required: true
  name: {description: Name of the host in the fabric., type: str, required: true}
  places:
    description: PCI address of each rail, as C(muster_expect.nic.rails) has it.
    type: list
    elements: dict
    required: true
  ipoib: {description: "Mode of IPoIB, C(datagram) or C(connected); not set where there is none.", type: str}
  mtu_bytes: {description: MTU of the links., type: int, default: 4096}
  partitions: {description: The fabric's partitions., type: list, elements: dict, default: []}
  network:
    description: What configures the rails' interfaces.
    type: str
    choices: [networkd, networkmanager]
    required: true
"""

EXAMPLES = r"""
- name: Show the files of an InfiniBand host
  ansible.builtin.debug:
    msg: >-
      {{ lookup('muster.cluster.infiniband_files', muster_node.rails, name=inventory_hostname, network='networkd',
         places=muster_expect.nic.rails, ipoib='datagram').files }}
"""

RETURN = r"""
_raw:
  description:
    - C(files), each with C(path), C(content) and C(mode), C(absent), patterns.
    - For M(muster.cluster.infiniband_rails) the C(rails), each with C(rail) and C(address), and C(children), keys of
      the partitions with interfaces of their own.
  type: list
  elements: dict
  sample:
    - files: [{path: /etc/systemd/network/51-muster-ib-rail0.network, content: "...", mode: "0644"}]
      absent: [/etc/systemd/network/51-muster-ib-*.network]
      rails: [{rail: 0, address: "0000:1a:00.0"}]
      children: [18]
"""

from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.infiniband_files import (
    Ipoib,
    absent_of,
    files_of,
    placed,
)


class LookupModule(LookupBase):
    """Files of an InfiniBand host."""

    def run(self, terms: Sequence[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return a list of one mapping; raises AnsibleLookupError."""
        self.set_options(var_options=variables, direct=kwargs)
        if len(terms) != 1 or not isinstance(terms[0], list):
            raise AnsibleLookupError("infiniband_files: expected one term, a list of rails")
        mode = self.get_option("ipoib")
        ipoib = Ipoib(mode, self.get_option("mtu_bytes"), self.get_option("partitions")) if mode else None
        try:
            rails = placed(terms[0], self.get_option("places"))
            files = files_of(self.get_option("name"), rails, ipoib, self.get_option("network"))
        except MusterError as exc:
            raise AnsibleLookupError(f"infiniband_files: {exc}") from exc
        return [
            {
                "files": files,
                "absent": absent_of(),
                "rails": [{"rail": each.rail, "address": each.address} for each in rails],
                "children": ipoib.children if ipoib else [],
            }
        ]
