#!/usr/bin/python
"""Documentation of the action ``ledger_guard``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ledger_guard
short_description: Stop unless the ledger can be trusted
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Opens the ledger and compares it with the gate file on the controller. Fails if the ledger is missing, empty, not a
    ledger, that of another fleet, or older than the gate.
  - Brings a ledger that an older Muster wrote to the present schema, and keeps a copy of SQLite's file beside it.
  - Warns if the controller does not answer, because it may not be provisioned yet.
  - Run it once, delegated to the controller, before anything else.

options:
  trust_ledger:
    description:
      - The operator's word that the ledger is the newest copy. Asked for where the ledger has a history and neither a
        gate file nor this control machine can tell how far it had come, as after the loss of both.
    type: bool
    default: false
extends_documentation_fragment: muster.cluster.fleet
attributes:
  check_mode:
    description: Upgrades no ledger; one that is too old is an error.
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
  description: Number of nodes in the ledger.
  returned: success
  type: int
  sample: 4
compared:
  description: Whether the controller answered.
  returned: success
  type: bool
  sample: true
"""
