#!/usr/bin/python
"""Documentation of the action ``ledger_guard``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ledger_guard
short_description: Stop unless the ledger can be trusted
version_added: 0.1.0
author: The Muster developers
description:
  - Opens the ledger and compares it with the gate's file on the controller. Fails where the ledger is missing, empty,
    not a ledger, another's, or an older copy than the one the gate was rendered from.
  - A controller that does not answer is warned of, since it may be about to be provisioned.
  - Run it once, delegated to the controller, before anything else.

options:
  fleet:
    description: The fleet, C(muster_fleet).
    type: dict
    required: true
attributes:
  check_mode:
    description: It never changes anything.
    support: full
"""

EXAMPLES = r"""
- name: Guard the ledger
  muster.cluster.ledger_guard:
    fleet: "{{ muster_fleet }}"
  delegate_to: "{{ muster_fleet.controller }}"
  run_once: true
"""

RETURN = r"""
generation:
  description: The ledger's generation.
  returned: success
  type: int
  sample: 12
nodes:
  description: How many nodes the ledger knows.
  returned: success
  type: int
  sample: 4
compared:
  description: Whether the controller could be asked.
  returned: success
  type: bool
  sample: true
"""
