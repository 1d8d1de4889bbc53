#!/usr/bin/python
"""Module slurm_keys: the secrets that all hosts of a Slurm cluster share, created once."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_keys
short_description: Create the keys of munge and of Slurm's tokens once
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Runs on one host of the cluster. It creates missing keys there and returns all keys, for a task with C(no_log);
    M(muster.cluster.file_set) writes them on the other hosts.
  - A key with an invalid size is an error.
attributes:
  check_mode: {support: full, description: Shows which keys would be created.}
  diff_mode: {support: none, description: Keys are secrets.}
options:
  keys:
    description: The keys.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Path of the key., type: path, required: true}
      owner: {description: "Owner of the file, with its own group.", type: str, required: true}
      bytes_least: {description: Smallest size., type: int, default: 32}
      bytes_most: {description: Largest size., type: int, default: 1024}
      bytes_made: {description: Size of a created key., type: int, default: 128}
seealso:
  - module: muster.cluster.file_set
"""

EXAMPLES = r"""
- name: Make the key once
  muster.cluster.slurm_keys:
    keys: [{path: /etc/munge/munge.key, owner: munge}]
  delegate_to: ctl
  run_once: true
  no_log: true
  register: made
"""

RETURN = r"""
contents:
  description: Base64 of the keys by path; empty in check mode for a missing key.
  returned: always
  type: dict
  sample: {/etc/munge/munge.key: "(a secret)"}
written:
  description: Paths of the keys that were created.
  returned: always
  type: list
  elements: str
  sample: [/etc/munge/munge.key]
"""

import base64
import os
import pwd
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError

KEY = {
    "path": {"type": "path", "required": True},
    "owner": {"type": "str", "required": True},
    "bytes_least": {"type": "int", "default": 32},
    "bytes_most": {"type": "int", "default": 1024},
    "bytes_made": {"type": "int", "default": 128},
}
ARGUMENTS = {"keys": {"type": "list", "elements": "dict", "options": KEY, "required": True, "no_log": False}}
MODE = 0o400


class KeyTrouble(MusterError):
    """A key that cannot be used."""


def write(path: str, data: bytes, owner: str) -> None:
    """Write a key in one step, readable by its owner alone from the first moment on."""
    try:
        user = pwd.getpwnam(owner)
    except KeyError:
        # Created for a database host before this host has the package with the user; file_set gives it its owner later.
        user = pwd.getpwuid(0)
    replace_file(path, data, MODE, (user.pw_uid, user.pw_gid))


def make(keys: list[dict[str, Any]], check: bool) -> dict[str, Any]:
    """Create what is missing; return the task's result."""
    contents, created = {}, []
    for key in keys:
        path = Path(key["path"])
        if not path.exists():
            created.append(key["path"])
            contents[key["path"]] = ""
            if check:
                continue
            write(key["path"], os.urandom(key["bytes_made"]), key["owner"])
        data = path.read_bytes()
        least, most = key["bytes_least"], key["bytes_most"]
        if not least <= len(data) <= most:
            raise KeyTrouble(f"{path} has {len(data)} bytes, expected {least} to {most}; it was not changed")
        contents[key["path"]] = base64.b64encode(data).decode()
    return {"changed": bool(created), "written": created, "contents": contents}


def main() -> None:
    """Create keys."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result = make(module.params["keys"], module.check_mode)
    except KeyTrouble as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"a key cannot be read or written: {exc.filename}: {exc.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
