#!/usr/bin/python
"""Module storage_array: RAID0 and XFS over the NVMe drives of the host it runs on."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_array
short_description: Create file systems on NVMe drives
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Creates a RAID0 array of NVMe drives with XFS, and returns the UUID of the file system, by which it is mounted.
  - An existing array of that name over exactly these drives is kept, and assembled if it is not running. A drive with
    other contents (a signature that wipefs knows, a partition, a user) fails the task before any change, unless
    O(erase) is set. A mounted drive always fails it.
  - All arrays are examined before the first is created.
attributes:
  check_mode: {support: full, description: Shows which arrays would be created.}
  diff_mode: {support: full, description: Shows the drives and their arrays.}
options:
  arrays:
    description: The arrays.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the array; its device is C(/dev/md/muster-NAME)., type: str, required: true}
      count: {description: Number of all drives of the host., type: int, required: true}
      addresses: {description: PCI addresses of the drives., type: list, elements: str}
      model: {description: Model of the drives if no addresses are declared., type: str}
      numa_node: {description: Takes only the drives of this NUMA node., type: int}
  erase:
    description: Whether the contents of the drives may be erased. An array that is as declared is always kept.
    type: bool
    default: false
  tool_path: {description: PATH of the tools; the usual system directories by default., type: str}
"""

EXAMPLES = r"""
- name: Make one file system of the eight drives
  muster.cluster.storage_array:
    arrays:
      - {name: scratch, count: 8, model: SAMSUNG MZQL23T8HCLS-00A07}
"""

RETURN = r"""
uuids:
  description: UUID of each array's file system by the name of the array; without those that check mode would create.
  returned: success
  type: dict
  sample: {scratch: 5f0c4f0e-6a0e-4a43-9f7e-0a7f2d1c9b55}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.formats.nvme import DrivesWanted
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, Host, LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.storage_setup.drive_array import (
    ArrayError,
    Disk,
    Plan,
    carry_out,
    disks_of,
    make_file_system,
    must_format,
    plan,
    signatures_of,
    uuid_of,
)

ARGUMENTS = {
    "arrays": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "count": {"type": "int", "required": True},
            "addresses": {"type": "list", "elements": "str"},
            "model": {"type": "str"},
            "numa_node": {"type": "int"},
        },
    },
    "erase": {"type": "bool", "default": False},
    "tool_path": {"type": "str"},
}


def reconcile(host: Host, arrays: list[dict[str, Any]], erase: bool, check: bool) -> dict[str, Any]:
    """Make the arrays and return the module's answer. Raises ArrayError, before anything is changed where it can."""
    looked: list[tuple[str, list[Disk], Plan, bool]] = []
    for array in arrays:
        disks = disks_of(host, DrivesWanted(array["count"], array["addresses"], array["model"], array["numa_node"]))
        steps = plan(array["name"], disks, erase)
        empty = not steps.device or must_format(array["name"], signatures_of(host, steps.device), erase)
        looked.append((array["name"], disks, steps, empty))
    uuids, differences = {}, []
    for name, disks, steps, empty in looked:
        if steps.changes or empty:
            differences.append(_difference(name, disks, steps))
        if check:
            if not steps.changes and not empty:
                uuids[name] = uuid_of(host, steps.device)
            continue
        device = carry_out(host, name, disks, steps) if steps.changes else steps.device
        # What an earlier array left behind is not ours, though it may look whole in the same place.
        if steps.create or must_format(name, signatures_of(host, device), erase):
            make_file_system(host, device)
        uuids[name] = uuid_of(host, device)
    return {"changed": bool(differences), "uuids": uuids, "diff": differences}


def _difference(name: str, disks: list[Disk], steps: Plan) -> dict[str, str]:
    before = "".join(f"{disk.who}: {', '.join(disk.contents) or 'blank'}\n" for disk in disks)
    what = "assembled" if steps.assemble else "member of a new array" if steps.create else "member of the array"
    after = "".join(f"{disk.who}: {what} {name}\n" for disk in disks)
    return {"before_header": name, "before": before, "after_header": name, "after": after}


def main() -> None:
    """Make the arrays, or say which would be made."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    host = LocalHost(module.params["tool_path"] or TOOL_PATH)
    try:
        result = reconcile(host, module.params["arrays"], module.params["erase"], module.check_mode)
    except ArrayError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
