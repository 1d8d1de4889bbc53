#!/usr/bin/python
"""Documentation of the action ``draw``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: draw
short_description: Draw nodes whose evidence is judged on the control machine too
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Draws two of the nodes that gave evidence of a stage, and besides all whose raw outputs did not bear out their
    findings when they were drawn last. The seed is made when the task runs, after the digests of the raw outputs have
    arrived, so that no node knows before whether it is drawn.
  - The ledger keeps the evidence that was drawn, seed, time, candidates and, once M(muster.cluster.rejudge) has it, the
    outcome.
  - Needs no connection to the host. Run it once for all nodes.

options:
  stage:
    description: Stage of the evidence.
    type: str
    choices: [preflight, burn_in]
    required: true
  evidence:
    description: Evidence by host, one record each.
    type: dict
    required: true
extends_documentation_fragment: muster.cluster.fleet
attributes:
  check_mode:
    description: Draws nobody, because nothing of what is examined in check mode is kept.
    support: full
"""

EXAMPLES = r"""
- name: Draw the nodes to be judged here too
  muster.cluster.draw:
    fleet: "{{ muster_fleet }}"
    stage: preflight
    evidence: "{{ muster_preflights }}"
  run_once: true
  register: muster_drawn
"""

RETURN = r"""
seed:
  description: What the draw came from.
  returned: success
  type: str
  sample: 6f1c0f0e6f0e4f6f9c4a5b1d2e3f4a5b
drawn:
  description: What is to be fetched of each node that was drawn, as M(muster.cluster.raw_output_info) takes it.
  returned: success
  type: list
  elements: dict
  sample: [{node: gpu-02, stage: preflight, id: 0f6e2f6c-0b55-4f0e-9d2d-bf5d4a3f9f0e, places: [raw]}]
"""
