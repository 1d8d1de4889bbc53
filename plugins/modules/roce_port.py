#!/usr/bin/python
"""Module roce_port: the RoCE ports of the host it runs on."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_port
short_description: Set and verify the RoCE ports of this host
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Sets DSCP trust, PFC, DCQCN, ToS of RDMA-CM, the device-wide traffic class, MTU, rings, buffers, DCBX mode, ARP and
    reverse path filter of each port, and reads them back. The task fails if a device accepts a setting but does not
    show it, and if a port has no RoCE v2 GID of its declared address.
  - A setting that the backend does not support is an error before any change of any port.
  - Finds each port by the PCI address of its rail, whatever the system calls its RDMA device and network interface.
  - Sets all ports of a host in one task. A failed port does not stop the others.
attributes:
  check_mode:
    support: full
    description: Shows what would change. Unreadable settings, as on a host without its driver, are a warning.
  diff_mode: {support: full, description: Shows settings before and after.}
options:
  ports:
    description: Ports, as returned by P(muster.cluster.roce_ports#lookup); C(gateway) is not used.
    type: list
    elements: dict
    required: true
  wait_seconds:
    description: How long to wait for a late device or GID.
    type: float
    default: 30
  root: {description: Prefix of every path., type: path, default: /}
  tool_path: {description: PATH of the tools; the usual system directories by default., type: str}
seealso:
  - plugin: muster.cluster.roce_ports
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Set the RoCE ports
  muster.cluster.roce_port:
    ports: "{{ query('muster.cluster.roce_ports', node=muster_node, fabric=muster_fleet.fabric,
                     expect=muster_expect) }}"
"""

RETURN = r"""
ports:
  description: Each rail with the names of its port on this host, null where it was not found, and changed settings.
  returned: always
  type: list
  elements: dict
  sample:
    - rail: rail0
      device: mlx5_0
      interface: ens1np0
      before: {mtu_bytes: 1500}
      after: {mtu_bytes: 9000}
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH
from ansible_collections.muster.cluster.plugins.module_utils.host.machine import LocalMachine
from ansible_collections.muster.cluster.plugins.module_utils.roce.apply import Outcome, apply, check
from ansible_collections.muster.cluster.plugins.module_utils.roce.decide import shown, unsupported
from ansible_collections.muster.cluster.plugins.module_utils.roce.settings import settings_of
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

ARGUMENTS = {
    "ports": {"type": "list", "elements": "dict", "required": True},
    "wait_seconds": {"type": "float", "default": 30},
    "root": {"type": "path", "default": "/"},
    "tool_path": {"type": "str"},
}


def difference(outcome: Outcome) -> dict[str, str]:
    """Return the settings before and after, a line each."""
    header = str(outcome.place)
    before, after = (
        "".join(f"{name}: {shown(value)}\n" for name, value in values.items())
        for values in (outcome.before, outcome.after)
    )
    return {"before_header": header, "before": before, "after_header": header, "after": after}


def main() -> None:
    """Set the ports, or say what would be set."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        ports = settings_of(module.params["ports"])
    except ReadError as exc:
        module.fail_json(msg=str(exc))
    if impossible := [text for port in ports for text in unsupported(port)]:
        module.fail_json(msg="; ".join(impossible))
    machine = LocalMachine(module.params["tool_path"] or TOOL_PATH, module.params["root"])
    deadline = time.monotonic() + module.params["wait_seconds"]
    outcomes = [
        check(machine, port) if module.check_mode else apply(machine, port, max(0.0, deadline - time.monotonic()))
        for port in ports
    ]
    result = {
        "changed": any(outcome.changed for outcome in outcomes),
        "ports": [
            {
                "rail": each.rail,
                "device": each.place and each.place.device,
                "interface": each.place and each.place.interface,
                "before": each.before,
                "after": each.after,
            }
            for each in outcomes
        ],
        "diff": [difference(outcome) for outcome in outcomes if outcome.changed],
    }
    problems = [text for outcome in outcomes for text in outcome.problems]
    if module.check_mode:
        for text in problems:
            module.warn(text)
        # A device that is yet to come would be set.
        result["changed"] = result["changed"] or bool(problems)
    elif problems:
        module.fail_json(msg="; ".join(problems), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
