#!/usr/bin/python
"""Documentation of the action plugin of the same name, which does the work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_check
short_description: Validates the declared fleet
description:
  - Fails with file, key, what was found and what was expected unless the variable C(muster_fleet) is a valid
    declaration.
  - The inventory plugin P(muster.cluster.fleet#inventory) has validated its file already. This is for a fleet that a
    plain YAML inventory declares.
  - Runs on the control machine; no host is touched and nothing is changed.
options:
  fleet:
    description: The variable C(muster_fleet).
    type: dict
    required: true
  name:
    description: What errors call the declaration, such as the file it is in.
    type: str
    default: muster_fleet
attributes:
  check_mode:
    description: Does the same in check mode.
    support: full
author: The Muster developers
"""

EXAMPLES = r"""
- name: Validate the declared fleet
  hosts: controller
  gather_facts: false
  tasks:
    - name: Validate the declared fleet
      muster.cluster.fleet_check:
        fleet: "{{ muster_fleet }}"
"""

RETURN = r"""
hosts:
  description: Number of declared hosts.
  returned: success
  type: int
  sample: 5
"""
