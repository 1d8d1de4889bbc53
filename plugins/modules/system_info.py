#!/usr/bin/python
"""Module system_info: which running system answers to a host's name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: system_info
short_description: Ask a host which running system it is
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Reads the ids of the host's boot, installation and root directory, and which system it has by os-release(5). Roles
    of Muster that configure hosts ask for this answer in the variable C(muster_system). By it they refuse the control
    machine, and systems that they do not know (P(muster.cluster.may_configure#lookup)).
  - The first time in a run, ends a persistent SSH connection that an earlier run has left, so that the host has to show
    its host key again. A changed host key is named as the reason why the host is unreachable.
  - It is an error if the system cannot be read.
options:
  roles:
    description:
      - Roles of Muster that are to configure the host, or their entry points as C(ROLE/ENTRY). It is an error if one of
        them does not know the host's system, so that nothing is changed on a host that only some of them can configure.
    type: list
    elements: str
    default: []
attributes:
  check_mode: {support: full, description: Reads only.}
seealso:
  - plugin: muster.cluster.may_configure
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Identify the host
  muster.cluster.system_info:
    roles: [host_base]
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
system:
  description:
    - Which system the host has, and what roles need to know of such a system. The latter is empty for a system that
      Muster does not know.
  returned: success
  type: dict
  contains:
    id: {description: C(ID) of os-release., type: str, sample: debian}
    release: {description: C(VERSION_ID) of os-release., type: str, sample: "12"}
    name: {description: C(NAME) of os-release., type: str, sample: Debian GNU/Linux}
    network:
      description: "Service of the rails' interfaces: V(networkd) or V(networkmanager)."
      type: str
      sample: networkd
    boot_loader:
      description: "Where the kernel's parameters are declared: V(grub) or V(grubby)."
      type: str
      sample: grub
    time_sources:
      description: File of chrony's time servers; empty where they are in C(/etc/chrony.conf).
      type: str
      sample: /etc/chrony/sources.d/muster.sources
    administrators: {description: Group whose members may use sudo., type: str, sample: sudo}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.host.host import LocalHost, Unreadable
from ..module_utils.host.running_system import RunningSystem
from ..module_utils.host.systems import description, read_release, refusal

ARGUMENTS = {"roles": {"type": "list", "elements": "str", "default": []}}


def main() -> None:
    """Say who this is, and fail where a role does not know such a system."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        said = read_release(LocalHost())
    except Unreadable as exc:
        module.fail_json(msg=f"system: {exc}")
    roles = module.params["roles"]
    if refused := refusal(said, roles) if roles else "":
        module.fail_json(msg=refused)
    module.exit_json(changed=False, **RunningSystem.here().to_dict(), system=description(said))


if __name__ == "__main__":
    main()
