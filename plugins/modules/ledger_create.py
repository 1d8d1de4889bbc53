#!/usr/bin/python
"""Documentation of the action ``ledger_create``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ledger_create
short_description: Create a cluster's ledger once
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Creates the ledger that the fleet file names. An existing ledger is not changed.
  - Fails if the gate of the controller shows that there was a ledger, unless O(recreate) is set. Always fails if the
    controller does not answer.
  - Run it once, delegated to the controller.

options:
  recreate:
    description:
      - Create a new ledger although there was one; every node must be proven again. The new ledger continues the
        generation of the gate, so that copies of the lost ledger are recognised as older.
    type: bool
    default: false
extends_documentation_fragment: muster.cluster.fleet
attributes:
  check_mode:
    description: Returns whether a ledger would be created.
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
