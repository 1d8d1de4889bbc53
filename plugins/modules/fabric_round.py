#!/usr/bin/python
"""Run one round of fabric tests through Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_round
short_description: Run one round of fabric tests through Slurm
version_added: 0.1.0
description:
  - Starts one exclusive job per group of nodes, all at the same time, and waits until each has ended or has reached
    its deadline. A group of one is looped
    back.
extends_documentation_fragment: muster.cluster.slurm_round
options:
  groups:
    description: Disjoint lists of one or two node names.
    type: list
    elements: list
    required: true
  nodes:
    description: By node its C(address), where the two ends meet, and C(rails), the rails' IP addresses by their names.
    type: dict
    required: true
  test:
    description: >-
      What to run, as C(muster fabric) takes it: C(rails) with the PCI addresses of their NICs, from which each node
      looks up what it calls their devices, sizes, C(queue_pairs), C(seconds), C(roce), C(dmabuf), C(data_class) and
      C(control_class), C(counters), C(links), C(path) and C(root).
    type: dict
    required: true
  port:
    description: Port on which the two ends of a group meet; the tests use those that follow.
    type: int
    required: true
  timeout_seconds:
    description: How long one end waits for the other.
    type: int
    default: 60
  deadline_seconds:
    description: How long a group may take in all.
    type: int
    default: 300
author:
  - The Muster developers (@muster-cluster)
"""

EXAMPLES = r"""
- name: Measure the rails between two nodes
  muster.cluster.fabric_round:
    campaign: 5f2a9c
    number: 2
    groups: [[gpu-01, gpu-02]]
    gpus_per_node: 8
    port: 29400
    nodes:
      gpu-01: {address: 10.0.0.1, rails: {rail0: 172.16.0.1}}
      gpu-02: {address: 10.0.0.2, rails: {rail0: 172.16.0.2}}
    test:
      rails: [{rail: 0, address: "0000:1a:00.0", gpu: null}]
      bandwidth_bytes: 65536
      latency_bytes: 2
      queue_pairs: 4
      seconds: 5
      roce: true
      dmabuf: true
      data_class: 104
      control_class: 192
      counters: [out_of_sequence]
      links: ["rail0=0000:1a:00.0"]
      path: /usr/sbin:/usr/bin
      root: /
"""

RETURN = r"""
observations:
  description: One entry per group, in the order of I(groups).
  returned: always
  type: list
  elements: dict
  sample:
    - group: [gpu-01, gpu-02]
      ok: true
      started: true
      error: ""
      missing: []
      unavailable: {}
      answers:
        - node: gpu-01
          tests:
            - {phase: single, tool: ib_write_bw, rail: rail0, server: gpu-02, client: gpu-01, value: 391.8,
               bytes: 244875000000, error: ""}
          servers: []
          counters: {rail0: {single: {grown: {tx_prio3_bytes: 250000000000}, missing: []}}}
          links: {rail0: {}}
cancelled:
  description: Ids of jobs left behind by an earlier attempt.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.rounds.fabric_job import FabricCodec
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_module import arguments, run_job


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=arguments(
            timeout_seconds=60,
            deadline_seconds=300,
            nodes={"type": "dict", "required": True},
            test={"type": "dict", "required": True},
        ),
        supports_check_mode=True,
    )
    given = module.params
    unknown = sorted({node for group in given["groups"] for node in group} - set(given["nodes"]))
    if unknown:
        module.fail_json(msg=f"nodes: nothing about {', '.join(unknown)}, expected address and rails of every node")
    run_job(module, FabricCodec(given["executable"], given["nodes"], given["test"], given["timeout_seconds"]), {})


if __name__ == "__main__":
    main()
