#!/usr/bin/python
"""Module opensm_info: what the subnet manager of this host and the host's port say."""

from __future__ import annotations

DOCUMENTATION = r"""
module: opensm_info
short_description: Read back the subnet manager of this host
version_added: 0.1.0
author: The Muster developers
description:
  - Asks the manager on the host's own InfiniBand port and every other that the leading one knows of (C(sminfo),
    C(saquery)), the port's state and its table of partition keys (C(smpquery)).
  - Waits until the manager leads the fabric or stands by with the declared priority, exactly one manager leads and is
    the one whose LID the port was given, and the port is active and a full member of every declared partition; fails
    where that does not come. Changes nothing.
attributes:
  check_mode: {support: full, description: Reads only.}
options:
  device: {description: RDMA device of the port., type: str, required: true}
  port: {description: Number of the port., type: str, default: "1"}
  priority: {description: Priority that the manager has to show., type: int, required: true}
  pkeys: {description: Partition keys that the port has to hold., type: list, elements: int, default: []}
  wait_seconds: {description: How long to wait for it., type: float, default: 60}
seealso:
  - module: muster.cluster.opensm_config
"""

EXAMPLES = r"""
- name: Wait until the manager leads or stands by
  muster.cluster.opensm_info:
    device: mlx5_0
    priority: 14
    pkeys: [0x7fff]
"""

RETURN = r"""
state: {description: State of the manager., returned: success, type: str, sample: MASTER}
lid: {description: LID of its port., returned: success, type: int, sample: 1}
leader: {description: GUID of the manager that leads., returned: success, type: str, sample: "0x946dae0300112233"}
pkeys:
  description: The port's partition keys, with the bit of full membership.
  returned: success
  type: list
  elements: int
  sample: [65535]
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.opensm import Port, ask, not_ready

ARGUMENTS = {
    "device": {"type": "str", "required": True},
    "port": {"type": "str", "default": "1"},
    "priority": {"type": "int", "required": True},
    "pkeys": {"type": "list", "elements": "int", "default": []},
    "wait_seconds": {"type": "float", "default": 60},
}
POLL_SECONDS = 1.0


def main() -> None:
    """Ask until the answer is right or the time is over."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    host, port = LocalHost(), Port(params["device"], params["port"], "")
    deadline = time.monotonic() + params["wait_seconds"]
    while True:
        answers = ask(host, port)
        lacking = not_ready(answers, params["priority"], params["pkeys"])
        if not lacking or time.monotonic() >= deadline:
            break
        time.sleep(POLL_SECONDS)
    if lacking:
        module.fail_json(msg=f"{port}: {lacking} after {params['wait_seconds']:g} s")
    assert answers.own is not None
    assert answers.leader is not None
    own, leader = answers.own, answers.leader
    module.exit_json(changed=False, state=own.state, lid=own.lid, leader=leader.guid, pkeys=answers.pkeys)


if __name__ == "__main__":
    main()
