#!/usr/bin/python
"""Module slurm_gate_info: what the gate of a Slurm controller is, in its file and live, and which nodes answer."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_gate_info
short_description: Read Slurm's user partitions, drains and node states
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Runs on the Slurm controller and changes nothing. Says from which ledger the partition file was rendered and who is
    open, what the running controller has, partitions and reservations of others too, and whether nodes can be reached
    from here.
  - What cannot be read of one partition, reservation or node is told, and does not hide the others.
attributes:
  check_mode: {support: full, description: Never changes anything.}
options:
  probe:
    description: Address by node, of nodes to whose slurmd a connection is tried.
    type: dict
    default: {}
  slurmd_port: {description: Port of slurmd., type: int, default: 6818}
  probe_timeout_seconds: {description: Time limit of one connection., type: float, default: 3}
  path: {description: The included file., type: path, default: /etc/slurm/muster_partitions.conf}
  state_save_location: {description: Slurm's C(StateSaveLocation)., type: path, default: /var/lib/slurm/slurmctld}
  timeout_seconds: {description: Time limit of one C(scontrol)., type: float, default: 60}
seealso:
  - module: muster.cluster.slurm_gate
"""

EXAMPLES = r"""
- name: Read the gate
  muster.cluster.slurm_gate_info:
    probe:
      gpu-03: 10.77.0.13
  register: gate
"""

RETURN = r"""
ledger_id:
  description: The ledger from which the file was rendered; null where none has rendered it yet or there is no file.
  returned: success
  type: str
  sample: 6f1d7a52-9b0e-4c58-8f3e-2d5c1b7a9e04
generation: {description: That ledger's generation., returned: success, type: int, sample: 12}
partitions:
  description: Open nodes by user partition as the file has them.
  returned: success
  type: dict
  sample: {batch: [gpu-01, gpu-02]}
live: {description: Whether the controller answered., returned: success, type: bool, sample: true}
live_error: {description: Why it did not; empty where it did., returned: success, type: str, sample: ""}
live_partitions:
  description: Nodes by partition as the controller has them, of all its partitions whose nodes can be read.
  returned: success
  type: dict
  sample: {batch: [gpu-01, gpu-02], acceptance: [gpu-01, gpu-02, gpu-03]}
live_access:
  description: By partition of the controller who may use it, in Slurm's keys and words.
  returned: success
  type: dict
  sample:
    debug: {State: UP, RootOnly: "NO", Hidden: "NO", ReqResv: "NO", AllocNodes: ALL, AllowGroups: ALL,
            AllowAccounts: ALL, AllowQos: ALL}
reservations:
  description: The controller's reservations by name, those to come among them.
  returned: success
  type: dict
  sample:
    course:
      nodes: [gpu-01]
      users: [ann]
      accounts: []
      groups: []
      flags: [SPEC_NODES]
      start: "2026-11-24T08:00:00"
      end: "2026-11-24T18:00:00"
      state: INACTIVE
      trouble: ""
unreadable:
  description: What could not be read, and why, such as C(partition debug), C(reservation course) or C(node gpu-03).
  returned: success
  type: dict
  sample: {node gpu-03: "2 times State= and BootTime= in 'NodeName=gpu-03 ...', expected once"}
nodes:
  description: State and reason by node; state C(UNREADABLE) where the controller's line of the node cannot be read.
  returned: success
  type: dict
  sample:
    gpu-04:
      state: IDLE+DRAIN
      reason: waits for a new cable
      user: root
      time: "2026-11-20T10:02:27"
      booted: "2026-11-19T08:00:00"
      boot_time: 1795075200.0
drains:
  description: Reason by node of the drains that are not Muster's.
  returned: success
  type: dict
  sample: {gpu-04: waits for a new cable}
slurm_state_lost:
  description:
    - Whether Slurm's state was erased since slurm_gate ran last. True as well where the controller does not answer, so
      that a drain that is not seen is not taken for one that was lifted.
  returned: success
  type: bool
  sample: false
silent_nodes:
  description: Nodes of O(probe) whose slurmd does not answer.
  returned: success
  type: list
  elements: str
  sample: [gpu-03]
"""

import socket
from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.slurm.gate_file import GATE_FILE
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import SlurmGateError
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_controller import TIMES, Controller
from ansible_collections.muster.cluster.plugins.module_utils.slurm.user_gate import STATE_SAVE_LOCATION, Gate

ARGUMENTS = {
    "probe": {"type": "dict", "default": {}},
    "slurmd_port": {"type": "int", "default": 6818},
    "probe_timeout_seconds": {"type": "float", "default": 3},
    "path": {"type": "path", "default": GATE_FILE},
    "state_save_location": {"type": "path", "default": STATE_SAVE_LOCATION},
    "timeout_seconds": {"type": "float", "default": 60},
}


def answers(address: str, port: int, timeout_seconds: float) -> bool:
    """Return whether a TCP connection is accepted there."""
    try:
        socket.create_connection((address, port), timeout_seconds).close()
    except OSError:
        return False
    return True


def main() -> None:
    """Read the gate."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    gate = Gate(
        Controller(LocalHost(environment=TIMES), params["timeout_seconds"]),
        params["path"],
        params["state_save_location"],
    )
    try:
        result = gate.describe()
    except SlurmGateError as exc:
        module.fail_json(msg=str(exc))
    names = sorted(params["probe"])
    with ThreadPoolExecutor(max_workers=64) as pool:
        found = list(
            pool.map(
                lambda name: answers(params["probe"][name], params["slurmd_port"], params["probe_timeout_seconds"]),
                names,
            )
        )
    result["silent_nodes"] = [name for name, answer in zip(names, found) if not answer]
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
