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
from ansible_collections.muster.cluster.plugins.module_utils.boot.module_loading import load_absent
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, LocalHost

ARGUMENTS = {
    "names": {"type": "list", "elements": "str", "required": True},
    "tool_path": {"type": "str", "default": TOOL_PATH},
    "root": {"type": "path", "default": "/"},
}


def main() -> None:
    """Load what is absent; fail for what cannot be loaded unless a reboot is pending."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    host = LocalHost(module.params["tool_path"], module.params["root"])
    found = load_absent(host, module.params["names"], module.check_mode)
    if found.failed and not found.waiting:
        module.fail_json(msg="; ".join(found.failed), changed=bool(found.loaded), loaded=found.loaded, pending=[])
    for text in found.warnings:
        module.warn(text)
    module.exit_json(changed=bool(found.loaded), loaded=found.loaded, pending=found.failed)


if __name__ == "__main__":
    main()
