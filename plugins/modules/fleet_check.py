#!/usr/bin/python
"""Documentation of the action plugin of the same name, which does the work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_check
short_description: Validate the declared fleet
description:
  - Fails unless the variable C(muster_fleet) is a valid declaration. The error names file, key, found and expected
    value.
  - The inventory plugin P(muster.cluster.fleet#inventory) validates its own file. This module is for a fleet that a
    plain YAML inventory declares.
  - Runs on the control machine. Contacts no host and changes nothing.
options:
  name:
    description: Name of the declaration in errors, such as its file.
    type: str
    default: muster_fleet
extends_documentation_fragment: muster.cluster.fleet
attributes:
  check_mode:
    description: Works the same in check mode.
    support: full
author: The Muster developers (@muster-cluster)
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
weaker:
  description:
    - In what nodes are asked less than by the policy and the classes that come with Muster. The report and the verdicts
      say it too. A floor so low that nodes which are all slow pass is a warning.
  returned: success
  type: list
  elements: str
  sample: [stage acceptance is not required]
"""
