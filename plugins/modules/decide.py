#!/usr/bin/python
"""Documentation of the action ``decide``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: decide
short_description: Record an operator's decision about a node
version_added: 0.1.0
author: The Muster developers
description:
  - Records a decision, which stands above all evidence until it is released. The gate follows with the next
    M(muster.cluster.admit). Waits for one that is under way.
  - Needs no connection to the host.

options:
  fleet:
    description: The fleet, C(muster_fleet).
    type: dict
    required: true
  node:
    description: Name of a compute node.
    type: str
    required: true
  decision:
    description: What the node is to be; V(release) leaves it to its evidence again.
    type: str
    choices: [quarantined, spare, retired, release]
    required: true
  reason:
    description: Why, for those who come later.
    type: str
    required: true
attributes:
  check_mode:
    description: Tells the transition that would be made.
    support: full
"""

EXAMPLES = r"""
- name: Take a node out of service
  muster.cluster.decide:
    fleet: "{{ muster_fleet }}"
    node: gpu-03
    decision: quarantined
    reason: fan tray, ticket 4711
"""

RETURN = r"""
state:
  description: The node's state now.
  returned: success
  type: str
  sample: quarantined
transition:
  description: The transition that was recorded, if any.
  returned: success
  type: dict
  sample: {node: gpu-03, from_state: admitted, to_state: quarantined, cause: "jo@control: quarantined: fan tray"}
"""
