#!/usr/bin/python
"""Documentation of the action ``ledger_create``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ledger_create
short_description: Make a cluster's ledger, once
version_added: 0.1.0
author: The Muster developers
description:
  - Makes the ledger that the fleet file names. A ledger that is there already is left as it is.
  - Fails where the controller's gate says that there has been a ledger, unless O(recreate) is set, and in any case
    where the controller cannot be asked.
  - Run it once, delegated to the controller.

options:
  fleet:
    description: The fleet, C(muster_fleet).
    type: dict
    required: true
  recreate:
    description:
      - Make a new ledger although there has been one; every node has to be proven again. It counts on from the gate's
        generation, so that no copy of the lost ledger is taken for one of the new.
    type: bool
    default: false
attributes:
  check_mode:
    description: Tells whether a ledger would be made.
    support: full
"""

EXAMPLES = r"""
- name: Make the ledger
  muster.cluster.ledger_create:
    fleet: "{{ muster_fleet }}"
  delegate_to: "{{ muster_fleet.controller }}"
  run_once: true
"""

RETURN = r"""
id:
  description: The ledger's id.
  returned: success
  type: str
  sample: 6a7c2a53-2a4c-4a55-9f7c-0b8a2e3f1c11
"""
