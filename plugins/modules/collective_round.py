#!/usr/bin/python
"""Run one round of acceptance collectives through Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: collective_round
short_description: Run one round of acceptance collectives through Slurm
version_added: 0.1.0
description:
  - Starts one exclusive job per group of nodes, all at the same time, and waits until each has ended or has reached
    its deadline.
extends_documentation_fragment: muster.cluster.slurm_round
options:
  groups:
    description: Disjoint lists of node names; each list is one collective.
    type: list
    elements: list
    required: true
  addresses:
    description: Address by node name, used for the rendezvous. A node that is not listed must resolve by name.
    type: dict
    default: {}
  collective:
    description: >-
      The hardware class' collective settings. Used here are C(driver), C(backend), C(ranks_per_node), C(container) and
      C(container_python).
    type: dict
    required: true
  python:
    description: Python of the ranks on the hosts, C(pytorch.python) of the hardware class.
    type: str
    required: true
  program:
    description: >-
      What each group's ranks do once they are started: C(moves), each with a C(name), C(kind) (C(inside), C(pairs),
      C(groups), C(train)), C(collective), C(sizes) in bytes, C(iterations), C(warmup) and C(seconds), the limit of one
      permutation of pairs or of one group. Nodes are told by their positions in the group, as C(shifts) or C(pairs),
      or C(groups). One that has C(jobs) is for these of I(groups) alone, told by their numbers from 0.
    type: dict
    required: true
  links:
    description: >-
      What each node watches for a lost carrier meanwhile: network interfaces, rails by name and PCI address
      (C(rail0=0000:1a:00.0)), or C(*) for every interface with hardware behind it and a carrier.
    type: list
    elements: str
    default: []
  patient:
    description: Nodes that users' jobs may be on; a round that needs them waits in Slurm's queue and preempts nobody.
    type: list
    elements: str
    default: []
  patience_seconds:
    description: How long it waits for them beyond I(start_seconds).
    type: int
    default: 0
  partners:
    description: Nodes in service. The first observation says which of them no job is on, at the end of the round.
    type: list
    elements: str
    default: []
  port:
    description: Port on which the first group's rank 0 listens; each further group takes the next one, of a hundred.
    type: int
    required: true
  timeout_seconds:
    description: How long ranks wait for each other, at the start and in each collective.
    type: int
    default: 60
  deadline_seconds:
    description: How long a rank may take in all.
    type: int
    default: 300
author:
  - The Muster developers (@muster-cluster)
"""

EXAMPLES = r"""
- name: Measure two pairs at the same time
  muster.cluster.collective_round:
    campaign: 5f2a9c
    number: 1
    groups: [[gpu-01, gpu-02], [gpu-03, gpu-04]]
    gpus_per_node: 8
    port: 29400
    collective:
      driver: torch
      backend: gloo
      ranks_per_node: 1
      container: null
      container_python: /usr/bin/python3
    python: /opt/muster/pytorch/bin/python3
    program:
      moves:
        - {name: walk, kind: pairs, collective: sendrecv, sizes: [65536, 8388608], iterations: 10, warmup: 3,
           seconds: 30, shifts: [0]}
    environment:
      GLOO_SOCKET_IFNAME: eth0
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
      ranks:
        - node: gpu-01
          rank: 0
          error: ""
          phase: end
          versions: {torch: 2.6.0+cpu}
      results:
        - {move: walk, step: 0, bytes: 8388608, ns: [[16300000], [16290000]], ns_p99: [[17000000], [16990000]],
           wrong: {}}
      stalls:
        - {move: walk, nodes: [gpu-01, gpu-02], meetings: 30, lost_ns: [112000000]}
      links:
        gpu-02: [{eth0: {eth0: [2, 4]}}]
      idle: [gpu-09]
cancelled:
  description: Ids of jobs left behind by an earlier attempt.
  returned: always
  type: list
  elements: str
  sample: []
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.rounds.collective_phases import (
    CollectiveRequest,
    idle_of,
    run_phases,
)
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_module import PORTS, arguments, jobs_of, run
from ansible_collections.muster.cluster.plugins.module_utils.rounds.slurm_round import Patience, Slurm


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=arguments(
            timeout_seconds=60,
            deadline_seconds=300,
            addresses={"type": "dict", "default": {}},
            collective={"type": "dict", "required": True},
            python={"type": "str", "required": True},
            program={"type": "dict", "required": True},
            links={"type": "list", "elements": "str", "default": []},
            patient={"type": "list", "elements": "str", "default": []},
            patience_seconds={"type": "int", "default": 0},
            partners={"type": "list", "elements": "str", "default": []},
        ),
        supports_check_mode=True,
    )
    given = module.params
    jobs = jobs_of(given, given["addresses"], PORTS)
    try:
        asked = CollectiveRequest.of(given)
        for job in jobs:
            asked.check(job.group)
    except (KeyError, TypeError, ValueError) as exc:
        module.fail_json(msg=f"collective: {type(exc).__name__} {exc}, expected the class' collective settings")
    patience = Patience(frozenset(given["patient"]), given["patience_seconds"])

    def measured(slurm: Slurm) -> list[dict[str, Any]]:
        found = run_phases(slurm, jobs, asked, given["start_seconds"], patience)
        if given["partners"]:
            found[0]["idle"] = idle_of(given["partners"], slurm.states())
        return found

    run(module, measured)


if __name__ == "__main__":
    main()
