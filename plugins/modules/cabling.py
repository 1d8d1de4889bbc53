#!/usr/bin/python
"""Documentation of the action plugin of the same name, which does the work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cabling
short_description: Compare the live fabric with the cabling plan
description:
  - Derives the plan, with both ends of every cable, from the fleet file, and compares it with what hosts show of the
    live fabric. Reports each fault once, with both ends as in the plan.
  - Finds swapped pairs, crossed rails, wrong leaves and ports, dead, missing, narrow, slow and erroneous links, missing
    and additional hosts, switches and cables.
  - Fails unless every checked cable is as planned. Unreadable or truncated output never counts as a match.
  - Writes C(plan.csv) for the people who install the cables and, after a comparison, C(report.json). Runs on the
    control machine.
options:
  infiniband:
    description:
      - Results of C(ibnetdiscover -p) (or C(ibnetdiscover)), C(iblinkinfo -l) and
        C(ibqueryerrors --threshold-file /dev/null) run by P(ansible.builtin.command#module), under these three names.
    type: dict
  lldp:
    description: Result of M(muster.cluster.lldp_neighbors_info) by host.
    type: dict
  others:
    description: Patterns of hosts and switches that are in the fabric without a planned cable.
    type: list
    elements: str
    default: []
  dest:
    description: Directory of the files on the control machine.
    type: path
    required: true
extends_documentation_fragment: muster.cluster.fleet
attributes:
  check_mode:
    description: Compares and writes nothing.
    support: full
notes:
  - Without O(infiniband) and O(lldp) it only writes the plan.
author: The Muster developers (@muster-cluster)
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
  description: V(pass), V(fail) or V(incomplete), the worst result of the comparison.
  returned: after a comparison
  type: str
  sample: pass
msg:
  description: One line for each fault and for each incomplete result.
  returned: after a comparison
  type: str
  sample: 8192 cables planned, 0 faults
files:
  description: Paths of the written files.
  returned: always
  type: list
  elements: str
  sample: [/srv/muster/build/cabling/plan.csv]
"""
