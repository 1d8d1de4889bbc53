#!/usr/bin/python
"""Module slurm_gate: user partitions that list the admitted nodes only, in Slurm's file and in its controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_gate
short_description: Reconcile Slurm's user partitions with a ledger
version_added: 0.1.0
author: The Muster developers
description:
  - Runs on the Slurm controller. Writes the file of user partitions that C(slurm.conf) includes, which is what a
    controller that restarts believes, and brings the running controller to the same nodes with C(scontrol).
  - Nodes are closed first, in the file and then live. Drains that were lost with Slurm's state are restored next.
    Nodes are opened last; when file or controller do not follow, the opening is undone. What the controller lists is
    read back.
  - Nothing is changed when the file was rendered from another ledger or from a newer copy of this one.
  - When the controller does not answer, nodes are closed in the file, none is opened, and the task fails; it succeeds
    with RV(live=false) only if nothing is open and nothing is to be opened.
  - At every write what Slurm saved of its partitions is dropped. A standby controller that takes over would restore
    them from there, and reopen a node that the file closes.
  - Jobs that run on a node go on when it is closed, unless O(leaving_jobs) says otherwise.
attributes:
  check_mode: {support: full, description: Says what would change and changes nothing.}
  diff_mode: {support: full, description: Shows the file before and after.}
options:
  partitions:
    description: All user partitions; one that the file has and this list lacks is removed.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the partition., type: str, required: true}
      default: {description: Whether jobs that name no partition go here., type: bool, default: false}
      nodes: {description: The nodes to be open; none closes the partition., type: list, elements: str, required: true}
      hardware_classes: {description: Ignored; a fleet's partition may be given as it is., type: list, elements: str}
      parameters: {description: Further C(slurm.conf) keys of the partition., type: dict, default: {}}
  ledger_id: {description: The ledger from which the partitions come., type: str, required: true}
  generation:
    description: The ledger's generation. A newer one alone is written to the file and does not count as a change.
    type: int
    required: true
  drains:
    description: Reason by node of the manual drains that the ledger knows.
    type: dict
    default: {}
  resume:
    description:
      - By node whose preflight of this run passed, C(boot_id) of the boot it looked at, C(began) (seconds since the
        epoch), C(in_service), whether users can reach the node, and C(healthy), whether its health check passed.
      - Such a node comes back if it is down because Slurm found it rebooted, or drained by Muster's own checks for a
        boot (C(muster:boot:)), or, if it is healthy, for want of a measurement (C(muster:incomplete:)). If it is not in
        service, a drain for want of a measurement goes in any case, and one for a fault (C(muster:health:)) if it is
        healthy, so that the node can be tested. Slurm has to have seen that boot, and the drain has to be older than
        the preflight, unless it names that very boot.
      - A node that a person or Slurm drained, or of which no reason is known, never does.
    type: dict
    default: {}
  leaving_jobs:
    description:
      - What becomes of jobs that run in a user partition on a node which is not open there.
      - V(end) puts them back into the queue, from where they start elsewhere, and cancels those that cannot be started
        again.
    type: str
    choices: [finish, end]
    default: finish
  adopt:
    description: Replace a file of another ledger, of a newer generation, or one that cannot be read.
    type: bool
    default: false
  path: {description: The included file., type: path, default: /etc/slurm/muster_partitions.conf}
  state_save_location:
    description:
      - Slurm's C(StateSaveLocation). A marker kept there goes with Slurm's state, and tells so that drains were lost
        and not lifted. C(slurmctld -c) forgets drains and leaves the marker; they count as lifted then.
    type: path
    default: /var/lib/slurm/slurmctld
  timeout_seconds: {description: Time limit of one C(scontrol)., type: float, default: 60}
seealso:
  - module: muster.cluster.slurm_gate_info
"""

EXAMPLES = r"""
- name: Open batch for the nodes that passed
  muster.cluster.slurm_gate:
    ledger_id: 6f1d7a52-9b0e-4c58-8f3e-2d5c1b7a9e04
    generation: 12
    partitions:
      - {name: batch, default: true, nodes: [gpu-01, gpu-02], parameters: {MaxTime: "7-00:00:00"}}
    drains:
      gpu-04: waits for a new cable
"""

RETURN = r"""
opened: {description: Nodes that were opened by partition., returned: always, type: dict, sample: {batch: [gpu-02]}}
closed: {description: Nodes that were closed by partition., returned: always, type: dict, sample: {batch: [gpu-03]}}
live: {description: Whether the controller answered., returned: always, type: bool, sample: true}
drains_found:
  description: Drains that are not Muster's, after the restoring; empty also where the controller does not answer.
  returned: always
  type: list
  elements: dict
  sample: [{node: gpu-04, reason: waits for a new cable, user: root, time: "2026-11-20T10:02:27"}]
drains_restored: {description: Nodes drained again., returned: always, type: list, elements: str, sample: [gpu-04]}
drains_lifted:
  description: Nodes whose known drain somebody lifted.
  returned: always
  type: list
  elements: str
  sample: [gpu-01]
resumed:
  description: Nodes on which jobs are let again.
  returned: always
  type: list
  elements: str
  sample: [gpu-02]
jobs_ended:
  description: Jobs that were requeued or cancelled because their node left the partition.
  returned: always
  type: list
  elements: str
  sample: ["4711"]
slurm_state_lost:
  description: Whether Slurm's state was erased since the last call; null where the controller does not answer.
  returned: always
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.slurm import (
    GATE_FILE,
    STATE_SAVE_LOCATION,
    Care,
    Controller,
    Examined,
    Gate,
    GateError,
    GateFile,
    Partition,
)

PARTITION = {
    "name": {"type": "str", "required": True},
    "default": {"type": "bool", "default": False},
    "nodes": {"type": "list", "elements": "str", "required": True},
    "hardware_classes": {"type": "list", "elements": "str"},
    "parameters": {"type": "dict", "default": {}},
}
ARGUMENTS = {
    "partitions": {"type": "list", "elements": "dict", "options": PARTITION, "required": True},
    "ledger_id": {"type": "str", "required": True},
    "generation": {"type": "int", "required": True},
    "drains": {"type": "dict", "default": {}},
    "resume": {"type": "dict", "default": {}},
    "leaving_jobs": {"type": "str", "choices": ["finish", "end"], "default": "finish"},
    "adopt": {"type": "bool", "default": False},
    "path": {"type": "path", "default": GATE_FILE},
    "state_save_location": {"type": "path", "default": STATE_SAVE_LOCATION},
    "timeout_seconds": {"type": "float", "default": 60},
}


def main() -> None:
    """Reconcile the gate."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    try:
        examined = {name: Examined.from_params(name, data) for name, data in params["resume"].items()}
        gate = Gate(
            Controller(LocalHost(), params["timeout_seconds"]),
            params["path"],
            params["state_save_location"],
            Care(examined, params["leaving_jobs"] == "end"),
        )
        wanted = GateFile(
            params["ledger_id"],
            params["generation"],
            tuple(Partition.from_params(partition) for partition in params["partitions"]),
        )
        drains = {name: str(reason) for name, reason in params["drains"].items()}
        before = gate.text()
        result = gate.reconcile(wanted, drains, module.check_mode, params["adopt"])
    except GateError as exc:
        module.fail_json(msg=str(exc), **exc.result)
    if result["changed"]:
        result["diff"] = {
            "before_header": str(gate.path),
            "after_header": str(gate.path),
            "before": before,
            "after": wanted.render() if result["live"] else gate.text(),
        }
    module.exit_json(**result)


if __name__ == "__main__":
    main()
