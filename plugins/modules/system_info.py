#!/usr/bin/python
"""Module system_info: which running system answers to a host's name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: system_info
short_description: Ask a host which running system it is
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Reads the ids of the host's boot, installation and root directory. Roles of Muster that configure hosts ask for this
    answer in the variable C(muster_system), and refuse the control machine by it
    (P(muster.cluster.may_configure#lookup)).
  - The first time in a run, ends a persistent SSH connection that an earlier run has left, so that the host has to show
    its host key again. A changed host key is named as the reason why the host is unreachable.
options: {}
attributes:
  check_mode: {support: full, description: Reads only.}
seealso:
  - plugin: muster.cluster.may_configure
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Identify the host
  muster.cluster.system_info:
  register: muster_system

- name: Prepare the host
  ansible.builtin.import_role:
    name: muster.cluster.host_base
"""

RETURN = r"""
boot_id:
  description: Id of the kernel's boot, which containers share with their host; empty if it cannot be read.
  returned: success
  type: str
  sample: 5a1f0a51-4ad9-4f35-9b6b-0c8f1f2e7d11
machine_id:
  description: Id of the installation (C(/etc/machine-id)); empty if the host has none.
  returned: success
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015
root_id:
  description: Device and inode of the root directory, which tell containers of one boot apart.
  returned: success
  type: str
  sample: "2049:2"
container:
  description: What the manager of the container is called that the host is; empty for a machine.
  returned: success
  type: str
  sample: ""
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.host.running_system import RunningSystem


def main() -> None:
    """Say who this is."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, **RunningSystem.here().to_dict())


if __name__ == "__main__":
    main()
