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
    driver. DOCA-OFED needs a repository, and the version of every package.
attributes:
  check_mode: {support: full, description: Reads only; a missing driver is no error.}
options:
  peer_memory:
    description: How NICs access GPU memory.
    type: str
    choices: [dmabuf, nvidia_peermem, none]
    required: true
  source: {description: Source of the packages., type: str, choices: [distribution, doca], required: true}
  packages:
    description: Packages, such as V(perftest) or V(perftest=24.04.0).
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

ARGUMENTS = {
    "peer_memory": {"type": "str", "choices": [DMABUF, PEERMEM, NONE], "required": True},
    "source": {"type": "str", "choices": ["distribution", "doca"], "required": True},
    "packages": {"type": "list", "elements": "str", "required": True},
    "repository": {"type": "str", "default": ""},
    "tool_path": {"type": "str", "default": TOOL_PATH},
}


def wrong_source(source: str, packages: list[str], repository: str) -> list[str]:
    """Return what is missing to install DOCA-OFED in one version."""
    if source != "doca":
        return []
    wrong = [] if repository else ["rdma_repository: nothing, expected url and signing_key, as rdma_source is doca"]
    loose = [package for package in packages if "=" not in package]
    return wrong + ([f"rdma_packages: {', '.join(loose)}, expected NAME=VERSION of each"] if loose else [])


def main() -> None:
    """Look, and fail where the declaration cannot be met."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    wrong = wrong_source(params["source"], params["packages"], params["repository"])
    if why := why_not(LocalHost(params["tool_path"]), params["peer_memory"], driver_to_come=module.check_mode):
        wrong.append(f"rdma_peer_memory {params['peer_memory']}: {why}")
    if wrong:
        module.fail_json(msg="; ".join(wrong), wrong=wrong)
    module.exit_json(changed=False, wrong=[])


if __name__ == "__main__":
    main()
