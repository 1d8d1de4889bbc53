#!/usr/bin/python
"""What a host hears of its switches over LLDP."""

from __future__ import annotations

DOCUMENTATION = r"""
module: lldp_neighbors_info
short_description: What a host hears of its switches over LLDP
description:
  - Runs C(lldpctl -f json) of lldpd, and reads which network interface each RDMA device has.
  - Reads only. A host that cannot be asked is no failure of the task, RV(reason) says why, so that one sick host does
    not end the run of all.
options:
  timeout_seconds:
    description: How long C(lldpctl) may take.
    type: int
    default: 30
  tool_path:
    description: PATH in which C(lldpctl) is.
    type: str
    default: /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  root:
    description: What stands before C(/sys).
    type: path
    default: /
attributes:
  check_mode:
    description: Does the same in check mode.
    support: full
notes:
  - Needs lldpd on the host, and switches that send LLDP.
author: The Muster developers
"""

EXAMPLES = r"""
- name: Hear of the switches
  muster.cluster.lldp_neighbors_info:
  register: lldp
"""

RETURN = r"""
lldp:
  description: What C(lldpctl -f json) printed.
  returned: always
  type: str
  sample: '{"lldp": {"interface": [{"eth0": {"via": "LLDP"}}]}}'
interfaces:
  description: The network interface of each RDMA device that has one.
  returned: always
  type: dict
  sample: {mlx5_0: eth0}
reason:
  description: Why the host could not be asked, empty where it was.
  returned: always
  type: str
  sample: "lldpctl: not found"
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.host import TOOL_PATH, LocalHost

ARGV = ("lldpctl", "-f", "json")
ARGUMENTS = {
    "timeout_seconds": {"type": "int", "default": 30},
    "tool_path": {"type": "str", "default": TOOL_PATH},
    "root": {"type": "path", "default": "/"},
}


def interfaces_of(paths: list[str]) -> dict[str, str]:
    """Return the interface of each device from the paths ``/sys/class/infiniband/mlx5_0/device/net/eth0``.

    A device with several says nothing for certain, and is left out.
    """
    found: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/")
        found.setdefault(parts[-4], []).append(parts[-1])
    return {device: names[0] for device, names in found.items() if len(names) == 1}


def main() -> None:
    """Ask lldpd, and tell."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    host = LocalHost(module.params["tool_path"], module.params["root"])
    said = host.run(ARGV, module.params["timeout_seconds"])
    reason = ""
    if said.timed_out:
        reason = f"lldpctl: no answer within {module.params['timeout_seconds']} s"
    elif said.rc != 0:
        reason = said.error or f"lldpctl: exit status {said.rc}: {said.stderr.strip()}"
    interfaces = interfaces_of(host.paths("/sys/class/infiniband/*/device/net/*"))
    module.exit_json(changed=False, lldp=said.stdout, interfaces=interfaces, reason=reason)


if __name__ == "__main__":
    main()
