"""Lookup waivers: the deviations that the policy accepts on one node."""

from __future__ import annotations

DOCUMENTATION = r"""
name: waivers
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: The deviations that the policy accepts on one node
description:
  - Returns what of the waivers in section C(policy) of the fleet file is about one node, as the role
    P(muster.cluster.slurm#role) hands it to the node's health check.
options:
  _terms:
    description: The waivers, C(muster_fleet.policy.waivers). One term, a list.
    required: true
  node:
    description: Name of the node.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what is accepted on this node
  ansible.builtin.debug:
    msg: "{{ query('muster.cluster.waivers', muster_fleet.policy.waivers | default([]), node=inventory_hostname) }}"
"""

RETURN = r"""
_list:
  description: One entry for each waiver.
  type: list
  elements: dict
  sample:
    - {check: clock, until: "2027-01-31", subject: "*"}
"""

from dataclasses import fields
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.deviation import Deviation
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read_as
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import Waiver


class LookupModule(LookupBase):
    """Returns the waivers of one node."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return one entry for each waiver that names the node."""
        if len(terms) != 1 or kwargs.keys() != {"node"}:
            raise AnsibleLookupError("waivers: expected one term, muster_fleet.policy.waivers, and node")
        try:
            waivers: tuple[Waiver, ...] = read_as(tuple[Waiver, ...], terms[0])
        except MusterError as exc:
            raise AnsibleLookupError(f"waivers: {exc}") from exc
        known = [each.name for each in fields(Deviation)]
        return [{key: getattr(each, key) for key in known} for each in waivers if kwargs["node"] in each.nodes.names]
