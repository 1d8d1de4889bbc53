#!/usr/bin/python
"""Module storage_mounts: the storage tiers of the host it runs on."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_mounts
short_description: Mount the storage tiers of this host, and hold them against their declaration
version_added: 0.1.0
author: The Muster developers
description:
  - Writes a unit for each mount, has services wait for them (After and Wants, not Requires), mounts what is not
    mounted, and compares what the kernel shows with the declaration. A lost disk or server costs the mount, not the
    boot.
  - C(muster-storage.service) mounts at boot, and goes on trying every 30 s until all are there.
  - A tier that somebody else mounts is compared and never touched.
  - A mount that is there with other settings stays as it is, with a warning, unless O(allow_remount).
attributes:
  check_mode: {support: full, description: Says what would change.}
  diff_mode: {support: full, description: Shows files and settings before and after.}
options:
  mounts:
    description: The mounts, as C(muster_expect.mounts) gives them. Without any, those of earlier times are taken away.
    type: list
    elements: dict
    required: true
  uuids:
    description: UUIDs of the host's own file systems by array, as M(muster.cluster.storage_array) returns them.
    type: dict
    default: {}
  services: {description: Units that start after the mounts., type: list, elements: str, default: []}
  kernel_modules:
    description: Parameters of kernel modules by module, set now where it is loaded, and at every load.
    type: dict
    default: {}
  lustre_parameters: {description: Parameters that lctl sets after each Lustre mount., type: dict, default: {}}
  mode: {description: Permissions of the root of the host's own file systems in octal digits., type: str, default: ""}
  allow_remount:
    description: Whether a mount that differs, or is declared no more, may be unmounted. Programs that use it fail.
    type: bool
    default: false
  root: {description: What stands before every path., type: path, default: /}
  tool_path: {description: PATH in which tools are looked up; the usual system directories by default., type: str}
"""

EXAMPLES = r"""
- name: Mount the tiers
  muster.cluster.storage_mounts:
    mounts: "{{ muster_expect.mounts }}"
    services: [slurmd.service]
"""

RETURN = r"""
changes:
  description: What was changed.
  returned: always
  type: list
  elements: str
  sample: [/etc/systemd/system/scratch.mount, /scratch mounted]
problems:
  description: What is wrong; outside check mode the task fails with it.
  returned: always
  type: list
  elements: str
  sample: []
pending:
  description: What waits for a boot or for O(allow_remount).
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.examine import Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.expectations import SCHEMA, ExpectationError, check_kind
from ansible_collections.muster.cluster.plugins.module_utils.host import TOOL_PATH, LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.mount_apply import Applier, Wish

ARGUMENTS = {
    "mounts": {"type": "list", "elements": "dict", "required": True},
    "uuids": {"type": "dict", "default": {}},
    "services": {"type": "list", "elements": "str", "default": []},
    "kernel_modules": {"type": "dict", "default": {}},
    "lustre_parameters": {"type": "dict", "default": {}},
    "mode": {"type": "str", "default": ""},
    "allow_remount": {"type": "bool", "default": False},
    "root": {"type": "path", "default": "/"},
    "tool_path": {"type": "str"},
}


def main() -> None:
    """Mount, or say what would be mounted."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = dict(module.params)
    host = LocalHost(given.pop("tool_path") or TOOL_PATH, given.pop("root"))
    try:
        check_kind(given["mounts"], SCHEMA["mounts"], "mounts")
        outcome = Applier(host, Wish(**given), module.check_mode).run()
    except (ExpectationError, Unreadable, OSError) as exc:
        module.fail_json(msg=str(exc))
    for text in (*outcome.pending, *(outcome.problems if module.check_mode else ())):
        module.warn(text)
    result = {
        "changed": bool(outcome.changes),
        "changes": outcome.changes,
        "pending": outcome.pending,
        "problems": outcome.problems,
        "diff": outcome.differences,
    }
    if outcome.problems and not module.check_mode:
        module.fail_json(msg="; ".join(outcome.problems), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
