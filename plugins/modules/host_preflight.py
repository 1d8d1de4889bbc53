#!/usr/bin/python
"""Module host_preflight: all that a compute host lacks, in one list."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_preflight
short_description: Check that a host has what its class and its fleet need
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Reads the host before anything is changed on it, and fails with everything that is lacking in one list.
  - Asks for the places of GPUs and rails, the source of the RDMA software, Secure Boot where kernel modules are built
    on the host, the kernel's lockdown where PCIe registers have to be set, the CPU governor, network files that would
    take the rails' interfaces, a perftest that reaches the memory of GPUs, a PyTorch that the driver can run, and the
    clients of the storage tiers with what they are built from and their secrets.
  - A single GPU or NIC that is missing is not lacking here. Burn-in names it.
options:
  expect:
    description: Expectations of the node's hardware class, C(muster_expect).
    type: dict
    required: true
  networkd_rails:
    description: Numbers of the rails whose interfaces systemd-networkd is to set up.
    type: list
    elements: int
    default: []
  tools:
    description: Names of the programs in C(gpu_stack_tools).
    type: list
    elements: str
    default: []
  rdma_backend:
    description: Backend of the RoCE ports; empty on InfiniBand.
    type: str
    choices: [doca, inbox, ""]
    default: ""
  rdma_source:
    description: Source of the RDMA packages.
    type: str
    choices: [distribution, doca]
    default: distribution
  rdma_packages:
    description: Packages of that source, as the inventory declares them; omitted where it leaves them to role rdma.
    type: list
    elements: str
  rdma_repository: {description: Address of the repository of V(doca)., type: str, default: ""}
  shipped:
    description:
      - PCI addresses of the classes that come with Muster, as returned by P(muster.cluster.class_addresses#lookup). A
        class that fits the host is named where its own does not.
    type: dict
    default: {}
  pytorch: {description: C(gpu_stack_pytorch) as the inventory declares it., type: dict, default: {}}
  storage_tiers:
    description: Storage tiers as the fleet declares them, C(muster_fleet.storage.tiers).
    type: list
    elements: dict
    default: []
  storage_secrets:
    description: Names of the tiers in C(checkpoint_storage_secrets), without their secrets.
    type: list
    elements: str
    default: []
attributes:
  check_mode: {support: full, description: Reads only.}
"""

EXAMPLES = r"""
- name: Check that the host has what it needs
  muster.cluster.host_preflight:
    expect: "{{ muster_expect }}"
    tools: "{{ gpu_stack_tools | default([]) | map(attribute='name') }}"
    shipped: "{{ lookup('muster.cluster.class_addresses') }}"
"""

RETURN = r"""
lacking:
  description: What the host lacks.
  returned: always
  type: list
  elements: str
  sample:
    - "rdma_repository: nothing, expected url and signing_key, as rdma_source is doca"
    - "cpu.governor: performance, and the host has no frequency scaling (a guest has none: declare null)"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.readiness.host_readiness import Declared, lacking
from ansible_collections.muster.cluster.plugins.module_utils.readiness.rdma_software import (
    DISTRIBUTION,
    DOCA,
    RdmaSoftware,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import read_expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

ARGUMENTS = {
    "expect": {"type": "dict", "required": True},
    "networkd_rails": {"type": "list", "elements": "int", "default": []},
    "tools": {"type": "list", "elements": "str", "default": []},
    "rdma_backend": {"type": "str", "choices": [DOCA, "inbox", ""], "default": ""},
    "rdma_source": {"type": "str", "choices": [DISTRIBUTION, DOCA], "default": DISTRIBUTION},
    "rdma_packages": {"type": "list", "elements": "str"},
    "rdma_repository": {"type": "str", "default": ""},
    "shipped": {"type": "dict", "default": {}},
    "pytorch": {"type": "dict", "default": {}},
    "storage_tiers": {"type": "list", "elements": "dict", "default": []},
    "storage_secrets": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    """Look, and fail where something is lacking."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    try:
        expect = read_expectations(params["expect"], "expect")
    except ReadError as exc:
        module.fail_json(msg=str(exc), lacking=[])
    rdma = RdmaSoftware(*(params[f"rdma_{name}"] for name in ("backend", "source", "packages", "repository")))
    others = (params["storage_tiers"], params["storage_secrets"], params["pytorch"])
    declared = Declared(params["networkd_rails"], params["tools"], rdma, params["shipped"], *others)
    host, here = LocalHost(expect.tools.path, expect.tools.root), LocalHost(expect.tools.path)
    found = lacking(host, here, expect, declared)
    if found:
        module.fail_json(msg="; ".join(found), lacking=found)
    module.exit_json(changed=False, lacking=[])


if __name__ == "__main__":
    main()
