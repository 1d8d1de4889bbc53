#!/usr/bin/python
"""Documentation of the action plugin of the same name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: switch_sheets
short_description: Write the hand-over sheets of RoCE switches
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Writes, for each declared switch, the configuration that follows from the declaration in the words of its system
    (SONiC, Cumulus Linux with NVUE, Arista EOS), and one summary of what hosts and switches have to agree on.
  - What a switch needs and the declaration does not say is marked as C(GAP) at the top of its sheet.
  - Runs on the control machine and reaches no switch.
options:
  fleet:
    description: The fleet, as the inventory gives it in C(muster_fleet). Its fabric has to be RoCE.
    type: dict
    required: true
  switches:
    description: The names of the switches to write sheets of; empty writes those of all.
    type: list
    elements: str
    default: []
  dest:
    description: Directory on the control machine; created if it is missing. Files whose text changed are replaced.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Write the switch hand-over sheets
  muster.cluster.switch_sheets:
    fleet: "{{ muster_fleet }}"
    dest: build/handover
"""

RETURN = r"""
files:
  description: Number of files, the summary among them.
  returned: success
  type: int
  sample: 1708
changed_files:
  description: Names of the files that were new or changed.
  returned: success
  type: list
  sample: [tor-0001.txt, handover.md]
directory:
  description: Path of the directory.
  returned: success
  type: str
  sample: /srv/cluster/build/handover
"""
