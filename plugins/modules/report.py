#!/usr/bin/python
"""Documentation of the action plugin of the same name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Write the verdicts as JSON and as an HTML page, and print them as a table
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Writes C(verdicts.json) and C(report.html) into a directory of the control machine and prints one line per node.
  - The page loads nothing and runs nothing, so it can be sent to a vendor. Nodes that need an action come first, with
    measured and expected value and action. Evidence, serial numbers and versions follow.
  - If the ledger has acceptance rounds of these nodes, the page shows their measurements (heat map of pairs, curves by
    rail and distance, timeline), and C(acceptance.json) contains them for M(muster.cluster.compare). Plots need
    matplotlib; without it the page states that they are missing.
  - Evidence is read from the ledger. Text that came from hosts is escaped.
  - Never reports a change, and writes nothing in check mode.
options:
  verdicts:
    description:
      - The verdicts that M(muster.cluster.admit) returned.
      - Each has C(node), C(state), C(stage), C(findings), and in C(evidence) the ids of the records that it was judged
        by; their other findings are read from the ledger.
    type: list
    elements: dict
    required: true
  fleet:
    description:
      - The fleet, as the inventory gives it in C(muster_fleet). Its C(cluster), C(nodes) and C(ledger) are used.
      - The latency profile of C(policy) and the kind of C(fabric) are used if present.
      - If it declares C(storage.checkpoint), the page ends with the plan of M(muster.cluster.storage_plan).
    type: dict
    required: true
  dest:
    description:
      - Directory on the control machine; created if it is missing.
      - Each file is replaced as a whole.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Write the report
  muster.cluster.report:
    verdicts: "{{ verdicts }}"
    fleet: "{{ muster_fleet }}"
    dest: build/report
  run_once: true
"""

RETURN = r"""
states:
  description: Number of nodes in each state.
  returned: success
  type: dict
  sample: {admitted: 2, rejected: 2}
verdicts_file:
  description: Path of the verdicts; in check mode the one that would have been written.
  returned: success
  type: str
  sample: /srv/cluster/build/report/verdicts.json
report_file:
  description: Path of the page; in check mode the one that would have been written.
  returned: success
  type: str
  sample: /srv/cluster/build/report/report.html
acceptance_file:
  description: Path of the acceptance measurements; null if the ledger has none; not written in check mode.
  returned: success
  type: str
  sample: /srv/cluster/build/report/acceptance.json
"""
