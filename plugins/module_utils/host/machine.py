"""What changing a port takes of a host beyond reading it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from .host import Host, LocalHost


class Machine(Host, Protocol):
    """A host on which files of sysfs, configfs and procfs can be written."""

    def write(self, path: str, text: str) -> str:
        """Write ``text`` to a file that exists and return "", or what the kernel says against it."""


class LocalMachine(LocalHost):
    """The host this process runs on; ``root`` stands before what is written as before what is read."""

    def write(self, path: str, text: str) -> str:
        try:
            # Never made: a file that sysfs does not have is a setting that the driver does not have.
            with Path(self.root, path.lstrip("/")).open("r+", encoding="ascii") as file:
                file.write(text + "\n")
                file.truncate()
        except OSError as exc:
            return exc.strerror or str(exc)
        return ""
