#!/usr/bin/python
"""Module slurm_keys: the secrets that all hosts of a Slurm cluster share."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_keys
short_description: Make the keys of munge and of Slurm's tokens once, and bring them to a host
version_added: 0.1.0
author: The Muster developers
description:
  - With V(made) on one host of the cluster, keys that are neither given nor there are made there; all are returned, for
    a task with C(no_log).
  - With V(present), keys are written on a host, for their owner alone to read. Units that were started before their key
    was written are restarted, also where that was left undone by a run that was killed.
  - A key of a size that its reader refuses is an error, and nothing is written.
attributes:
  check_mode: {support: full, description: Says which keys would be written.}
  diff_mode: {support: none, description: Keys are secrets.}
options:
  state: {description: What is wanted., type: str, choices: [made, present], default: present}
  keys:
    description: The keys.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Where., type: path, required: true}
      owner: {description: "User that reads it; its own group is the file's.", type: str, required: true}
      content: {description: Base64 of the key; empty where none is given., type: str, default: ""}
      bytes_least: {description: Smallest size., type: int, default: 32}
      bytes_most: {description: Largest size., type: int, default: 1024}
      bytes_made: {description: Size of a key that is made., type: int, default: 128}
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
  description: Base64 of the keys by path; empty in check mode for one that is yet to be made.
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
import tempfile
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host import Host, LocalHost

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


class KeyTrouble(Exception):
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
    place = Path(path)
    try:
        user = pwd.getpwnam(owner)
    except KeyError:
        # Made before the package that brings the user: the package then takes it over, or the next step does.
        user = pwd.getpwuid(0)
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(descriptor, MODE)
            os.fchown(descriptor, user.pw_uid, user.pw_gid)
        Path(temporary).replace(place)
    except OSError:
        Path(temporary).unlink()
        raise


def outdated(host: Host, unit: str, path: str) -> bool:
    """Return whether a unit runs since before its key was written."""
    shown = host.run(["systemctl", "show", "--property=ActiveState,ActiveEnterTimestampMonotonic", unit], 30).stdout
    properties = dict(line.partition("=")[::2] for line in shown.splitlines())
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
            done = host.run(["systemctl", "restart", unit], 90)
            if done.rc != 0:
                raise KeyTrouble(f"{unit} does not start with its key: {done.error or done.stderr.strip()}")
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
