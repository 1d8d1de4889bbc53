#!/usr/bin/python
"""Documentation of the action ``rejudge``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rejudge
short_description: Hold the findings of drawn nodes against their raw outputs
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Judges the raw outputs of the nodes that M(muster.cluster.draw) drew by the checks of the control machine. Their
    digests must be those of the evidence, and findings, measured values and parts those that the node gave.
  - A difference is a finding C(rejudged) with verdict C(fail). Outputs that are not there are C(incomplete). Either is
    recorded as further evidence of that stage and node, by which admission judges it.
  - Needs no connection to the host. Run it once for all nodes.

options:
  stage:
    description: Stage of the evidence.
    type: str
    choices: [preflight, burn_in]
    required: true
  evidence:
    description: Evidence by host, one record each, as M(muster.cluster.draw) had it.
    type: dict
    required: true
  drawn:
    description: Result of M(muster.cluster.draw).
    type: dict
    required: true
  fetched:
    description: Results of M(muster.cluster.raw_output_info) on the drawn nodes, with the drawn ones as C(item).
    type: list
    elements: dict
    default: []
extends_documentation_fragment: muster.cluster.fleet
attributes:
  check_mode:
    description: Nobody was drawn then, and nothing is done.
    support: full
"""

EXAMPLES = r"""
- name: Hold their findings against their raw outputs
  muster.cluster.rejudge:
    fleet: "{{ muster_fleet }}"
    stage: preflight
    evidence: "{{ muster_preflights }}"
    drawn: "{{ muster_drawn }}"
    fetched: "{{ muster_raw_outputs.results }}"
  run_once: true
  register: muster_rejudged
"""

RETURN = r"""
outcomes:
  description: C(agrees) or what does not, by node.
  returned: success
  type: dict
  sample: {gpu-02: agrees}
evidence:
  description:
    - Records by which nodes that did not agree are judged, oldest first. Null where the ledger did not take them; the
      node then counts as not examined.
  returned: success
  type: dict
  sample: {gpu-03: [{format: 2, id: 0f6e2f6c, stage: preflight}, {format: 2, id: 5f1d3ab0, stage: preflight}]}
"""
