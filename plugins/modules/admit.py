#!/usr/bin/python
"""Documentation of the action ``admit``, which does all of its work on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: admit
short_description: Judge nodes and open the gate for those that passed
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Imports the preflight evidence of this run into the ledger and judges every targeted node by the newest evidence of
    each stage. A node is admitted only if every required part passed, with fresh evidence about the node as it is now.
    A node that was unreachable or not examined in this run is C(testing).
  - Closes the gate first, commits the ledger, and opens the gate last. So a killed run leaves no node open that the
    ledger does not admit, and the next run continues.
  - Stops without changes if the ledger is missing, belongs to another fleet, or is older than the gate.
  - Limits closures without a reason of the node itself to C(policy.close_limit_percent) of a partition's open nodes;
    one node is always allowed. Beyond that, only nodes with a measured fault or an operator's decision, or that Slurm
    lost too, are closed and recorded, no node is opened, and the task fails.
  - A node in service whose hardware class changed in the fleet file is C(testing) until it passes as that class.
  - A node in service, targeted or not, that its own health check drained for a fault (C(muster:health:...) in Slurm)
    becomes C(quarantined), a decision of C(health) that an operator releases.
  - If C(policy.heartbeat_seconds) is set, a node is admitted only if its health check passed in this run, and stays in
    service only while Slurm runs that check.
  - Nodes that Slurm keeps down because they rebooted, and nodes that Muster's own checks drained, are resumed when
    their preflight of this run passed, as described for M(muster.cluster.slurm_gate).
  - Run it once, delegated to the controller.

options:
  nodes:
    description:
      - Names of the nodes to judge, reachable or not. Only these are opened. Every other node keeps its state, unless
        the ledger has a fault of it that nobody judged, or the fleet file no longer has it.
      - With an empty list the gate is updated from the ledger and nothing is judged.
    type: list
    elements: str
    required: true
  evidence:
    description:
      - This run's preflight evidence by node, one record or a list of them. Evidence that the ledger already has is
        accepted; evidence of another stage is not.
    type: dict
    default: {}
  health:
    description: Result of each examined node's health check, as returned by C(node_check).
    type: dict
    default: {}
  stopped:
    description: Nodes on which a task of this run failed, with the reason; empty if it is unknown.
    type: dict
    default: {}
  unreachable:
    description: Nodes that this run could not reach.
    type: list
    elements: str
    default: []
  close_only:
    description:
      - Close the gate for admitted nodes whose evidence is no longer valid after this run's preflight; open no node and
        keep every other state. Used after preflight, before long tests.
    type: bool
    default: false
  allow_mass_close:
    description: Close any number of nodes.
    type: bool
    default: false
  trust_ledger:
    description:
      - The operator's word that the ledger is the newest copy. Asked for where the ledger has a history and neither a
        gate file nor this control machine can tell how far it had come, as after the loss of both.
    type: bool
    default: false
extends_documentation_fragment: muster.cluster.fleet
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
  description:
    - One verdict per targeted node. C(stage) is the one that decided, empty for an operator's decision.
    - C(findings) are those that did not pass. Those that did are in the ledger, in the records named in C(evidence).
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
      evidence: [0b0e7d1e-6f0c-4d4e-9a51-1f6f6b0c2a11, 6a3f3d52-8d0b-4a58-93f4-0c7b0a3b5e77]
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
