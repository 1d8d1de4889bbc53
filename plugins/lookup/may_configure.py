"""Lookup may_configure: whether a role may configure the host of its task."""

from __future__ import annotations

DOCUMENTATION = r"""
name: may_configure
author: The Muster developers (@muster-cluster)
version_added: 0.1.0
short_description: Refuse hosts that must not be configured
description:
  - Returns V(true) for a declared host of the fleet that has said in this run that it is not the control machine, and
    whose system Muster knows; within a role of Muster, if that role knows it. For every other host it is an error that
    says why, also with C(--start-at-task), C(--tags) and C(--limit). It is the condition of all tasks of roles that
    configure hosts.
  - The control machine is known by its boot and its root file system or C(/etc/machine-id), not by how it is connected.
options:
  _terms:
    description: Name of the host; by default that of the task.
    required: false
  node:
    description: What the inventory declares of the host. A host without it is none of the fleet.
    type: dict
    vars:
      - name: muster_node
  system:
    description: Result of M(muster.cluster.system_info) for the host.
    type: dict
    vars:
      - name: muster_system
  control_system:
    description:
      - The ids of the control machine, as RV(muster.cluster.system_info#module:boot_id) and the others of that module.
        By default the machine on which Ansible runs; to be given where Ansible runs on the node itself.
    type: dict
    vars:
      - name: muster_control_system
  role:
    description:
      - Full name of the role that asks, which Ansible sets. With C(/) and the name of an entry point where that one
        knows more systems than the rest of the role.
    type: str
    default: ""
    vars:
      - name: ansible_role_name
seealso:
  - module: muster.cluster.system_info
"""

EXAMPLES = r"""
- name: Configure the host
  when: lookup('muster.cluster.may_configure')
  block:
    - name: Write the settings
      ansible.builtin.copy:
        content: "{{ settings }}"
        dest: /etc/settings.conf
        mode: "0644"
"""

RETURN = r"""
_raw:
  description: V(true).
  type: list
  elements: bool
  sample: [true]
"""

from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.host.running_system import RunningSystem
from ansible_collections.muster.cluster.plugins.plugin_utils.control.host_guard import refusal


class LookupModule(LookupBase):
    """Says whether the host of a task may be configured."""

    def run(self, terms: Sequence[Any], variables: Any = None, **kwargs: Any) -> list[bool]:
        """Return true; raises AnsibleLookupError with the reason for a host that may not be configured."""
        self.set_options(var_options=variables, direct=kwargs)
        control = self.get_option("control_system")
        refused = refusal(
            str(terms[0] if terms else variables["inventory_hostname"]),
            self.get_option("node") is not None,
            self.get_option("system"),
            RunningSystem.from_dict(control) if control else RunningSystem.here(),
            self.get_option("role"),
        )
        if refused:
            raise AnsibleLookupError(refused)
        return [True]
