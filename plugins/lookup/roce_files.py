"""Lookup roce_files: the files of a RoCE host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: roce_files
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Files of a host with RoCE ports
description:
  - Returns the files that M(muster.cluster.file_set) writes for the role P(muster.cluster.roce#role), the settings of
    each port, its address and routes, and what applies them at boot; and the patterns of files of earlier times.
  - A setting that a port's backend cannot make is an error.
options:
  _terms:
    description: The ports, as P(muster.cluster.roce_ports#lookup) gives them. One term, a list.
    required: true
  network:
    description: What configures the rails' interfaces.
    type: str
    choices: [networkd, networkmanager]
    required: true
"""

EXAMPLES = r"""
- name: Write the files of the RoCE ports
  muster.cluster.file_set:
    files: "{{ lookup('muster.cluster.roce_files', roce_ports, network='networkd').files }}"
    absent: "{{ lookup('muster.cluster.roce_files', roce_ports, network='networkd').absent }}"
"""

RETURN = r"""
_raw:
  description: C(files), each with C(path), C(content) and C(mode), and C(absent), patterns.
  type: list
  elements: dict
  sample:
    - files: [{path: /etc/muster/roce/rail0.json, content: "...", mode: "0644"}]
      absent: [/etc/muster/roce/*.json]
"""

from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.roce_files import absent_of, files_of


class LookupModule(LookupBase):
    """Files of a RoCE host."""

    def run(self, terms: Sequence[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return a list of one mapping; raises AnsibleLookupError."""
        self.set_options(var_options=variables, direct=kwargs)
        if len(terms) != 1 or not isinstance(terms[0], list):
            raise AnsibleLookupError("roce_files: expected one term, a list of ports")
        try:
            return [{"files": files_of(terms[0], self.get_option("network")), "absent": absent_of()}]
        except MusterError as exc:
            raise AnsibleLookupError(f"roce_files: {exc}") from exc
