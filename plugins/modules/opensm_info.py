#!/usr/bin/python
"""Module opensm_info: what the subnet manager of this host and the host's port say."""

from __future__ import annotations

DOCUMENTATION = r"""
module: opensm_info
short_description: Read the state of this host's subnet manager
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Queries the manager on the host's InfiniBand port and all others that the master knows (C(sminfo), C(saquery)), the
    state of the port and its partition keys (C(smpquery)).
  - Waits until the manager is master or standby with the declared priority, exactly one manager is master and is the
    one whose LID the port has, and the port is active and a full member of every declared partition. Otherwise it
    fails. Changes nothing.
attributes:
  check_mode: {support: full, description: Reads only.}
options:
  device: {description: "RDMA device of the port, as the host calls it.", type: str, required: true}
  port: {description: Number of the port., type: str, default: "1"}
  priority: {description: Required priority of the manager., type: int, required: true}
  pkeys: {description: Required partition keys of the port., type: list, elements: int, default: []}
  wait_seconds: {description: How long to wait., type: float, default: 60}
seealso:
  - module: muster.cluster.opensm_config
"""

EXAMPLES = r"""
- name: Wait until the manager is master or standby
  muster.cluster.opensm_info:
    device: mlx5_0
    priority: 14
    pkeys: [0x7fff]
"""

RETURN = r"""
state: {description: State of the manager., returned: success, type: str, sample: MASTER}
lid: {description: LID of its port., returned: success, type: int, sample: 1}
leader: {description: GUID of the master., returned: success, type: str, sample: "0x946dae0300112233"}
pkeys:
  description: Partition keys of the port, with the full membership bit.
  returned: success
  type: list
  elements: int
  sample: [65535]
"""


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import poll
from ansible_collections.muster.cluster.plugins.module_utils.nic.opensm import Answers, Port, ask, not_ready

ARGUMENTS = {
    "device": {"type": "str", "required": True},
    "port": {"type": "str", "default": "1"},
    "priority": {"type": "int", "required": True},
    "pkeys": {"type": "list", "elements": "int", "default": [], "no_log": False},
    "wait_seconds": {"type": "float", "default": 60},
}
POLL_SECONDS = 1.0


def main() -> None:
    """Ask until the answer is right or the time is over."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    host, port = LocalHost(), Port(params["device"], params["port"], "")

    def lacks(found: Answers) -> str:
        return not_ready(found, params["priority"], params["pkeys"])

    answers = poll(lambda: ask(host, port), lambda found: not lacks(found), params["wait_seconds"], POLL_SECONDS)
    if lacking := lacks(answers):
        module.fail_json(msg=f"{port}: {lacking} after {params['wait_seconds']:g} s")
    assert answers.own is not None
    assert answers.leader is not None
    own, leader = answers.own, answers.leader
    module.exit_json(changed=False, state=own.state, lid=own.lid, leader=leader.guid, pkeys=answers.pkeys)


if __name__ == "__main__":
    main()
