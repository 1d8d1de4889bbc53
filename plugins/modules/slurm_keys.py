#!/usr/bin/python
"""Module slurm_keys: the secrets that all hosts of a Slurm cluster share."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_keys
short_description: Create the keys of munge and of Slurm's tokens once, and write them on hosts
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - V(made) runs on one host of the cluster. It creates missing keys there and returns all keys, for a task with
    C(no_log).
  - V(present) writes keys on a host, readable only by their owner. Units that were started before their key was written
    are restarted, also after a run that was killed in between.
  - A key with an invalid size is an error, and nothing is written.
attributes:
  check_mode: {support: full, description: Shows which keys would be written.}
  diff_mode: {support: none, description: Keys are secrets.}
options:
  state: {description: Wanted state., type: str, choices: [made, present], default: present}
  keys:
    description: The keys.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Path of the key., type: path, required: true}
      owner: {description: "Owner of the file, with its own group.", type: str, required: true}
      content: {description: Base64 of the key; empty if none is given., type: str, default: ""}
      bytes_least: {description: Smallest size., type: int, default: 32}
      bytes_most: {description: Largest size., type: int, default: 1024}
      bytes_made: {description: Size of a created key., type: int, default: 128}
      units: {description: Units that read the key when they start., type: list, elements: str, default: []}
"""

EXAMPLES = r"""
- name: Make the key once
  muster.cluster.slurm_keys:
    state: made
    keys: [{path: /etc/munge/munge.key, owner: munge}]
  delegate_to: ctl
  run_once: true
  no_log: true
  register: made

- name: Write the key
  muster.cluster.slurm_keys:
    keys:
      - path: /etc/munge/munge.key
        owner: munge
        content: "{{ made.contents['/etc/munge/munge.key'] }}"
        units: [munge]
"""

RETURN = r"""
contents:
  description: Base64 of the keys by path; empty in check mode for a missing key.
  returned: with state made
  type: dict
  sample: {/etc/munge/munge.key: "(a secret)"}
written:
  description: Paths that were written.
  returned: always
  type: list
  elements: str
  sample: [/etc/munge/munge.key]
restarted: {description: Units that were restarted., returned: always, type: list, elements: str, sample: [munge]}
"""

import base64
import binascii
import os
import pwd
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Host, LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.systemd import Systemd, SystemdError
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError

KEY = {
    "path": {"type": "path", "required": True},
    "owner": {"type": "str", "required": True},
    "content": {"type": "str", "default": "", "no_log": True},
    "bytes_least": {"type": "int", "default": 32},
    "bytes_most": {"type": "int", "default": 1024},
    "bytes_made": {"type": "int", "default": 128},
    "units": {"type": "list", "elements": "str", "default": []},
}
ARGUMENTS = {
    "state": {"type": "str", "choices": ["made", "present"], "default": "present"},
    "keys": {"type": "list", "elements": "dict", "options": KEY, "required": True, "no_log": False},
}
MODE = 0o400


class KeyTrouble(MusterError):
    """A key that cannot be used."""


def decoded(key: dict[str, Any]) -> bytes:
    """Return the given key; raises KeyTrouble for what is not Base64 or of a size that is refused."""
    try:
        data = base64.b64decode("".join(key["content"].split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise KeyTrouble(f"the key for {key['path']} is not Base64; nothing was written") from exc
    if not key["bytes_least"] <= len(data) <= key["bytes_most"]:
        raise KeyTrouble(
            f"the key for {key['path']} has {len(data)} bytes, expected {key['bytes_least']} to {key['bytes_most']}; "
            "nothing was written"
        )
    return data


def written(path: str, owner: str) -> tuple[bytes, bool] | None:
    """Return the key that is there, and whether it is its owner's alone; None where there is none."""
    try:
        status = Path(path).stat()
        user = pwd.getpwnam(owner)
        return Path(path).read_bytes(), (status.st_uid, status.st_mode & 0o7777) == (user.pw_uid, MODE)
    except (FileNotFoundError, KeyError):
        return None


def write(path: str, data: bytes, owner: str) -> None:
    """Write a key in one step, readable by its owner alone from the first moment on."""
    try:
        user = pwd.getpwnam(owner)
    except KeyError:
        # Made before the package that brings the user: the package then takes it over, or the next step does.
        user = pwd.getpwuid(0)
    replace_file(path, data, MODE, (user.pw_uid, user.pw_gid))


def outdated(host: Host, unit: str, path: str) -> bool:
    """Return whether a unit runs since before its key was written."""
    properties = Systemd(host).properties(unit, ("ActiveState", "ActiveEnterTimestampMonotonic"))
    if properties.get("ActiveState") != "active" or not Path(path).exists():
        return False
    running = time.clock_gettime(time.CLOCK_MONOTONIC) - int(properties["ActiveEnterTimestampMonotonic"]) / 1e6
    return time.time() - running < Path(path).stat().st_mtime


def make(keys: list[dict[str, Any]], check: bool) -> dict[str, Any]:
    """Make what is missing; return the task's result."""
    contents, new = {}, []
    for key in keys:
        path = key["path"]
        if not key["content"] and not Path(path).exists():
            new.append(path)
            contents[path] = ""
            if not check:
                write(path, os.urandom(key["bytes_made"]), key["owner"])
        if not key["content"] and Path(path).exists():
            contents[path] = base64.b64encode(Path(path).read_bytes()).decode()
    return {"changed": bool(new), "written": new, "restarted": [], "contents": contents}


def bring(host: Host, keys: list[dict[str, Any]], check: bool) -> dict[str, Any]:
    """Write what differs and restart what reads it; return the task's result."""
    # All are looked at before the first is written. One without content is yet to be made, in check mode.
    wanted = [(key, decoded(key)) for key in keys if key["content"]]
    differ = [(key, data) for key, data in wanted if written(key["path"], key["owner"]) != (data, True)]
    units = {unit: key["path"] for key in keys for unit in key["units"]}
    late = [unit for unit, path in units.items() if outdated(host, unit, path)] if check else []
    if not check:
        for key, data in differ:
            write(key["path"], data, key["owner"])
        late = [unit for unit, path in units.items() if outdated(host, unit, path)]
        for unit in late:
            try:
                Systemd(host).restart(unit)
            except SystemdError as exc:
                raise KeyTrouble(f"{unit} does not start with its key: {exc}") from exc
    missing = [key["path"] for key in keys if not key["content"]] if check else []
    paths = [key["path"] for key, _data in differ] + missing
    return {"changed": bool(paths or late), "written": paths, "restarted": late}


def main() -> None:
    """Make or write keys."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    keys = module.params["keys"]
    try:
        if module.params["state"] == "made":
            result = make(keys, module.check_mode)
        elif any(not key["content"] for key in keys) and not module.check_mode:
            raise KeyTrouble(f"no key is given for {', '.join(key['path'] for key in keys if not key['content'])}")
        else:
            result = bring(LocalHost(), keys, module.check_mode)
    except KeyTrouble as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"a key cannot be read or written: {exc.filename}: {exc.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
