#!/usr/bin/python
"""Documentation of the action ``ledger_copy``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ledger_copy
short_description: Save a cluster's ledger to a file, or restore it
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - V(saved) writes a consistent copy of the ledger while others write to it, with SQLite's backup or C(pg_dump).
  - V(restored) creates a missing ledger from its copy. An existing ledger is not changed.
options:
  directory:
    description: Directory of the copy, C(ledger.sqlite) or C(ledger.dump).
    type: path
    required: true
  state:
    description: Wanted state.
    type: str
    choices: [saved, restored]
    required: true
extends_documentation_fragment: muster.cluster.fleet
attributes:
  check_mode:
    description: Returns whether a ledger would be created.
    support: full
"""

EXAMPLES = r"""
- name: Save the ledger
  muster.cluster.ledger_copy:
    fleet: "{{ muster_fleet }}"
    directory: /srv/backup/lab
    state: saved
"""

RETURN = r"""
path:
  description: Path of the copy.
  returned: success
  type: str
  sample: /srv/backup/lab/ledger.sqlite
"""
