#!/usr/bin/python
"""Documentation of the action ``admit``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: admit
short_description: Judge nodes and open the gate for those that passed
version_added: 0.1.0
author: The Muster developers
description:
  - Imports this run's preflight evidence into the ledger and judges every targeted node by the evidence of each stage
    that came last. Only passes on every required part, fresh and about the node as it is now, admit a node; a node that
    was unreachable or not examined in this run is C(testing).
  - Closes the gate first, commits the ledger, and opens the gate last, so that a run killed at any point leaves no node
    open that the ledger does not admit; the next run carries on.
  - Stops and changes nothing where the ledger is missing, another's, or older than the one the gate was rendered from.
  - Closes no node without a reason of its own where that would be more than C(policy.close_limit_percent) of a
    partition's open nodes, and at least two; then only nodes with a measured fault, an operator's decision, or that
    Slurm lost too are closed and recorded, none is opened, and the task fails.
  - A node in service whose hardware class changed in the fleet file is C(testing) until it is proven as that.
  - A node in service, targeted or not, that its own health check drained for a fault (C(muster:health:...) in Slurm)
    becomes C(quarantined), a decision of C(health) that an operator releases.
  - Where C(policy.heartbeat_seconds) is set, only a node whose health check passed in this run is admitted, and only
    one on which Slurm runs it stays in service.
  - Nodes that Slurm keeps down because they rebooted, and nodes that Muster's own checks drained, come back when their
    preflight of this run passed, as described for M(muster.cluster.slurm_gate#module).
  - Run it once, delegated to the controller.

options:
  fleet:
    description: The fleet, C(muster_fleet).
    type: dict
    required: true
  nodes:
    description:
      - Names of the nodes to judge, reachable or not. Every other node keeps its state.
      - With an empty list the gate is reconciled with the ledger and nothing is judged.
    type: list
    elements: str
    required: true
  evidence:
    description:
      - This run's preflight evidence by node, one record or a list of them. What the ledger has already may be given
        again; of another stage nothing is accepted.
    type: dict
    default: {}
  health:
    description: What C(node_check) said of each examined node's health check, by node.
    type: dict
    default: {}
  stopped:
    description: Nodes that a task of this run failed on, and the reason, empty where it is not known.
    type: dict
    default: {}
  unreachable:
    description: Nodes that this run could not reach.
    type: list
    elements: str
    default: []
  close_only:
    description:
      - Close the gate for admitted nodes that are no longer so by this run's evidence; open none and leave every other
        state as it is. For the moment after preflight, before long tests.
    type: bool
    default: false
  allow_mass_close:
    description: Close as many nodes as the verdicts say.
    type: bool
    default: false
attributes:
  check_mode:
    description: Returns the verdicts and what would be opened and closed; ledger and gate stay as they are.
    support: full
  diff_mode:
    description: Shows the gate's file.
    support: full
"""

EXAMPLES = r"""
- name: Admit
  muster.cluster.admit:
    fleet: "{{ muster_fleet }}"
    nodes: "{{ ansible_play_hosts_all }}"
    # The host's registered result of node_check is called preflight here.
    evidence: >-
      {{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, ['preflight', 'evidence']))) }}
    unreachable: "{{ ansible_play_hosts_all | difference(ansible_play_hosts) }}"
    allow_mass_close: "{{ admit_allow_mass_close }}"
  delegate_to: "{{ muster_fleet.controller }}"
  run_once: true
"""

RETURN = r"""
verdicts:
  description: One verdict per targeted node. C(stage) is the one that decided, empty for an operator's decision.
  returned: always
  type: list
  elements: dict
  sample:
    - node: gpu-03
      state: rejected
      stage: burn_in
      findings:
        - {check: gpu_inventory, subject: "gpu SXM5 0000:ab:00.0", verdict: fail, measured: missing, expected: present,
           unit: "", reason: not listed by nvidia-smi, action: reboot}
transitions:
  description: Changes of state recorded in the ledger.
  returned: always
  type: list
  elements: dict
  sample: [{node: gpu-03, from_state: admitted, to_state: rejected, cause: "burn_in: gpu_inventory ..."}]
opened:
  description: Nodes for which the gate was opened.
  returned: always
  type: list
  elements: str
  sample: [gpu-01]
closed:
  description: Nodes for which the gate was closed.
  returned: always
  type: list
  elements: str
  sample: [gpu-03]
generation:
  description: The ledger's generation, which the gate's file carries.
  returned: always
  type: int
  sample: 12
"""
