#!/usr/bin/python
"""Run one round of fabric tests through Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_round
short_description: Run one round of fabric tests through Slurm
version_added: 0.1.0
description:
  - Runs on a host that can submit Slurm jobs, as root. Starts one exclusive job per group of nodes, all at the same
    time, as an unprivileged user, and waits until each has ended or has reached its deadline. A group of one is looped
    back.
  - What a group does never fails the module, it is an observation. The module fails only where Slurm itself does not
    answer.
  - Jobs of the same campaign that an interrupted run left behind are cancelled first; jobs past their deadline are
    cancelled too.
options:
  campaign:
    description: Identity of the campaign; part of every job name.
    type: str
    required: true
  number:
    description: Number of the round within the campaign.
    type: int
    required: true
  groups:
    description: Disjoint lists of one or two node names.
    type: list
    elements: list
    required: true
  nodes:
    description: By node its C(address), where the two ends meet, and C(rails), the rails' own addresses by device.
    type: dict
    required: true
  test:
    description: >-
      What to run, as C(muster fabric) takes it: C(rails), sizes, C(queue_pairs), C(seconds), C(roce), C(data_class) and
      C(control_class), C(counters), C(path) and C(root).
    type: dict
    required: true
  environment:
    description: Variables that the tests get, beyond a plain PATH.
    type: dict
    default: {}
  port:
    description: Port on which the two ends of a group meet; the tests use those that follow.
    type: int
    required: true
  partition:
    description: Slurm partition that only the user may use.
    type: str
    default: acceptance
  user:
    description: User as whom the jobs run.
    type: str
    default: muster
  executable:
    description: Path of the muster program on the nodes.
    type: str
    default: /usr/libexec/muster/muster
  start_seconds:
    description: How long a job may wait until Slurm starts it, and nodes until their slurmd answers.
    type: int
    default: 30
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
    port: 29400
    nodes:
      gpu-01: {address: 10.0.0.1, rails: {mlx5_0: 172.16.0.1}}
      gpu-02: {address: 10.0.0.2, rails: {mlx5_0: 172.16.0.2}}
    test:
      rails: [{device: mlx5_0, gpu: null}]
      bandwidth_bytes: 65536
      latency_bytes: 2
      queue_pairs: 4
      seconds: 5
      roce: true
      data_class: 104
      control_class: 192
      counters: [out_of_sequence]
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
            - {phase: single, tool: ib_write_bw, device: mlx5_0, server: gpu-02, client: gpu-01, value: 391.8,
               bytes: 244875000000, error: ""}
          servers: []
          counters: {mlx5_0: {single: {grown: {tx_prio3_bytes: 250000000000}, missing: []}}}
cancelled:
  description: Ids of jobs left behind by an earlier attempt.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.fabric_job import Settings
from ansible_collections.muster.cluster.plugins.module_utils.round_module import arguments, jobs_of, run


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
    settings = Settings(
        partition=given["partition"],
        program=given["executable"],
        nodes=given["nodes"],
        test=given["test"],
        deadline_seconds=given["deadline_seconds"],
        timeout_seconds=given["timeout_seconds"],
    )
    # A group has its nodes to itself, so that all of them can use the same ports.
    run(module, jobs_of(given, {}), settings)


if __name__ == "__main__":
    main()
