#!/usr/bin/python
"""Module roce_preflight: what this host lacks for its RoCE ports."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_preflight
short_description: Check that a host has all that its RoCE ports need
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Fails before any change if a device of a rail, a tool or a file of the driver is missing that
    M(muster.cluster.roce_port) needs, and lists everything that is missing.
  - RDMA modules that were installed and are not loaded yet are part of the list. The files of DOCA-OFED's driver are
    missing until the reboot that loads it.
attributes:
  check_mode:
    support: full
    description: Reads only. What is missing is a warning, since packages are not installed in check mode.
options:
  ports:
    description: Ports, as returned by P(muster.cluster.roce_ports#lookup); C(gateway) is not used.
    type: list
    elements: dict
    required: true
  wait_seconds:
    description: How long to wait for a late device.
    type: float
    default: 30
  root: {description: Prefix of every path., type: path, default: /}
  tool_path: {description: PATH of the tools; the usual system directories by default., type: str}
seealso:
  - module: muster.cluster.roce_port
"""

EXAMPLES = r"""
- name: Check that the host can have the RoCE ports
  muster.cluster.roce_preflight:
    ports: "{{ query('muster.cluster.roce_ports', node=muster_node, fabric=muster_fleet.fabric,
                     expect=muster_expect) }}"
"""

RETURN = r"""
lacking:
  description: What is missing.
  returned: always
  type: list
  elements: str
  sample:
    - "reboot pending: ib_core, mlx5_core: 25.07-0.9.7 is installed, the kernel's own is loaded"
    - /sys/class/net/INTERFACE/ecn/roce_[nr]p/enable/[0-7] is absent (needed for dcqcn of rail0, rail1)
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import rdma_modules
from ansible_collections.muster.cluster.plugins.module_utils.roce.lacking import lacking
from ansible_collections.muster.cluster.plugins.module_utils.roce.settings import settings_of
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

ARGUMENTS = {
    "ports": {"type": "list", "elements": "dict", "required": True},
    "wait_seconds": {"type": "float", "default": 30},
    "root": {"type": "path", "default": "/"},
    "tool_path": {"type": "str"},
}
# Where the vendor's driver and tools come from, which backend doca asks for.
DOCA = "backend doca needs the driver and tools of DOCA-OFED (role rdma: rdma_source doca)"


def main() -> None:
    """Look, and fail where something is missing."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    try:
        ports = settings_of(params["ports"])
    except ReadError as exc:
        module.fail_json(msg=str(exc), lacking=[])
    host = LocalHost(params["tool_path"] or TOOL_PATH, params["root"])
    found = lacking(host, ports, 0.0 if module.check_mode else params["wait_seconds"])
    try:
        waiting = rdma_modules.waiting(host) if found else []
    except Unreadable as exc:
        found.append(str(exc))
        waiting = []
    if found and not waiting and any(port.backend == "doca" for port in ports):
        found.append(DOCA)
    found = [f"reboot pending: {each}" for each in waiting] + found
    if found and not module.check_mode:
        module.fail_json(msg=f"the host lacks what its RoCE ports need: {'; '.join(found)}", lacking=found)
    for text in found:
        module.warn(text)
    module.exit_json(changed=False, lacking=found)


if __name__ == "__main__":
    main()
