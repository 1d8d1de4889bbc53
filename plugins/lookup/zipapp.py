"""Lookup of the node program as a file."""

from __future__ import annotations

DOCUMENTATION = """
name: zipapp
short_description: Build the program that nodes run and return its path
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
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

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import ZipappError, build, digest_of


class LookupModule(LookupBase):
    """Gives the path of the freshly built program."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return a list of that one path."""
        if terms or kwargs:
            raise AnsibleLookupError(f"zipapp: {[*terms, *kwargs]} given, expected no terms and no options")
        try:
            return [str(program(cache_directory()))]
        except (ZipappError, OSError) as exc:
            raise AnsibleLookupError(f"zipapp: {exc}") from exc


def cache_directory() -> Path:
    """Return where built programs are kept: a directory of the user's own, as what lies there runs as root on nodes."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster"


def program(cache: Path) -> Path:
    """Return the program as a file: the one that was built of the same tree, or a new one.

    Every host of every task asks for it, each in a process of its own, and to follow all imports takes half a second.
    """
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    note = cache / f"{digest_of()}.sha256"
    if _private(cache):
        with contextlib.suppress(FileNotFoundError):
            digest = note.read_text(encoding="utf-8")
            path = cache / digest[:16] / "muster"
            if hashlib.sha256(path.read_bytes()).hexdigest() == digest:
                return path
    content = build()
    path = written(content, cache)
    replace_file(note, hashlib.sha256(content).hexdigest().encode(), 0o600)
    return path


def _private(cache: Path) -> bool:
    """Return whether nobody else can have written what lies there: the program runs as root on nodes."""
    place = cache.stat()
    return place.st_uid == os.getuid() and not place.st_mode & 0o022


def written(content: bytes, cache: Path, name: str = "muster", mode: int = 0o755) -> Path:
    """Return a file with that content; several processes may ask at once."""
    path = cache / hashlib.sha256(content).hexdigest()[:16] / name
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, content, mode)
    return path
