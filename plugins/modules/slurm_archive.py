#!/usr/bin/python
"""Module slurm_archive: a copy of the controller's state or of slurmdbd's database, and its return."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_archive
short_description: Save or restore Slurm's state directory or accounting database
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - V(saved) writes a consistent archive while Slurm runs, readable by root only.
  - V(restored) replaces the present contents with an archive, and keeps them. The daemon must be stopped. The archive
    is verified first.
attributes:
  check_mode: {support: full, description: Verifies the archive and changes nothing.}
  diff_mode: {support: none, description: Archives are not text.}
options:
  state: {description: Wanted state., type: str, choices: [saved, restored], required: true}
  path: {description: The archive on this host., type: path, required: true}
  directory: {description: "The controller's StateSaveLocation.", type: path}
  database: {description: Name of the database in this host's MariaDB., type: str}
  owner: {description: Owner of the state directory., type: str, default: slurm}
  keep: {description: Directory for a dump of the replaced database., type: path, default: /var/lib/muster/backup}
  timeout_seconds: {description: Time limit of a dump or its restore., type: float, default: 3600}
"""

EXAMPLES = r"""
- name: Save the controller's state
  muster.cluster.slurm_archive:
    state: saved
    directory: /var/lib/slurm/slurmctld
    path: /var/lib/muster/backup/state.tar.gz
"""

RETURN = r"""
kept:
  description: Path of the replaced contents; empty if there were none.
  returned: always
  type: str
  sample: /var/lib/slurm/slurmctld/.before-restore.1
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Host, LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_archive import (
    ArchiveError,
    check_database,
    check_state,
    restore_database,
    restore_state,
    save_database,
    save_state,
    state_files,
)

ARGUMENTS = {
    "state": {"type": "str", "choices": ["saved", "restored"], "required": True},
    "path": {"type": "path", "required": True},
    "directory": {"type": "path"},
    "database": {"type": "str"},
    "owner": {"type": "str", "default": "slurm"},
    "keep": {"type": "path", "default": "/var/lib/muster/backup"},
    "timeout_seconds": {"type": "float", "default": 3600},
}


def check_stopped(host: Host, daemon: str) -> None:
    """Raise ArchiveError while a daemon runs that would write over what is restored."""
    if any(host.read(path).stdout.strip() == daemon for path in host.paths("/proc/[0-9]*/comm")):
        raise ArchiveError(f"{daemon} is running; nothing was restored")


def save(params: dict[str, Any], check: bool) -> None:
    """Write the archive."""
    if check:
        if params["directory"]:
            state_files(params["directory"])
        return
    Path(params["path"]).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if params["directory"]:
        save_state(params["directory"], params["path"])
    else:
        save_database(params["database"], params["path"], params["timeout_seconds"])


def restore(params: dict[str, Any], check: bool) -> Path | None:
    """Put the archive in place; return where what was there lies now."""
    path, seconds = params["path"], params["timeout_seconds"]
    if check:
        (check_state if params["directory"] else check_database)(path)
        return None
    check_stopped(LocalHost(), "slurmctld" if params["directory"] else "slurmdbd")
    if params["directory"]:
        return restore_state(params["directory"], path, params["owner"])
    return restore_database(params["database"], path, params["keep"], seconds)


def main() -> None:
    """Save or restore."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_one_of=[("directory", "database")],
        mutually_exclusive=[("directory", "database")],
    )
    kept = None
    try:
        if module.params["state"] == "saved":
            save(module.params, module.check_mode)
        else:
            kept = restore(module.params, module.check_mode)
    except (ArchiveError, OSError, KeyError) as exc:
        module.fail_json(msg=str(exc), kept="")
    module.exit_json(changed=True, kept=str(kept or ""))


if __name__ == "__main__":
    main()
