"""Archives as hosts make them, and an ssh that gives them back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Collected, write_archive

# The host is the last but one argument: user@NAME answers as NAME says.
_SSH = """#!/bin/sh
for word; do host=$remote; remote=$word; done
echo "$*" >>"{place}/asked"
name=${{host#*@}}
case $name in
    gone) echo "ssh: connect to host gone port 22: Connection refused" >&2; exit 255 ;;
    banner) echo "Welcome to gpu-01"; exec cat "{place}/gpu-01.tar.gz" ;;
    cut) exec head -c 60 "{place}/gpu-01.tar.gz" ;;
    silent) exit 0 ;;
    slow) exec sleep 60 ;;
    here) exec sh -c "$remote" ;;
    *) exec cat "{place}/$name.tar.gz" ;;
esac
"""


def archive_of(host: Collected, place: Path) -> Path:
    """Write a host's archive to a directory, under its name."""
    path = place / f"{host.host}.tar.gz"
    with path.open("wb") as file:
        write_archive(file, host)
    return path


def ssh_to(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an ssh first in PATH, behind which lie the archives of a directory; what it is asked is in file ``asked``."""
    tools = place / "bin"
    tools.mkdir()
    ssh = tools / "ssh"
    ssh.write_text(_SSH.format(place=place), encoding="utf-8")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
