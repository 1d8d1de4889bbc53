"""Lookup storage_exports: what a storage server of the fleet exports."""

from __future__ import annotations

DOCUMENTATION = r"""
name: storage_exports
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: What a storage server of the fleet exports
description:
  - Returns the exports of one host of role C(storage), as the role P(muster.cluster.checkpoint_storage#role) takes
    them.
options:
  _terms:
    description: None are taken.
    required: false
  host:
    description: Name of the server.
    type: str
    required: true
extends_documentation_fragment: muster.cluster.fleet
"""

EXAMPLES = r"""
- name: Show what the server exports
  ansible.builtin.debug:
    msg: "{{ query('muster.cluster.storage_exports', host=inventory_hostname, fleet=muster_fleet) }}"
"""

RETURN = r"""
_list:
  description: One entry for each NFS tier of this server.
  type: list
  elements: dict
  sample:
    - {name: checkpoints, path: /srv/checkpoints, clients: [10.1.16.0/20], drives: ["0000:01:00.0"], protocol: tcp}
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


class LookupModule(LookupBase):
    """Returns the exports of one host."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return one entry for each export."""
        self.set_options(var_options=variables, direct=kwargs)
        try:
            fleet = Fleet.from_variables(self.get_option("fleet"))
        except MusterError as exc:
            raise AnsibleLookupError(f"storage_exports: {exc}") from exc
        return fleet.exports_of(str(self.get_option("host")))
