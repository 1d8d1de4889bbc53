#!/usr/bin/python
"""Module rdma_preflight: whether a host can have the RDMA software that is declared for it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_preflight
short_description: Check that a host supports the declared RDMA software
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Fails before any change if the host does not support the declaration.
  - DMA-BUF needs Linux 5.12 or later. Module C(nvidia_peermem) comes with NVIDIA's driver, and is tried later
    (M(muster.cluster.kernel_modules)).
  - Backend V(doca) of a RoCE fabric needs DOCA-OFED, which needs a repository, and the version of every package.
    Without packages to install, the host has its RDMA software from elsewhere, and none of this is asked.
attributes:
  check_mode: {support: full, description: Reads only.}
options:
  peer_memory:
    description: How NICs access GPU memory.
    type: str
    choices: [dmabuf, nvidia_peermem, none]
    required: true
  backend:
    description: Backend of the RoCE ports; empty on InfiniBand.
    type: str
    choices: [doca, inbox, ""]
    default: ""
  source: {description: Source of the packages., type: str, choices: [distribution, doca], required: true}
  packages:
    description: Packages of that source, such as V(perftest) or V(perftest=24.04.0).
    type: list
    elements: str
    required: true
  repository: {description: Address of the repository of V(doca)., type: str, default: ""}
  tool_path:
    description: PATH of the tools.
    type: str
    default: /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""

EXAMPLES = r"""
- name: Check the declaration
  muster.cluster.rdma_preflight:
    peer_memory: dmabuf
    source: distribution
    packages: [rdma-core, perftest]
"""

RETURN = r"""
wrong:
  description: Unsupported parts of the declaration.
  returned: always
  type: list
  elements: str
  sample: ["rdma_peer_memory: DMA-BUF needs Linux 5.12 or later, found 5.10.0-28-amd64"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.nic.peer_memory import DMABUF, NONE, PEERMEM, why_not
from ansible_collections.muster.cluster.plugins.module_utils.readiness.rdma_software import (
    DISTRIBUTION,
    DOCA,
    RdmaSoftware,
    wrong_source,
)

ARGUMENTS = {
    "peer_memory": {"type": "str", "choices": [DMABUF, PEERMEM, NONE], "required": True},
    "backend": {"type": "str", "choices": [DOCA, "inbox", ""], "default": ""},
    "source": {"type": "str", "choices": [DISTRIBUTION, DOCA], "required": True},
    "packages": {"type": "list", "elements": "str", "required": True},
    "repository": {"type": "str", "default": ""},
    "tool_path": {"type": "str", "default": TOOL_PATH},
}


def main() -> None:
    """Look, and fail where the declaration cannot be met."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    declared = RdmaSoftware(params["backend"], params["source"], params["packages"], params["repository"])
    wrong = wrong_source(declared)
    if why := why_not(LocalHost(params["tool_path"]), params["peer_memory"]):
        wrong.append(f"rdma_peer_memory {params['peer_memory']}: {why}")
    if wrong:
        module.fail_json(msg="; ".join(wrong), wrong=wrong)
    module.exit_json(changed=False, wrong=[])


if __name__ == "__main__":
    main()
