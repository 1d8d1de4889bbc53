#!/usr/bin/python
"""Documentation of the action plugin of the same name, which does the work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: burn_in_ramp
short_description: Plan which burn-ins start now, and when
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Gives each due node its turn, by C(policy.burn_in) of the fleet. In each feed one rack starts after the other,
    C(ramp_seconds) apart, and the nodes of a rack evenly within. All feeds start side by side.
  - With C(kilowatts) only as many start as a rack, a feed and the site may feed. Counted is the C(power) of the class
    of every node under burn-in. These are the nodes that say so in this run, those of which the ledger has an
    unfinished burn-in, and those for which an earlier run has planned one. The last two count no longer than their plan
    may take. The nodes that start are written down in the ledger first.
  - No node starts on a feed where a node under burn-in has found its inlet too warm in the last 15 minutes.
  - Runs on the control machine. M(muster.cluster.burn_in_job) waits for the turn.
options:
  due:
    description: Nodes on which burn-in is due, in any order.
    type: list
    elements: str
    default: []
  brought:
    description: Burn-in evidence that this run's examination collected, by node, oldest first.
    type: dict
    default: {}
  not_started:
    description: Nodes for which a burn-in was planned and not started. What they were to draw is free again.
    type: list
    elements: str
    default: []
extends_documentation_fragment: muster.cluster.fleet
attributes:
  check_mode:
    description: Plans and writes nothing down.
    support: full
"""

EXAMPLES = r"""
- name: Plan the ramp
  muster.cluster.burn_in_ramp:
    fleet: "{{ muster_fleet }}"
    due: [gpu-01, gpu-02]
  run_once: true
  register: ramp
"""

RETURN = r"""
turns:
  description:
    - By node C(feed), C(after_seconds) (after the first host of the batch), C(running) (a run is under way there),
      C(waits) (why it does not start in this run, or empty) and C(starting) (how many nodes of the feed start).
  returned: success
  type: dict
  sample: {gpu-01: {feed: feed feed-a, after_seconds: 0, running: false, waits: "", starting: 1}}
order:
  description: The nodes in the order of their turns, those that wait last.
  returned: success
  type: list
  elements: str
  sample: [gpu-01]
"""
