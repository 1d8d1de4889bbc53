#!/usr/bin/python
"""Module slurm_gate: user partitions that list the admitted nodes only, in Slurm's file and in its controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_gate
short_description: Reconcile Slurm's user partitions with a ledger
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Runs on the Slurm controller. Writes the file of user partitions that C(slurm.conf) includes, which a
    restarted controller reads, and sets the same nodes in the running controller with C(scontrol).
  - Closes nodes first, in the file and then in the controller. Then restores drains that were lost with Slurm's state.
    Opens nodes last; if file or controller fail, the opening is reverted. The result in the controller is read back.
  - Changes nothing if the file was written from another ledger or from a newer copy of this one.
  - If the controller does not answer, nodes are closed in the file, no node is opened, and the task fails. It succeeds
    with RV(live=false) only if nothing is open and nothing is to be opened.
  - Every write drops the partitions that Slurm saved. A backup controller that takes over would restore them, and
    reopen a node that the file closes.
  - Running jobs continue when their node is closed, unless O(leaving_jobs) is V(end).
  - With O(close), only takes nodes out of the partitions that the file has. This needs no ledger, and no answer of
    Slurm has to be readable. The task fails where a node may still be open, such as where the controller does not
    answer; the file is written all the same. Jobs continue.
attributes:
  check_mode: {support: full, description: Shows what would change and changes nothing.}
  diff_mode: {support: full, description: Shows the file before and after.}
options:
  partitions:
    description: All user partitions; one that the file has and this list lacks is removed. Required without O(close).
    type: list
    elements: dict
    suboptions:
      name: {description: Name of the partition., type: str, required: true}
      default: {description: Whether this is the default partition of jobs., type: bool, default: false}
      nodes: {description: The nodes to be open; none closes the partition., type: list, elements: str, required: true}
      hardware_classes: {description: Ignored; allows to pass a fleet's partition as it is., type: list, elements: str}
      parameters: {description: Additional C(slurm.conf) keys of the partition., type: dict, default: {}}
  ledger_id: {description: The ledger from which the partitions come. Required with O(partitions)., type: str}
  generation:
    description:
      - Generation of the ledger. A newer generation alone is written, but does not count as a change. Required with
        O(partitions).
    type: int
  close:
    description:
      - Nodes to take out of every partition of the file and of the running controller. Ledger and generation of the
        file stay. Nothing is opened, drained or resumed.
    type: list
    elements: str
  drains:
    description: Reasons of the manual drains in the ledger, by node.
    type: dict
    default: {}
  resume:
    description:
      - By node whose preflight of this run passed, C(boot_id) of the boot it looked at, C(began) (seconds since the
        epoch), C(in_service), whether users can reach the node, C(healthy), whether its health check passed, and
        C(burned_in), whether no burn-in is due.
      - Such a node comes back if it is down because Slurm found it rebooted, or drained by Muster's own checks for a
        boot (C(muster:boot:)), or, if it is healthy, for want of a measurement (C(muster:incomplete:)). If it is not in
        service, a drain for want of a measurement goes in any case, and one for a fault (C(muster:health:)) if it is
        healthy, so that the node can be tested. A drain for a burn-in goes when none is due any more. Slurm has to have
        seen that boot, and the drain has to be older than the preflight, unless it names that very boot.
      - A node that a person or Slurm drained, or of which no reason is known, never does.
    type: dict
    default: {}
  leaving_jobs:
    description:
      - What happens to jobs of a user partition on a node that is not open there.
      - V(end) requeues them, so that they start elsewhere, and cancels jobs that cannot be requeued.
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
      - Slurm's C(StateSaveLocation). A marker there is lost together with Slurm's state, and so shows that drains were
        lost and not lifted. C(slurmctld -c) forgets drains and leaves the marker; they count as lifted then.
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

- name: Close a node, whatever the ledger says
  muster.cluster.slurm_gate:
    close: [gpu-04]
"""

RETURN = r"""
opened: {description: Opened nodes by partition., returned: always, type: dict, sample: {batch: [gpu-02]}}
closed: {description: Closed nodes by partition., returned: always, type: dict, sample: {batch: [gpu-03]}}
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
  description: Resumed nodes.
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
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import GATE_FILE, GateFile, Partition
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_plan import Examined, NodeHandling
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import SlurmGateError
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_controller import TIMES, Controller
from ansible_collections.muster.cluster.plugins.module_utils.slurm.user_gate import STATE_SAVE_LOCATION, Gate

PARTITION = {
    "name": {"type": "str", "required": True},
    "default": {"type": "bool", "default": False},
    "nodes": {"type": "list", "elements": "str", "required": True},
    "hardware_classes": {"type": "list", "elements": "str"},
    "parameters": {"type": "dict", "default": {}},
}
ARGUMENTS = {
    "partitions": {"type": "list", "elements": "dict", "options": PARTITION},
    "ledger_id": {"type": "str"},
    "generation": {"type": "int"},
    "close": {"type": "list", "elements": "str"},
    "drains": {"type": "dict", "default": {}},
    "resume": {"type": "dict", "default": {}},
    "leaving_jobs": {"type": "str", "choices": ["finish", "end"], "default": "finish"},
    "adopt": {"type": "bool", "default": False},
    "path": {"type": "path", "default": GATE_FILE},
    "state_save_location": {"type": "path", "default": STATE_SAVE_LOCATION},
    "timeout_seconds": {"type": "float", "default": 60},
}


def main() -> None:
    """Reconcile the gate, or close nodes."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        mutually_exclusive=[("partitions", "close")],
        required_one_of=[("partitions", "close")],
        required_by={"partitions": ("ledger_id", "generation")},
    )
    params = module.params
    try:
        examined = {name: Examined.from_params(name, data) for name, data in params["resume"].items()}
        gate = Gate(
            Controller(LocalHost(environment=TIMES), params["timeout_seconds"]),
            params["path"],
            params["state_save_location"],
            NodeHandling(examined, params["leaving_jobs"] == "end"),
        )
        before = gate.text()
        if params["close"] is not None:
            filed = gate.read()
            result = gate.close(params["close"], module.check_mode)
            after = filed.without(params["close"]).render() if filed else ""
        else:
            wanted = GateFile(
                params["ledger_id"],
                params["generation"],
                tuple(Partition.from_params(partition) for partition in params["partitions"]),
            )
            drains = {name: str(reason) for name, reason in params["drains"].items()}
            result = gate.reconcile(wanted, drains, module.check_mode, params["adopt"])
            after = wanted.render() if result["live"] else gate.text()
    except SlurmGateError as exc:
        module.fail_json(msg=str(exc), **exc.result)
    if result["changed"]:
        header = str(gate.path)
        result["diff"] = {"before_header": header, "after_header": header, "before": before, "after": after}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
