"""Which running system this is: one root file system on one boot of a kernel."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BOOT_ID = "proc/sys/kernel/random/boot_id"
MACHINE_ID = "etc/machine-id"
CONTAINER = "run/systemd/container"
# Of containers without systemd, such as those that Ansible itself is run in.
CONTAINER_MARKS = {"podman": "run/.containerenv", "docker": ".dockerenv"}


@dataclass(frozen=True)
class RunningSystem:
    """Ids of a kernel's boot, of the installation (machine-id(5)) and of the root directory; empty if not readable.

    ``container`` is what the container's manager is called, empty on a machine: systemd, podman and docker say it by
    files (systemd's "Container Interface").
    """

    boot_id: str = ""
    machine_id: str = ""
    # Device and inode, which say something within one boot only.
    root_id: str = ""
    container: str = ""

    @classmethod
    def here(cls, root: str = "/") -> RunningSystem:
        """Return the system that this process runs on."""
        if sys.platform != "linux":
            # A control machine without a Linux kernel is none of a fleet's hosts, and has no such files.
            return cls(boot_id=sys.platform)
        status = Path(root).stat()
        return cls(
            _read(root, BOOT_ID, r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
            # An image may hold an empty file, or the word "uninitialized".
            _read(root, MACHINE_ID, r"[0-9a-f]{32}"),
            f"{status.st_dev}:{status.st_ino}",
            _container(root),
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunningSystem:
        """Return what ``to_dict`` gave; an id that is not there is empty."""
        return cls(*(str(data.get(name) or "") for name in ("boot_id", "machine_id", "root_id", "container")))

    def to_dict(self) -> dict[str, str]:
        """Return the ids by name."""
        return asdict(self)

    def may_be(self, other: RunningSystem) -> bool:
        """Return whether both may be one system; without a boot id they may.

        Containers share the boot with their host, and neither root nor installation. Clones of an image share the
        installation, and not the boot.
        """
        if not (self.boot_id and other.boot_id):
            return True
        same_installation = self.machine_id != "" and self.machine_id == other.machine_id
        return self.boot_id == other.boot_id and (same_installation or self.root_id == other.root_id)

    def runs(self, other: RunningSystem) -> bool:
        """Return whether this is the machine on which ``other`` is a container."""
        return bool(other.container and not self.container and self.boot_id == other.boot_id)


def _container(root: str) -> str:
    said = _read(root, CONTAINER, r"[\w.-]{1,40}")
    return said or next((name for name, path in CONTAINER_MARKS.items() if Path(root, path).exists()), "")


def _read(root: str, path: str, pattern: str) -> str:
    try:
        text = Path(root, path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
    return text if re.fullmatch(pattern, text) else ""
