#!/usr/bin/python
"""Module file_set: a set of files and the units that read them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: file_set
short_description: Write a set of small files, and run the units that read them
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Writes all files and sees to their units in one task, because every task costs a connection. Missing directories are
    created, for everybody to enter. All files are read before the first is written.
  - Files that no longer belong to the set are removed.
  - A unit is restarted if it started before one of its files changed, also when the run that wrote the file was killed.
attributes:
  check_mode: {support: full, description: Shows what would change.}
  diff_mode: {support: full, description: "Shows the files before and after, but no secrets."}
options:
  files:
    description: The files.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Path of the file., type: path, required: true}
      content: {description: Content of the file or of its block., type: str, required: true}
      mode:
        description: Permissions in octal digits. Not used with a block.
        type: str
        default: "0644"
      block:
        description:
          - The content is a block of the file, between two marker lines; all other lines stay. With empty content the
            block is removed.
        type: dict
        suboptions:
          name: {description: Name in the marker lines., type: str, required: true}
          after:
            description:
              - A new block is put below the last such line. Without it, at the end of the file, which is made where it
                is missing.
            type: str
  secrets:
    description: Files with secret content.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Path of the file., type: path, required: true}
      content: {description: Base64 of the content. Check mode accepts an empty one., type: str, required: true}
      owner: {description: "Owner of the file, with its own group.", type: str, required: true}
      mode: {description: Permissions in octal digits., type: str, default: "0400"}
  absent:
    description: Glob patterns. Matching files that are not in O(files) are removed.
    type: list
    elements: str
    default: []
  units:
    description: Units of systemd, in the order in which they are started.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the unit on Debian. What another system calls otherwise (V(chrony), V(ssh)) is translated.
        type: str
        required: true
      files: {description: Files that the unit reads when it starts., type: list, elements: path, default: []}
      state:
        description:
          - V(started) enables and starts the unit. V(enabled) leaves its start to another task. V(as_is) does neither.
        type: str
        choices: [started, enabled, as_is]
        default: started
      reload:
        description: A running unit is reloaded when one of its files is written, and never restarted.
        type: bool
        default: false
"""

EXAMPLES = r"""
- name: Write the rails' networks
  muster.cluster.file_set:
    files:
      - path: /etc/systemd/network/50-muster-rail0.network
        content: |
          [Match]
          Name=rdma0
    absent: [/etc/systemd/network/50-muster-*.network]

- name: Write the key and run munge with it
  muster.cluster.file_set:
    secrets:
      - {path: /etc/munge/munge.key, owner: munge, content: "{{ made.contents['/etc/munge/munge.key'] }}"}
    units: [{name: munge, files: [/etc/munge/munge.key]}]
"""

RETURN = r"""
written:
  description: Paths of new files, and of files whose content, owner or mode changed.
  returned: always
  type: list
  elements: str
  sample: [/etc/systemd/network/50-muster-rail0.network]
removed:
  description: Paths of the files that were removed.
  returned: always
  type: list
  elements: str
  sample: []
enabled: {description: Units that were enabled., returned: always, type: list, elements: str, sample: [munge]}
started: {description: Units that were started., returned: always, type: list, elements: str, sample: [munge]}
restarted: {description: Units that were restarted., returned: always, type: list, elements: str, sample: []}
reloaded: {description: Units that were reloaded., returned: always, type: list, elements: str, sample: []}
"""

import contextlib
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.file_set import (
    Applied,
    Block,
    FileSet,
    FileSetError,
    FileWanted,
    UnitWanted,
    decoded,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.systemd import SystemdError
from ansible_collections.muster.cluster.plugins.module_utils.host.systems import UnknownSystem, system_here

BLOCK = {"name": {"type": "str", "required": True}, "after": {"type": "str"}}
FILE = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str", "required": True},
    "mode": {"type": "str", "default": "0644"},
    "block": {"type": "dict", "options": BLOCK},
}
SECRET = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str", "required": True, "no_log": True},
    "owner": {"type": "str", "required": True},
    "mode": {"type": "str", "default": "0400"},
}
UNIT = {
    "name": {"type": "str", "required": True},
    "files": {"type": "list", "elements": "path", "default": []},
    "state": {"type": "str", "choices": ["started", "enabled", "as_is"], "default": "started"},
    "reload": {"type": "bool", "default": False},
}
ARGUMENTS = {
    "files": {"type": "list", "elements": "dict", "options": FILE, "default": []},
    "secrets": {"type": "list", "elements": "dict", "options": SECRET, "default": [], "no_log": False},
    "absent": {"type": "list", "elements": "str", "default": []},
    "units": {"type": "list", "elements": "dict", "options": UNIT, "default": []},
}


def file_of(params: dict[str, Any]) -> FileWanted:
    """Return a file as it is declared; raises ValueError for a mode that is no octal number."""
    block = Block(**params["block"]) if params["block"] else None
    mode = None if block else int(params["mode"], 8)
    return FileWanted(params["path"], params["content"].encode("utf-8", "surrogateescape"), mode, block=block)


def secret_of(params: dict[str, Any]) -> FileWanted:
    """Return a secret file as it is declared; raises FileSetError or ValueError."""
    content = decoded(params["path"], params["content"]) if params["content"] else None
    return FileWanted(params["path"], content, int(params["mode"], 8), params["owner"], secret=True)


def units_of(units: list[dict[str, Any]]) -> tuple[UnitWanted, ...]:
    """Return the units as they are declared, by the names of the host's system; of one that is unknown, as given."""
    named: Callable[[str], str] = str
    with contextlib.suppress(UnknownSystem, Unreadable):
        named = system_here(LocalHost()).unit_of
    return tuple(UnitWanted(**{**each, "name": named(each["name"]), "files": tuple(each["files"])}) for each in units)


def main() -> None:
    """Write, remove, and see to the units."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params, done = module.params, Applied()
    try:
        files = [*(file_of(each) for each in params["files"]), *(secret_of(each) for each in params["secrets"])]
        FileSet(tuple(files), tuple(params["absent"]), units_of(params["units"])).apply(
            LocalHost(), module.check_mode, done
        )
    except (FileSetError, SystemdError, OSError, ValueError) as exc:
        module.fail_json(msg=str(exc), changed=done.changed, **asdict(done))
    module.exit_json(changed=done.changed, **asdict(done))


if __name__ == "__main__":
    main()
