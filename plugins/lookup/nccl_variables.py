"""Lookup of a node's variables of NCCL."""

from __future__ import annotations

DOCUMENTATION = """
name: nccl_variables
short_description: NCCL's variables of a node, each with its reason
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Returns what role P(muster.cluster.nccl#role) writes to C(/etc/nccl.conf) of a node, as it follows from the declared
    fabric, the node's rails and its hardware class. Values name rails (C(=rail0,rail1)), which the host replaces by
    what it calls their devices.
  - Fails where the site's C(fabric.nccl.settings) contradicts the declaration or names a debugging aid.
options:
  _terms:
    description: The node, C(muster_node). One term.
    type: list
    elements: dict
    required: true
  fabric:
    description: The declared fabric, C(muster_fleet.fabric).
    type: dict
    required: true
  expect:
    description: What is expected of the node, C(muster_expect).
    type: dict
    required: true
"""

EXAMPLES = """
- name: Show NCCL's variables
  ansible.builtin.debug:
    msg: "{{ query('muster.cluster.nccl_variables', muster_node, fabric=muster_fleet.fabric, expect=muster_expect) }}"
"""

RETURN = """
_raw:
  description: The variables, in the order in which they are written.
  type: list
  elements: dict
  sample:
    - name: NCCL_IB_TIMEOUT
      value: "22"
      reason: 4.096 us x 2^22 is 17 s for each try, so that a link may flap and come back (MegaScale, OCI; default 20)
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.nccl import nccl_variables
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import declared
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import read_fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import declared_rails


class LookupModule(LookupBase):
    """Gives the variables as role nccl takes them."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, str]]:
        """Return the variables of one node."""
        if len(terms) != 1 or not isinstance(terms[0], dict) or set(kwargs) != {"fabric", "expect"}:
            raise AnsibleLookupError("nccl_variables: expected one term, the node, and the options fabric and expect")
        fabric, expect = kwargs["fabric"], kwargs["expect"]
        try:
            rails = declared_rails(terms[0].get("rails"))
            class_ = declared(Expectations, expect, "muster_expect")
            return [plain(each) for each in nccl_variables(read_fabric(fabric), rails, class_)]
        except MusterError as exc:
            raise AnsibleLookupError(str(exc)) from exc
