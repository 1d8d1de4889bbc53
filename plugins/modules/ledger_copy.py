#!/usr/bin/python
"""Documentation of the action ``ledger_copy``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ledger_copy
short_description: Save a cluster's ledger to a file, or make it again from one
version_added: 0.1.0
author: The Muster developers
description:
  - V(saved) copies the ledger as of one moment while others write to it, by SQLite's own means or C(pg_dump).
  - V(restored) makes a ledger that is missing from its copy. One that is there is left as it is.
options:
  fleet:
    description: The fleet, C(muster_fleet).
    type: dict
    required: true
  directory:
    description: Where the copy is, C(ledger.sqlite) or C(ledger.dump).
    type: path
    required: true
  state:
    description: What is wanted.
    type: str
    choices: [saved, restored]
    required: true
attributes:
  check_mode:
    description: Tells whether a ledger would be made.
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
  description: The copy.
  returned: success
  type: str
  sample: /srv/backup/lab/ledger.sqlite
"""
