#!/usr/bin/python
"""Module nccl_conf: NCCL's variables of the host it runs on."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_conf
short_description: Write NCCL's variables with what this host calls its rails
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Writes C(/etc/nccl.conf), with the reason above each value. Rails in the values of C(NCCL_IB_HCA) and
    C(NCCL_SOCKET_IFNAME) become the RDMA devices and network interfaces that the host has at the rails' PCI addresses.
  - The task fails if a rail has none. The file then lists the other rails, or C(=none) where no rail has one, so that
    NCCL uses no NIC that is no rail.
attributes:
  check_mode:
    support: full
    description: Shows what would change. A rail without a device, as on a host without its driver, is a warning.
  diff_mode: {support: full, description: Shows the file before and after.}
options:
  variables:
    description: Variables in order, as returned by P(muster.cluster.nccl_variables#lookup).
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the variable., type: str, required: true}
      value: {description: Its value., type: str, required: true}
      reason: {description: Reason in one line., type: str, required: true}
  rails:
    description: The host's rails, C(muster_expect.nic.rails).
    type: list
    elements: dict
    default: []
    suboptions:
      rail: {description: Number of the rail., type: int, required: true}
      address: {description: PCI address of its NIC., type: str, required: true}
  wait_seconds:
    description: How long to wait for a late device.
    type: float
    default: 30
  path: {description: The file., type: path, default: /etc/nccl.conf}
  root: {description: Prefix of C(/sys)., type: path, default: /}
seealso:
  - plugin: muster.cluster.nccl_variables
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Write NCCL's variables
  muster.cluster.nccl_conf:
    variables: "{{ query('muster.cluster.nccl_variables', muster_node, fabric=muster_fleet.fabric,
                         expect=muster_expect) }}"
    rails: "{{ muster_expect.nic.rails }}"
"""

RETURN = r"""
lacking:
  description: Why rails that the variables name have no name on this host.
  returned: always
  type: list
  elements: str
  sample:
    - "rail 3 has no RDMA device at 0000:5e:00.0, RDMA devices of this host: mlx5_0 at 0000:1a:00.0"
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_conf import CONF, Settings, apply, check
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

VARIABLE = {name: {"type": "str", "required": True} for name in ("name", "value", "reason")}
RAIL = {"rail": {"type": "int", "required": True}, "address": {"type": "str", "required": True}}
ARGUMENTS = {
    "variables": {"type": "list", "elements": "dict", "required": True, "options": VARIABLE},
    "rails": {"type": "list", "elements": "dict", "default": [], "options": RAIL},
    "wait_seconds": {"type": "float", "default": 30},
    "path": {"type": "path", "default": CONF},
    "root": {"type": "path", "default": "/"},
}


def main() -> None:
    """Write the file, or say what would be written."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    host = LocalHost(root=params["root"])
    try:
        settings = Settings.from_dict({key: params[key] for key in ("variables", "rails")})
        if module.check_mode:
            outcome = check(host, settings, params["path"])
        else:
            outcome = apply(host, settings, params["wait_seconds"], params["path"])
    except (ReadError, Unreadable, OSError) as exc:
        module.fail_json(msg=str(exc), lacking=[])
    problems = list(outcome.problems)
    result: dict[str, Any] = {"changed": bool(outcome.diff), "diff": list(outcome.diff), "lacking": problems}
    if problems and not module.check_mode:
        module.fail_json(msg="; ".join(problems), **result)
    for text in problems:
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
