#!/usr/bin/python
"""Documentation of the action plugin of the same name, which does the work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: accept
short_description: Test nodes with collectives
version_added: 0.1.0
description:
  - Measures all-reduce collectives between nodes through Slurm, in rounds of disjoint groups, until every node has
    either passed, been found at fault, or cannot be settled.
  - Each round is a Slurm step whose ranks are started once and run a program. The first is a pairwise sweep of all
    nodes. The next measures suspects again with reference nodes, and at the same time groups of all other nodes, of
    two, along the topology and all together. A node is rejected only for what speaks against it alone; a pair, a
    boundary or many slow nodes at once are held and no node is blamed.
  - Where the fleet's policy names a latency profile, groups as large as its mini-clusters run beside the others, and a
    node that was in none that kept the limit does not pass.
  - Each round is committed to the ledger when it ends. A run that was interrupted is taken up by the next one, unless a
    node, its expectations or the environment have changed in between, or its first round is a quarter of an hour old.
  - Writes one acceptance evidence per node into the ledger. Judging it is the matter of M(muster.cluster.admit).
  - Delegate it to a host that can submit Slurm jobs, and run it once.
options:
  partners:
    description: Admitted nodes, and spares that were, that may serve as reference nodes, or fill up mini-clusters, when
      the nodes under test are too few. Those that no job is on are taken first, in this order.
    type: list
    elements: str
    default: []
  environment:
    description: Variables that the ranks get, for example C(NCCL_DEBUG).
    type: dict
    default: {}
  port:
    description: First of the 1,100 ports on which rank 0 of a group may listen; each round uses others than the last.
    type: int
    default: 29400
  budget_seconds:
    description: How long all rounds may take. Nodes that are not settled by then are incomplete. The next run goes on
      if it follows soon, else it begins anew, so the budget has to hold a whole campaign.
    type: int
    default: 3600
  round_seconds:
    description: How long one step may take, unless its program needs more.
    type: int
    default: 300
  partner_wait_seconds:
    description: How long suspects wait for a partner that runs users' jobs; nothing is preempted.
    type: int
    default: 600
  baselines:
    description: Campaigns whose proposed baselines are adopted to judge by, where there are too few peers.
    type: list
    elements: str
    default: []
extends_documentation_fragment: muster.cluster.rounds
author: The Muster developers (@muster-cluster)
"""

EXAMPLES = r"""
- name: Prove the nodes that are due
  muster.cluster.accept:
    fleet: "{{ muster_fleet }}"
    nodes: [gpu-01, gpu-02, gpu-04]
    evidence: "{{ muster_preflight }}"
  run_once: true
  delegate_to: "{{ muster_fleet.controller }}"
"""

RETURN = r"""
campaigns:
  description: One entry per hardware class.
  returned: always
  type: list
  elements: dict
  sample:
    - class: hgx_h100
      campaign: 5f2a9c01d2e4-18c2f3a9b10
      concluded: true
      rounds: 3
      held: {}
      doubted: {}
      baseline:
        hardware_class: hgx_h100
        fabric: roce
        versions: nccl 2.26.2, torch 2.7.0
        figures: [{collective: sendrecv, nodes: 2, size_bytes: 268435456, median: 48.2, spread: 0.24, count: 496}]
      verdicts: {gpu-01: pass, gpu-02: pass, gpu-04: fail}
evidence:
  description: The evidence written, as a list by node.
  returned: always
  type: dict
  sample: {}
skipped:
  description: Why a node was not tested at all.
  returned: always
  type: dict
  sample: {gpu-09: "no preflight evidence of this run: nothing to tie a measurement to"}
"""
