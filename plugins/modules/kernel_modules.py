#!/usr/bin/python
"""Module kernel_modules: the kernel modules that RDMA needs are loaded."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_modules
short_description: Load kernel modules that RDMA needs
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Loads every module that is neither loaded nor built into the kernel with C(modprobe), and verifies that it is there.
    What is loaded at a boot is not changed; that is C(/etc/modules-load.d).
  - A module that cannot be loaded is an error, with what C(modprobe) said and what to do. All modules are tried.
  - While other RDMA modules are installed than are loaded, as after an installation of DOCA-OFED, it is a warning.
    Modules of one build do not fit those of another; after the reboot that is pending the next run tries them again.
attributes:
  check_mode: {support: full, description: Reads only.}
options:
  names:
    description: Names of the modules, in the order in which they are loaded.
    type: list
    elements: str
    required: true
  tool_path:
    description: PATH of the tools.
    type: str
    default: /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  root: {description: Prefix of C(/sys)., type: path, default: /}
seealso:
  - module: muster.cluster.boot_parameters
"""

EXAMPLES = r"""
- name: Load what RDMA needs
  muster.cluster.kernel_modules:
    names: [ib_uverbs, rdma_ucm, rdma_cm]
"""

RETURN = r"""
loaded:
  description: Modules that were loaded, or would be.
  returned: always
  type: list
  elements: str
  sample: [rdma_ucm]
pending:
  description: Modules that could not be loaded while a reboot is pending, each with the reason.
  returned: always
  type: list
  elements: str
  sample: ["rdma_ucm cannot be loaded: modprobe: ERROR: could not insert 'rdma_ucm': Invalid argument"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.nic.kernel_modules import absent, load
from ansible_collections.muster.cluster.plugins.module_utils.probes import rdma_modules

ARGUMENTS = {
    "names": {"type": "list", "elements": "str", "required": True},
    "tool_path": {"type": "str", "default": TOOL_PATH},
    "root": {"type": "path", "default": "/"},
}


def main() -> None:
    """Load what is absent; fail for what cannot be loaded unless a reboot is pending."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    host = LocalHost(module.params["tool_path"], module.params["root"])
    wanted = absent(host, module.params["names"])
    tried = {} if module.check_mode else {name: load(host, name) for name in wanted}
    failed = [why for why in tried.values() if why]
    loaded = [name for name in wanted if not tried.get(name)]
    try:
        waiting = rdma_modules.waiting(host) if failed else []
    except Unreadable as exc:
        failed.append(str(exc))
        waiting = []
    if failed and not waiting:
        module.fail_json(msg="; ".join(failed), changed=bool(loaded), loaded=loaded, pending=[])
    for why in failed:
        module.warn(f"reboot pending for RDMA modules: {'; '.join(waiting)}. Until then {why}")
    module.exit_json(changed=bool(loaded), loaded=loaded, pending=failed)


if __name__ == "__main__":
    main()
