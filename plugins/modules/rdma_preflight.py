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
  - DMA-BUF needs Linux 5.12 or later, C(nvidia_peermem) the kernel module of that name, which comes with NVIDIA's
    driver.
  - Backend V(doca) of a RoCE fabric needs DOCA-OFED, which needs a repository, and the version of every package.
    Without packages to install, the host has its RDMA software from elsewhere, and none of this is asked.
attributes:
  check_mode: {support: full, description: Reads only; a missing driver is no error.}
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

DISTRIBUTION = "distribution"
DOCA = "doca"
ARGUMENTS = {
    "peer_memory": {"type": "str", "choices": [DMABUF, PEERMEM, NONE], "required": True},
    "backend": {"type": "str", "choices": [DOCA, "inbox", ""], "default": ""},
    "source": {"type": "str", "choices": [DISTRIBUTION, DOCA], "required": True},
    "packages": {"type": "list", "elements": "str", "required": True},
    "repository": {"type": "str", "default": ""},
    "tool_path": {"type": "str", "default": TOOL_PATH},
}


def wrong_source(backend: str, source: str, packages: list[str], repository: str) -> list[str]:
    """Return what contradicts the backend, and what is missing to install DOCA-OFED in one version."""
    if not packages:
        return []
    if source == DISTRIBUTION:
        if backend != DOCA:
            return []
        why = "as fabric.backend is doca (or backend inbox; or rdma_packages [] if the image has DOCA-OFED)"
        return [f"rdma_source: distribution, expected doca, {why}"]
    whence = f" with fabric.backend {backend}" if backend else ""
    why = f"as rdma_source is doca{whence}"
    wrong = [] if repository else [f"rdma_repository: nothing, expected url and signing_key, {why}"]
    loose = [package for package in packages if "=" not in package]
    pinned = "expected NAME=VERSION of each, such as doca-ofed=3.1.0-091000"
    return wrong + ([f"rdma_packages: {', '.join(loose)}, {pinned}"] if loose else [])


def main() -> None:
    """Look, and fail where the declaration cannot be met."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    wrong = wrong_source(params["backend"], params["source"], params["packages"], params["repository"])
    if why := why_not(LocalHost(params["tool_path"]), params["peer_memory"], driver_to_come=module.check_mode):
        wrong.append(f"rdma_peer_memory {params['peer_memory']}: {why}")
    if wrong:
        module.fail_json(msg="; ".join(wrong), wrong=wrong)
    module.exit_json(changed=False, wrong=[])


if __name__ == "__main__":
    main()
