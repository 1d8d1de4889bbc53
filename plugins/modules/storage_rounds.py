#!/usr/bin/python
"""Documentation of the action plugin of the same name, which does the work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_rounds
short_description: Test nodes on shared storage under checkpoint load
version_added: 0.1.0
description:
  - Has all nodes under test save a checkpoint of the declared model to the declared tier at the same time through
    Slurm, read each other's shards back past their caches, make small files, and save and load a sharded state with
    PyTorch.
  - Nodes that were bad, or could not be measured by the fault of another, are measured again together with good ones. A
    node is rejected where it was bad both times while others were good, or where data of its own came back wrong. What
    happens to more nodes than not is the storage's fault, or its network's, and no node is blamed.
  - Judged are each node's writing, reading, metadata and clock by its class and by the median of all, and the whole by
    the declared rate. A storage that does not reach it holds the nodes.
  - Each round is committed to the ledger when it ends, as M(muster.cluster.accept) does, and one storage evidence per
    node is written. Judging it is the matter of M(muster.cluster.admit).
  - Delegate it to a host that can submit Slurm jobs, and run it once.
options:
  partners:
    description: Admitted nodes that may save with nodes under test where those are too few.
    type: list
    elements: str
    default: []
  port:
    description: First of the 1,000 ports on which nodes meet; each round uses others than the last.
    type: int
    default: 27300
  round_seconds:
    description: How long one round may take before it counts as hanging.
    type: int
    default: 900
extends_documentation_fragment: muster.cluster.rounds
author: The Muster developers (@muster-cluster)
"""

EXAMPLES = r"""
- name: Prove the storage of the nodes that are due
  muster.cluster.storage_rounds:
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
