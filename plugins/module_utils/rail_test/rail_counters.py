"""Counters of a rail's port: what the RDMA device counts, and bytes and pauses by priority as ethtool shows them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..host.rail_names import NamedRail

PRIORITIES = range(8)
# As mlx5 calls them: all that the port sent and received with a priority, RDMA included.
PRIORITY_COUNTERS = tuple(
    f"{direction}_prio{priority}_{what}"
    for priority in PRIORITIES
    for direction in ("rx", "tx")
    for what in ("bytes", "pause")
)
# Seconds that ethtool may take: it asks the firmware.
ETHTOOL_SECONDS = 10
_LINE = re.compile(r"\s*(\w+): ([0-9]+)\s*")


def read_counters(rail: NamedRail, names: Iterable[str], priorities: bool, path: str, root: str) -> dict[str, int]:
    """Return the counters of a rail that could be read, by name.

    ``names`` are files of the port's ``counters`` and ``hw_counters``; with ``priorities`` those of PRIORITY_COUNTERS
    are read from its network interface. ``path`` is where ethtool is looked for, ``root`` stands before /sys.
    """
    found: dict[str, int] = {}
    if rail.device is None:
        return found
    place = Path(root, "sys/class/infiniband", rail.device, "ports/1")
    for name in names:
        for kind in ("hw_counters", "counters"):
            try:
                text = (place / kind / name).read_text(encoding="ascii").strip()
            except (OSError, ValueError):
                continue
            if text.isdigit():
                found[name] = int(text)
                break
    if priorities and rail.interface:
        found.update(_of_priorities(rail.interface, path))
    return found


def _of_priorities(interface: str, path: str) -> dict[str, int]:
    try:
        done = subprocess.run(
            ["ethtool", "-S", interface],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ETHTOOL_SECONDS,
            env={**os.environ, "PATH": path, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return parse_ethtool(done.stdout.decode(errors="replace")) if done.returncode == 0 else {}


def parse_ethtool(text: str) -> dict[str, int]:
    """Return the bytes and pauses by priority in what ``ethtool -S`` prints (``     rx_prio3_bytes: 1024``)."""
    matches = [match for match in map(_LINE.fullmatch, text.splitlines()) if match]
    return {match.group(1): int(match.group(2)) for match in matches if match.group(1) in PRIORITY_COUNTERS}


def growth(wanted: Iterable[str], before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, Any]:
    """Return by how much each wanted counter grew, where it did, and those that are missing or went back."""
    grown: dict[str, int] = {}
    missing: list[str] = []
    for name in wanted:
        if name not in before or name not in after or after[name] < before[name]:
            missing.append(name)
        elif after[name] > before[name]:
            grown[name] = after[name] - before[name]
    return {"grown": grown, "missing": missing}
