"""Is there room where Muster, Slurm and jobs write?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.disk_free import file_system_of
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "disk"
RULES = 2
PROBES: tuple[str, ...] = ("disk_free",)

_GIB = 1024**3


def subjects(expect: Expectations) -> Sequence[str]:
    """Return one part for each declared path."""
    return [f"disk {item.path}" for item in expect.disk.paths]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the free space of the file system that holds each path."""
    return [_finding(item.path, item.free_gib, values["disk_free"]) for item in expect.disk.paths]


def _finding(path: str, wanted: float, free: Mapping[str, int]) -> Finding:
    mount = file_system_of(path, free)
    if mount is None:
        why = f"no local file system holds {path}"
        return Finding(NAME, f"disk {path}", INCOMPLETE, None, wanted, "GiB", why, "investigate")
    # Rounded down: what is short of the limit must not read as if it reached it.
    measured = free[mount] * 100 // _GIB / 100
    if free[mount] < wanted * _GIB:
        return Finding(
            NAME, f"disk {path}", FAIL, measured, wanted, "GiB", f"too little space left on {mount}", "investigate"
        )
    return Finding(NAME, f"disk {path}", PASS, measured, wanted, "GiB")
