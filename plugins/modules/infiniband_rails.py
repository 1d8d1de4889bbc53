#!/usr/bin/python
"""Module infiniband_rails: name a host's InfiniBand adapters, and read its rails back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: infiniband_rails
short_description: Set the node descriptions of a host and verify its InfiniBand rails
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Finds the RDMA device and the network interface of every rail by its PCI address.
  - Fails unless every device exists and its link layer is InfiniBand. The link layer is a setting of the NIC firmware
    (C(LINK_TYPE_P1)), which this module does not change.
  - Sets the node description of every adapter to the name of the host and the rail, as in the cabling plan. It lasts
    until the driver is loaded again; role P(muster.cluster.infiniband#role) has udev set it then.
  - With O(ready), waits until every port is active and a full member of the declared partitions, and its IPoIB
    interfaces have the declared mode and MTU. Otherwise it fails.
attributes:
  check_mode: {support: full, description: Shows node descriptions that would change; does not wait.}
  diff_mode: {support: full, description: Shows the node descriptions before and after.}
options:
  name: {description: Name of the host in the fabric., type: str, required: true}
  rails:
    description: The rails.
    type: list
    elements: dict
    required: true
    suboptions:
      rail: {description: Number of the rail., type: int, required: true}
      address: {description: PCI address of the NIC's function., type: str, required: true}
  ready:
    description: Values to verify.
    type: dict
    suboptions:
      partitions: {description: Partition keys., type: list, elements: int, default: []}
      ipoib: {description: IPoIB mode; omit it without IPoIB., type: str, choices: [datagram, connected]}
      children:
        description: Keys of the partitions that have their own interface, such as C(rail0.8012).
        type: list
        elements: int
        default: []
      mtu_bytes: {description: MTU of the links., type: int, default: 4096}
      wait_seconds: {description: How long to wait., type: float, default: 60}
  root: {description: "Prefix of C(/sys) and C(/proc).", type: path, default: /}
"""

EXAMPLES = r"""
- name: Name the adapters
  muster.cluster.infiniband_rails:
    name: gpu-0001
    rails: [{rail: 0, address: "0000:1a:00.0"}, {rail: 1, address: "0000:3c:00.0"}]

- name: Read the rails back
  muster.cluster.infiniband_rails:
    name: gpu-0001
    rails: [{rail: 0, address: "0000:1a:00.0"}]
    ready: {partitions: [0x7fff], ipoib: datagram}
"""

RETURN = r"""
descriptions:
  description: Node description by device, as the system calls it.
  returned: success
  type: dict
  sample: {mlx5_0: gpu-0001 rail0}
"""

import operator
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import poll
from ansible_collections.muster.cluster.plugins.module_utils.nic.infiniband_rails import (
    Ipoib,
    RailError,
    description_of,
    infiniband_rails,
    interface_mtu,
    lacking,
    wrong_descriptions,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "rails": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "rail": {"type": "int", "required": True},
            "address": {"type": "str", "required": True},
        },
    },
    "ready": {
        "type": "dict",
        "options": {
            "partitions": {"type": "list", "elements": "int", "default": []},
            "ipoib": {"type": "str", "choices": ["datagram", "connected"]},
            "children": {"type": "list", "elements": "int", "default": []},
            "mtu_bytes": {"type": "int", "default": 4096},
            "wait_seconds": {"type": "float", "default": 60},
        },
    },
    "root": {"type": "path", "default": "/"},
}
POLL_SECONDS = 1.0


def main() -> None:
    """Check, name, and read back."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    host, name = LocalHost(root=params["root"]), params["name"]
    rails = [Rail(each["rail"], each["address"]) for each in params["rails"]]
    if module.check_mode and not host.paths("/sys/class/infiniband/*"):
        module.exit_json(changed=True, msg="no RDMA device: its driver is yet to come", descriptions={})
    try:
        found = infiniband_rails(host, rails)
        wrong = wrong_descriptions(host, found, name)
        if wrong and not module.check_mode:
            for path, (_, wanted) in wrong.items():
                # The kernel would keep a newline as part of the description.
                Path(params["root"], path.lstrip("/")).write_text(wanted, encoding="utf-8")
            if still := wrong_descriptions(host, found, name):
                path, (now, wanted) = next(iter(still.items()))
                raise RailError(f"{path} reads {now!r} after {wanted!r} was written")
        if params["ready"] and not module.check_mode:
            _wait(host, rails, params["ready"])
    except (MusterError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=bool(wrong),
        diff={
            side: "".join(f"{path} {pair[index]}\n" for path, pair in wrong.items())
            for index, side in enumerate(_SIDES)
        },
        descriptions={rail.device: description_of(name, rail.name) for rail in found},
    )


_SIDES = ("before", "after")


def _wait(host: LocalHost, rails: list[Rail], ready: dict[str, Any]) -> None:
    mode = ready["ipoib"]
    ipoib = Ipoib(mode, interface_mtu(mode, ready["mtu_bytes"]), tuple(ready["children"])) if mode else None
    texts = poll(
        lambda: lacking(host, rails, ready["partitions"], ipoib), operator.not_, ready["wait_seconds"], POLL_SECONDS
    )
    if texts:
        raise RailError(f"after {ready['wait_seconds']:g} s {'; '.join(texts)}")


if __name__ == "__main__":
    main()
