"""Is every storage tier mounted over all its ports, writable, in time, with room left, and is the array below it whole?

What a server does is no node's fault: a shared tier that is not there or gives no answer, or a late one, leaves the
question open, as it may be back at any time; how full it is is only said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..formats.mounts import LOCAL, identity_difference, missing_ports
from ..probes.mounts import Array, Used
from ..words.expectations import Expectations, Mount
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "mounts"
RULES = 3
PROBES: tuple[str, ...] = ("mounts",)

# States in which a RAID0 array serves (Linux, Documentation/admin-guide/md.rst).
_SERVING = ("clean", "active", "active-idle", "write-pending")
# Answers that say something of the server alone.
_FULL = ("ENOSPC", "EDQUOT")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return one part for each declared mount."""
    return [f"mount {mount.path}" for mount in expect.mounts or ()]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge each mount."""
    used: Mapping[str, Used] = values["mounts"]
    drives = expect.nvme.count if expect.nvme else None
    arrays = sum(mount.kind == LOCAL for mount in expect.mounts or ())
    return [
        # Several arrays share the drives of the class, in a way that only the host knows.
        _judged(mount, used[mount.path], drives if arrays == 1 else None)
        for mount in expect.mounts or ()
        if mount.path in used
    ]


def _judged(wanted: Mount, used: Used, drives: int | None) -> Finding:
    part, local = f"mount {wanted.path}", wanted.kind == LOCAL

    def found(verdict: str, measured: Any, expected: Any, unit: str, why: str) -> Finding:
        return Finding(NAME, part, verdict, measured, expected, unit, f"tier {wanted.tier}: {why}", "investigate")

    if used.mount is None:
        why = f"nothing is mounted at {wanted.path}"
        return found(FAIL if local else INCOMPLETE, "not mounted", wanted.filesystem, "", why)
    if wrong := identity_difference(wanted, used.mount):
        return found(FAIL, used.mount.filesystem, wanted.filesystem, "", wrong)
    declared, missing = missing_ports(wanted, used.mount)
    if missing:
        why = f"{wanted.path} is not mounted over all remoteports: {_listed(missing)}"
        return found(FAIL, declared - len(missing), declared, "addresses", why)
    if used.mount.read_only:
        return found(FAIL, "read-only", "writable", "", f"{wanted.path} is mounted read-only")
    if local:
        broken = _array_fault(used.array, drives)
        if broken:
            return found(FAIL, broken[0], broken[1], broken[2], broken[3])
    # A shared one may be slow for all of its clients.
    verdict = FAIL if local else INCOMPLETE
    if used.stuck:
        what = "did not answer in time" if used.stuck == "mount" else "did not take a small write in time"
        return found(verdict, None, wanted.write_ms, "ms", f"{wanted.path} {what}")
    if used.error:
        fault = INCOMPLETE if used.errno in _FULL and not local else FAIL
        return found(fault, used.errno or used.error, "writable", "", f"a small write failed: {used.error}")
    if used.write_ms is None or used.free is None or not used.size:
        return found(INCOMPLETE, None, wanted.write_ms, "ms", "its answer has neither duration nor free space")
    if used.write_ms > wanted.write_ms:
        return found(verdict, used.write_ms, wanted.write_ms, "ms", "a small write took too long")
    # Rounded down: what is short of the limit must not read as if it reached it.
    percent = used.free * 1000 // used.size / 10
    if used.free * 100 < wanted.free_percent * used.size:
        why = f"too little space left on {wanted.path}"
        return found(FAIL if local else PASS, percent, wanted.free_percent, "% free", why)
    return Finding(NAME, part, PASS, used.write_ms, wanted.write_ms, "ms")


def _listed(missing: Sequence[str]) -> str:
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"without {', '.join(missing[:3])}{more}"


def _array_fault(array: Array | None, drives: int | None) -> tuple[Any, Any, str, str] | None:
    """Return measured, expected, unit and reason of what is wrong with the array below a node's own file system."""
    if array is None:
        return "no array", "raid0", "", "it lies on no md array"
    if array.state not in _SERVING:
        return array.state or "unread", "clean", "", f"array state is {array.state or 'unread'}"
    if array.disks is None or array.present < array.disks:
        of = "unread" if array.disks is None else array.disks
        return array.present, of, "drives", f"{array.present} of {of} drives of the array are there"
    if drives is not None and array.disks != drives:
        return array.disks, drives, "drives", f"the array has {array.disks} drives, the class {drives}"
    return None
