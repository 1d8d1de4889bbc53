#!/usr/bin/python
"""Documentation of the action plugin of the same name, which does the work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: accept
short_description: Proves nodes by collectives between them
version_added: 0.1.0
description:
  - Measures all-reduce collectives between nodes through Slurm, in rounds of disjoint groups, until every node has
    either passed, been found at fault, or cannot be settled.
  - First pairs of nodes under test; then those of bad pairs, each with partners that are proven good; then all that
    passed together. A node is rejected only if it never passed and was bad with proven partners, with two of them where
    there are two. If a group is bad although all its pairs are good, its members are held and nobody is blamed.
  - Where nothing at all was good, two of I(partners) are measured as a control pair before anybody is rejected; if that
    is bad as well, the nodes are held.
  - Each round is committed to the ledger when it ends. A run that was interrupted is taken up by the next one, unless a
    node, its expectations or the environment have changed in between, or its first round is a quarter of an hour old.
  - Writes one acceptance evidence per node into the ledger. Judging it is the matter of M(muster.cluster.admit).
  - Delegate it to a host that can submit Slurm jobs, and run it once.
options:
  fleet:
    description: The variable C(muster_fleet).
    type: dict
    required: true
  nodes:
    description: Nodes under test, those whose earlier stages are passed. Nodes of different hardware classes are tested
      apart.
    type: list
    elements: str
    required: true
  partners:
    description: Admitted nodes that may vouch for nodes under test when those cannot prove one another. One that runs a
      job is not waited for.
    type: list
    elements: str
    default: []
  evidence:
    description: Preflight evidence of this run, as a list by node; gives boot id and fingerprint. A node without it is
      skipped.
    type: dict
    required: true
  environment:
    description: Variables that the ranks get, for example where Python finds torch.
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
    description: How long one collective may take before it counts as hanging.
    type: int
    default: 300
attributes:
  check_mode:
    description: Says which round would be next; runs nothing and writes nothing.
    support: full
author: The Muster developers
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
