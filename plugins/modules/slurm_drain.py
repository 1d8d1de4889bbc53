#!/usr/bin/python
"""Module slurm_drain: keep jobs off the host it runs on while Muster changes it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_drain
short_description: Drain or resume this host in Slurm
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Runs on the compute node itself. A host without slurmd and without job steps needs no drain. If one of them runs,
    the Slurm controller must answer.
  - V(drained) drains the node and waits until no job is left. An existing drain is not changed, whoever set it.
  - V(resumed) lifts only a drain with the same O(reason), set by root or Slurm's user.
attributes:
  check_mode: {support: full, description: Shows what would change; does not wait.}
options:
  node: {description: Name of this host in Slurm., type: str, required: true}
  state: {description: Wanted state., type: str, choices: [drained, resumed], required: true}
  reason:
    description: Reason of the drain. One of the two by which Muster knows its own work; any other is a person's.
    type: str
    required: true
    choices:
      - "muster: boot restarts this node"
      - "muster: gpu_stack changes this node"
      - "muster: burn_in loads this node"
  wait_seconds:
    description:
      - How long to wait for jobs to end; 0 checks once. The node stays drained in any case.
      - With V(resumed), how long to wait for slurmd, which may be late after a reboot.
    type: float
    default: 0
  timeout_seconds: {description: Time limit of one C(scontrol)., type: float, default: 60}
seealso:
  - module: muster.cluster.slurm_gate
"""

EXAMPLES = r"""
- name: Keep jobs off while the driver changes
  muster.cluster.slurm_drain:
    node: gpu-01
    state: drained
    reason: "muster: gpu_stack changes this node"
    wait_seconds: 3600
"""

RETURN = r"""
slurm_state:
  description: State of the node in Slurm; empty on a host without Slurm.
  returned: always
  type: str
  sample: IDLE+DRAIN
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import poll, wait_until
from ansible_collections.muster.cluster.plugins.module_utils.slurm.drain_reason import AT_WORK
from ansible_collections.muster.cluster.plugins.module_utils.slurm.node_jobs import serves_slurm
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import NodeState, SlurmGateError
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_controller import Controller

ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["drained", "resumed"], "required": True},
    "reason": {"type": "str", "required": True, "choices": list(AT_WORK)},
    "wait_seconds": {"type": "float", "default": 0},
    "timeout_seconds": {"type": "float", "default": 60},
}
POLL_SECONDS = 2.0


def must_change(current: NodeState, state: str, reason: str) -> bool:
    """Return whether Slurm has to be told."""
    return not current.drained if state == "drained" else current.drained_by_muster and current.reason == reason


def main() -> None:
    """Drain or resume."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    node, state, reason = params["node"], params["state"], params["reason"]
    host = LocalHost()
    deadline = time.monotonic() + params["wait_seconds"]
    # A node to be drained on which slurmd does not run takes no jobs; one to be resumed may just be starting it.
    patience = 0.0 if state == "drained" or module.check_mode else params["wait_seconds"]
    if not wait_until(lambda: serves_slurm(host), patience, POLL_SECONDS):
        module.exit_json(changed=False, slurm_state="")
    controller = Controller(host, params["timeout_seconds"])
    try:
        current = controller.node(node)
        changed = must_change(current, state, reason)
        if changed and not module.check_mode:
            if state == "drained":
                controller.drain(node, reason)
            else:
                controller.resume(node)
            current = controller.node(node)
        if state == "drained" and current.busy and not module.check_mode:
            left = deadline - time.monotonic()
            current = poll(lambda: controller.node(node), lambda seen: not seen.busy, left, POLL_SECONDS)
    except SlurmGateError as exc:
        module.fail_json(msg=str(exc))
    if state == "drained" and current.busy and not module.check_mode:
        module.fail_json(
            msg=f"{node} is drained and still runs jobs ({current.state}) after {params['wait_seconds']:g} s; "
            "it takes no new ones, and the next run goes on from here"
        )
    module.exit_json(changed=changed, slurm_state=current.state)


if __name__ == "__main__":
    main()
