"""Lookup of the node program as a file."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.plugin_utils.zipapp import ZipappError, build

DOCUMENTATION = """
name: zipapp
short_description: Build the program that nodes run and return its path
version_added: 0.1.0
author: The Muster developers
description:
  - Builds C(muster), one executable file made of the collection's own Python, and returns where it lies on the control
    machine.
  - The same collection gives the same bytes on every machine. The file is kept in C($XDG_CACHE_HOME/muster) or
    C(~/.cache/muster), in a directory named after its content.
options: {}
"""

EXAMPLES = """
- name: Install the program
  ansible.builtin.copy:
    src: "{{ lookup('muster.cluster.zipapp') }}"
    dest: /usr/libexec/muster/
    mode: "0755"
"""

RETURN = """
_raw:
  description: Path of the file, whose last part is C(muster).
  type: list
  elements: path
  sample: [/home/operator/.cache/muster/0a1b2c3d4e5f6071/muster]
"""


class LookupModule(LookupBase):
    """Gives the path of the freshly built program."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return a list of that one path."""
        if terms or kwargs:
            raise AnsibleLookupError(f"zipapp: {[*terms, *kwargs]} given, expected no terms and no options")
        try:
            return [str(written(build(), cache_directory()))]
        except (ZipappError, OSError) as exc:
            raise AnsibleLookupError(f"zipapp: {exc}") from exc


def cache_directory() -> Path:
    """Return where built programs are kept: a directory of the user's own, as what lies there runs as root on nodes."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster"


def written(content: bytes, cache: Path, name: str = "muster", mode: int = 0o755) -> Path:
    """Return a file with that content; several processes may ask at once."""
    path = cache / hashlib.sha256(content).hexdigest()[:16] / name
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, mode)
        Path(temporary).replace(path)
    return path
