"""``df``: free space of every local file system.

Local ones only (``-l``): asking a dead NFS server would hang the examination.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "disk_free"
ARGV = ("df", "-l", "-P", "-B1")
TIMEOUT_SECONDS = 10.0

# POSIX layout: source, blocks, used, available, capacity, mount point (which may hold blanks).
_LINE = re.compile(r"\S.*?\s+(\d+)\s+(\d+)\s+(-?\d+)\s+(?:\d+%|-)\s+(/.*)", re.ASCII)


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> dict[str, int]:
    """Return bytes available to an ordinary user by mount point; raises Unreadable."""
    require_success(output)
    header, *lines = output.stdout.splitlines() or [""]
    if "Mounted on" not in header or not output.stdout.endswith("\n"):
        raise Unreadable(f"begins with {header[:60]!r}, expected df's heading and whole lines")
    free: dict[str, int] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if not match:
            raise Unreadable(f"line {line[:80]!r}, expected six columns")
        blocks, used, available = (int(match.group(column)) for column in (1, 2, 3))
        if used + available > blocks:
            raise Unreadable(f"line {line[:80]!r}: more used and available than there is")
        # A mount hides an earlier one at the same place.
        free[match.group(4)] = int(match.group(3))
    return free


def file_system_of(path: str, free: Mapping[str, int]) -> str | None:
    """Return the mount point that holds ``path``: the longest one it lies under; None if there is none."""
    wanted = path.rstrip("/") + "/"
    holding = [mount for mount in free if wanted.startswith(mount.rstrip("/") + "/")]
    return max(holding, key=len, default=None)
