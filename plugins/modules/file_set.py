#!/usr/bin/python
"""Module file_set: a set of files, written together."""

from __future__ import annotations

DOCUMENTATION = r"""
module: file_set
short_description: Write a set of small files and remove files that no longer belong to it
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Writes all files in one task, because a task for each file costs a connection each. The files belong to the user of
    the task. Missing directories are created.
attributes:
  check_mode: {support: full, description: Shows what would change.}
  diff_mode: {support: full, description: Shows the files before and after.}
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Path of the file., type: path, required: true}
      content: {description: Content of the file., type: str, required: true}
      mode: {description: Permissions in octal digits., type: str, default: "0644"}
  absent:
    description: Glob patterns. Matching files that are not in O(files) are removed.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Write the rails' networks
  muster.cluster.file_set:
    files:
      - path: /etc/systemd/network/50-muster-mlx5_0.network
        content: |
          [Match]
          Name=rdma0
    absent: [/etc/systemd/network/50-muster-*.network]
"""

RETURN = r"""
written:
  description: Paths of new files, and of files whose content or mode changed.
  returned: always
  type: list
  elements: str
  sample: [/etc/systemd/network/50-muster-mlx5_0.network]
removed:
  description: Paths of the files that were removed.
  returned: always
  type: list
  elements: str
  sample: []
"""

import glob
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file

ARGUMENTS = {
    "files": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "path": {"type": "path", "required": True},
            "content": {"type": "str", "required": True},
            "mode": {"type": "str", "default": "0644"},
        },
    },
    "absent": {"type": "list", "elements": "str", "default": []},
}


def present(path: str) -> tuple[str | None, int | None]:
    """Return content and permissions of a file, None where it is none."""
    place = Path(path)
    if not place.is_file() or place.is_symlink():
        return None, None
    return place.read_text(encoding="utf-8", errors="replace"), place.stat().st_mode & 0o7777


def main() -> None:
    """Write and remove."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    files: list[dict[str, Any]] = module.params["files"]
    wanted = {each["path"] for each in files}
    written, removed, differences = [], [], []
    try:
        for each in files:
            mode = int(each["mode"], 8)
            content, permissions = present(each["path"])
            if (content, permissions) != (each["content"], mode):
                written.append(each["path"])
                differences.append(_difference(each["path"], content, each["content"], permissions, mode))
                if not module.check_mode:
                    replace_file(each["path"], each["content"], mode)
        found = {path for pattern in module.params["absent"] for path in glob.glob(pattern)}  # noqa: PTH207 -- text
        for path in sorted(found - wanted):
            removed.append(path)
            content, permissions = present(path)
            differences.append(_difference(path, content, "", permissions, None))
            if not module.check_mode:
                Path(path).unlink()
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{exc}", written=written, removed=removed)
    module.exit_json(changed=bool(differences), written=written, removed=removed, diff=differences)


def _difference(path: str, before: str | None, after: str, was: int | None, mode: int | None) -> dict[str, str]:
    shown = [f"{path} ({'absent' if each is None else f'{each:04o}'})" for each in (was, mode)]
    return {"before_header": shown[0], "before": before or "", "after_header": shown[1], "after": after}


if __name__ == "__main__":
    main()
