#!/usr/bin/python
"""Documentation of the action ``decide``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: decide
short_description: Record an operator's decision about a node
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Records a decision, which overrides all evidence until it is released. The next M(muster.cluster.admit) updates the
    gate. Waits for a running admission.
  - Needs no connection to the host.

options:
  node:
    description: Name of a compute node.
    type: str
    required: true
  decision:
    description: New decision; V(release) ends a decision, so that the evidence counts again.
    type: str
    choices: [quarantined, spare, retired, release]
    required: true
  reason:
    description: Reason, for later readers.
    type: str
    required: true
extends_documentation_fragment: muster.cluster.fleet
attributes:
  check_mode:
    description: Returns the transition that would be recorded.
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
  description: New state of the node.
  returned: success
  type: str
  sample: quarantined
transition:
  description: The transition that was recorded, if any.
  returned: success
  type: dict
  sample: {node: gpu-03, from_state: admitted, to_state: quarantined, cause: "jo@control: quarantined: fan tray"}
"""
