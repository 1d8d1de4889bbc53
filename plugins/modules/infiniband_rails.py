#!/usr/bin/python
"""Module infiniband_rails: name a host's InfiniBand adapters, and read its rails back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: infiniband_rails
short_description: Set the node descriptions of a host and verify its InfiniBand rails
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Fails unless the device of every rail exists and its link layer is InfiniBand. The link layer is a setting of the
    NIC firmware (C(LINK_TYPE_P1)), which this module does not change.
  - Sets the node description of every adapter to the name of the host and the device, as in the cabling plan. It lasts
    until the next boot, when C(rdma-ndd) sets it again.
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
      device: {description: RDMA device., type: str, required: true}
      interface: {description: IPoIB interface; found by the device if omitted., type: str}
  ready:
    description: Values to verify.
    type: dict
    suboptions:
      partitions: {description: Partition keys., type: list, elements: int, default: []}
      ipoib: {description: IPoIB mode; omit it without IPoIB., type: str, choices: [datagram, connected]}
      children:
        description: Keys of the partitions that have their own interface.
        type: list
        elements: int
        default: []
      mtu_bytes: {description: MTU of the links., type: int, default: 4096}
      wait_seconds: {description: How long to wait., type: float, default: 60}
  root: {description: "Prefix of C(/sys).", type: path, default: /}
"""

EXAMPLES = r"""
- name: Name the adapters
  muster.cluster.infiniband_rails:
    name: gpu-0001
    rails: [{rail: 0, device: mlx5_0}, {rail: 1, device: mlx5_1}]

- name: Read the rails back
  muster.cluster.infiniband_rails:
    name: gpu-0001
    rails: [{rail: 0, device: mlx5_0, interface: ib0}]
    ready: {partitions: [0x7fff], ipoib: datagram}
"""

RETURN = r"""
descriptions:
  description: Node description by device.
  returned: success
  type: dict
  sample: {mlx5_0: gpu-0001 mlx5_0}
"""

import operator
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.machine import LocalMachine
from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import poll
from ansible_collections.muster.cluster.plugins.module_utils.nic.infiniband_rails import (
    Ipoib,
    Rail,
    RailError,
    check_link_layers,
    description_of,
    interface_mtu,
    lacking,
    wrong_descriptions,
)

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "rails": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "rail": {"type": "int", "required": True},
            "device": {"type": "str", "required": True},
            "interface": {"type": "str"},
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
    machine = LocalMachine(root=params["root"])
    rails = [Rail(each["rail"], each["device"], each["interface"]) for each in params["rails"]]
    if module.check_mode and not machine.paths("/sys/class/infiniband/*"):
        module.exit_json(changed=True, msg="no RDMA device: its driver is yet to come", descriptions={})
    try:
        check_link_layers(machine, rails)
        wrong = wrong_descriptions(machine, rails, params["name"])
        if wrong and not module.check_mode:
            for path, (_, wanted) in wrong.items():
                if refused := machine.write(path, wanted):
                    raise RailError(f"{path}: {refused}")
            if still := wrong_descriptions(machine, rails, params["name"]):
                path, (now, wanted) = next(iter(still.items()))
                raise RailError(f"{path} reads {now!r} after {wanted!r} was written")
        if params["ready"] and not module.check_mode:
            _wait(machine, rails, params["ready"])
    except RailError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(
        changed=bool(wrong),
        diff={
            side: "".join(f"{path} {pair[index]}\n" for path, pair in wrong.items())
            for index, side in enumerate(_SIDES)
        },
        descriptions={rail.device: description_of(params["name"], rail.device) for rail in rails},
    )


_SIDES = ("before", "after")


def _wait(machine: LocalMachine, rails: list[Rail], ready: dict[str, Any]) -> None:
    mode = ready["ipoib"]
    ipoib = Ipoib(mode, interface_mtu(mode, ready["mtu_bytes"]), tuple(ready["children"])) if mode else None
    texts = poll(
        lambda: lacking(machine, rails, ready["partitions"], ipoib), operator.not_, ready["wait_seconds"], POLL_SECONDS
    )
    if texts:
        raise RailError(f"after {ready['wait_seconds']:g} s {'; '.join(texts)}")


if __name__ == "__main__":
    main()
