#!/usr/bin/python
"""Documentation of the action plugin of the same name, which does the work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cabling
short_description: Compares the live fabric with the cabling plan
description:
  - The fleet's declaration makes the plan, with both ends of every cable. What hosts printed of the live fabric is held
    against it. Each fault is told once, with both ends in the plan's terms.
  - Swapped pairs, crossed rails, a wrong leaf or port, dead, missing, narrow, slow and erring links, missing and extra
    hosts, switches and cables.
  - Fails unless every cable that was asked about is as planned. What cannot be read, or was cut short, is never taken
    for a match.
  - Writes C(plan.csv) for those who pull the cables and, after a comparison, C(report.json). Runs on the control
    machine.
options:
  fleet:
    description: The variable C(muster_fleet).
    type: dict
    required: true
  infiniband:
    description:
      - Results of C(ibnetdiscover -p) (or C(ibnetdiscover)), C(iblinkinfo -l) and
        C(ibqueryerrors --threshold-file /dev/null) run by P(ansible.builtin.command#module), under these three names.
    type: dict
  lldp:
    description: Result of M(muster.cluster.lldp_neighbors_info) by host.
    type: dict
  others:
    description: Patterns of hosts and switches that belong to the fabric although no cable of theirs is planned.
    type: list
    elements: str
    default: []
  dest:
    description: Directory of the files, on the control machine.
    type: path
    required: true
attributes:
  check_mode:
    description: Compares and writes nothing.
    support: full
notes:
  - With neither O(infiniband) nor O(lldp) it writes the plan and compares nothing.
author: The Muster developers
"""

EXAMPLES = r"""
- name: Write the cabling plan
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Write the cabling plan
      muster.cluster.cabling:
        fleet: "{{ muster_fleet }}"
        dest: build/cabling
"""

RETURN = r"""
cables:
  description: Number of planned cables.
  returned: always
  type: int
  sample: 8192
verdict:
  description: V(pass), V(fail) or V(incomplete), the worst of what the comparison found.
  returned: after a comparison
  type: str
  sample: pass
msg:
  description: One line for each fault, and for what could not be known.
  returned: after a comparison
  type: str
  sample: 8192 cables planned, 0 faults
files:
  description: Paths of what was written.
  returned: always
  type: list
  elements: str
  sample: [/srv/muster/build/cabling/plan.csv]
"""
