#!/usr/bin/python
"""Documentation of the action plugin of the same name, which does the work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_rounds
short_description: Test every rail of nodes with perftest
version_added: 0.1.0
description:
  - Measures bandwidth and latency of every rail through Slurm, in rounds of disjoint groups, one rail at a time and all
    at once, in both directions, with the traffic class that the fleet declares, and reads the ports' counters before
    and after.
  - First every node looped back in itself, which judges NIC and PCIe and never the cable; then pairs at the same leaf
    switch, in the same pod and across pods, as far as there are such; then members of bad pairs with partners whose
    rail is proven.
  - A rail is rejected only if it never passed and was bad with proven partners, with two of them where there are two.
    Where all hosts measured at a leaf switch are bad on a rail, or a bad pair's members are good with others, the nodes
    are held and no node is blamed.
  - Each round is committed to the ledger when it ends, as M(muster.cluster.accept) does, and one fabric evidence per
    node is written. Judging it is the matter of M(muster.cluster.admit).
  - Delegate it to a host that can submit Slurm jobs, and run it once.
options:
  partners:
    description: Admitted nodes that may serve as reference nodes when the nodes under test are too few.
    type: list
    elements: str
    default: []
  port:
    description: First of the 1,000 ports on which the two ends of a pair meet; each round uses others than the last.
    type: int
    default: 29400
  cabling:
    description:
      - What was read of the live fabric, from which the finding C(cabling) on every rail comes where C(verify_cabling)
        of the fleet's fabric is on. Without it, that is incomplete.
      - Under C(lldp) the result of M(muster.cluster.lldp_neighbors_info) by host, or under C(infiniband) the results of
        C(ibnetdiscover -p), C(iblinkinfo -l) and C(ibqueryerrors --threshold-file /dev/null) by tool.
    type: dict
    default: {}
extends_documentation_fragment: muster.cluster.rounds
author: The Muster developers (@muster-cluster)
"""

EXAMPLES = r"""
- name: Prove the rails of the nodes that are due
  muster.cluster.fabric_rounds:
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
      remarks: []
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
