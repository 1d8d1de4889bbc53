#!/usr/bin/python
"""Read the LLDP neighbours of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: lldp_neighbors_info
short_description: Read the LLDP neighbours of a host
description:
  - Runs C(lldpctl -f json) of lldpd, and reads the network interfaces at each PCI address.
  - Reads only. If the neighbours cannot be read, the task does not fail and RV(reason) states why, so that one sick
    host does not end the run.
options:
  timeout_seconds:
    description: Time limit of C(lldpctl).
    type: int
    default: 30
  tool_path:
    description: PATH of C(lldpctl).
    type: str
    default: /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  root:
    description: Prefix of C(/sys).
    type: path
    default: /
attributes:
  check_mode:
    description: Works the same in check mode.
    support: full
notes:
  - Needs lldpd on the host, and switches that send LLDP.
author: The Muster developers (@muster-cluster)
"""

EXAMPLES = r"""
- name: Hear of the switches
  muster.cluster.lldp_neighbors_info:
  register: lldp
"""

RETURN = r"""
lldp:
  description: Output of C(lldpctl -f json).
  returned: always
  type: str
  sample: '{"lldp": {"interface": [{"eth0": {"via": "LLDP"}}]}}'
interfaces:
  description: The names of the network interfaces at each PCI address that has any.
  returned: always
  type: dict
  sample: {"0000:1a:00.0": [eth0]}
reason:
  description: Why the neighbours could not be read; empty if they were.
  returned: always
  type: str
  sample: "lldpctl: not found"
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.host.host import TOOL_PATH, LocalHost, Unreadable
from ..module_utils.host.rail_names import read_names
from ..module_utils.probes.lldp import ARGV

ARGUMENTS = {
    "timeout_seconds": {"type": "int", "default": 30},
    "tool_path": {"type": "str", "default": TOOL_PATH},
    "root": {"type": "path", "default": "/"},
}


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
    try:
        interfaces = read_names(host).interfaces
    except Unreadable as exc:
        interfaces, reason = {}, f"names of network interfaces: {exc}"
    module.exit_json(changed=False, lldp=said.stdout, interfaces=interfaces, reason=reason)


if __name__ == "__main__":
    main()
