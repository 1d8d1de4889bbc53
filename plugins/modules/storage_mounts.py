#!/usr/bin/python
"""Module storage_mounts: the storage tiers of the host it runs on."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_mounts
short_description: Mount and verify the storage tiers of this host
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Writes a unit for each mount, orders services after the mounts (After and Wants, not Requires), mounts missing file
    systems, and compares the mounts that the kernel shows with the declaration. A lost disk or server does not prevent
    the boot.
  - C(muster-storage.service) mounts at boot, and tries again every 30 s until all mounts are present.
  - A tier that somebody else mounts is compared and never changed.
  - An existing mount with other settings is not changed, with a warning, unless O(allow_remount) is set.
  - The directory of stage storage is made for user C(muster), before another user can make it in a tier where everybody
    may write. One of another user is a warning; the stage refuses it.
attributes:
  check_mode: {support: full, description: Shows what would change.}
  diff_mode: {support: full, description: Shows files and settings before and after.}
options:
  mounts:
    description: Mounts, as in C(muster_expect.mounts). An empty list removes the mounts of earlier declarations.
    type: list
    elements: dict
    required: true
  uuids:
    description: UUIDs of the host's own file systems by array, as M(muster.cluster.storage_array) returns them.
    type: dict
    default: {}
  services: {description: Units that start after the mounts., type: list, elements: str, default: []}
  kernel_modules:
    description: Parameters by kernel module, set now if it is loaded, and at every load.
    type: dict
    default: {}
  lustre_parameters: {description: Parameters that lctl sets after each Lustre mount., type: dict, default: {}}
  client_files:
    description:
      - Configuration files of clients by path, below C(/etc/beegfs) with names C(muster-*.conf). A mount that was made
        with an earlier text is not changed, with a warning, unless O(allow_remount) is set.
      - Files C(muster-*.auth) beside them that none of them names are removed.
    type: dict
    default: {}
  mode: {description: Permissions of the root of the host's own file systems in octal digits., type: str, default: ""}
  test_directory:
    description: Directory in the root of a tier that belongs to user C(muster), for the tests of stage storage.
    type: str
    default: ""
  allow_remount:
    description: Whether a mount that differs, or is no longer declared, may be unmounted. Programs that use it fail.
    type: bool
    default: false
  root: {description: Prefix of every path., type: path, default: /}
  tool_path: {description: PATH of the tools; the usual system directories by default., type: str}
"""

EXAMPLES = r"""
- name: Mount the tiers
  muster.cluster.storage_mounts:
    mounts: "{{ muster_expect.mounts }}"
    services: [slurmd.service]
"""

RETURN = r"""
changes:
  description: Changes that were made.
  returned: always
  type: list
  elements: str
  sample: [/etc/systemd/system/scratch.mount, /scratch mounted]
problems:
  description: Problems; outside check mode the task fails with them.
  returned: always
  type: list
  elements: str
  sample: []
pending:
  description: Changes that wait for a boot or for O(allow_remount).
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.storage_setup.mount_apply import Applier, Wish
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Mount
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError, read_as

ARGUMENTS = {
    "mounts": {"type": "list", "elements": "dict", "required": True},
    "uuids": {"type": "dict", "default": {}},
    "services": {"type": "list", "elements": "str", "default": []},
    "kernel_modules": {"type": "dict", "default": {}},
    "lustre_parameters": {"type": "dict", "default": {}},
    "client_files": {"type": "dict", "default": {}},
    "mode": {"type": "str", "default": ""},
    "test_directory": {"type": "str", "default": ""},
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
        given["mounts"] = read_as(tuple[Mount, ...], given["mounts"], "mounts")
        outcome = Applier(host, Wish(**given), module.check_mode).run()
    except (ReadError, Unreadable, OSError) as exc:
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
