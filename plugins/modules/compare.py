#!/usr/bin/python
"""Documentation of the action plugin of the same name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: compare
short_description: Compare the acceptance measurements of two fleets
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Compares the measurements of two fleets, such as a RoCE and an InfiniBand cluster. Each row has, for a collective,
    number of nodes, distance and size, both medians, their ratio, the spread and the number of measurements.
  - A difference counts if it exceeds the larger of both spreads.
  - Prints a table and writes C(compare.json) and C(compare.html), a page that loads nothing and runs nothing.
  - Refuses fleets that have no hardware class in common, and one without measurements.
  - Never reports a change, contacts no host, and writes nothing in check mode.
options:
  left:
    description:
      - Left side. A fleet file (C(*.fleet.yml)), whose ledger is read, or the C(acceptance.json) that
        M(muster.cluster.report) wrote for a fleet at another place.
      - From a ledger it takes the campaign with the most nodes of a class, and the newest of several.
    type: path
    required: true
  right:
    description: Right side, as O(left).
    type: path
    required: true
  dest:
    description: Directory on the control machine; created if it is missing.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Compare two fleets
  muster.cluster.compare:
    left: east.fleet.yml
    right: west/acceptance.json
    dest: build/compare
"""

RETURN = r"""
comparison:
  description: The comparison as in the file.
  returned: success
  type: dict
  sample:
    left: east
    right: west
    notes: []
    rows:
      - hardware_class: hgx_h100
        collective: all_reduce
        nodes: 4
        distance: ""
        size_bytes: 1073741824
        left_ns: 5802000.0
        right_ns: 5511000.0
        ratio: 1.0528
        spread: 0.011
        differs: true
        n: [58, 58]
comparison_file:
  description: Path of the comparison as JSON; in check mode the one that would have been written.
  returned: success
  type: str
  sample: /srv/cluster/build/compare/compare.json
page_file:
  description: Path of the page; in check mode the one that would have been written.
  returned: success
  type: str
  sample: /srv/cluster/build/compare/compare.html
"""
