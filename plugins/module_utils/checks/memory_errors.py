"""Has the kernel counted memory errors since it started?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.edac import Counts, Edac
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "memory_errors"
RULES = 1
PROBES: tuple[str, ...] = ("edac",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, unless the class has no error counters (guests of a cloud)."""
    return [] if expect.memory.errors is None else ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge each DIMM and each controller: what the hardware cannot place is counted for the controller alone."""
    found: Edac = values["edac"]
    limits = stated(expect.memory.errors)
    uncorrectable, correctable = limits.uncorrectable, limits.correctable_per_dimm
    findings = []
    for counts in found.dimms:
        if (counts.uncorrectable or 0) > uncorrectable:
            why = f"uncorrectable memory errors of {counts.label} above the class limit"
            findings.append(_finding(counts, counts.uncorrectable, uncorrectable, why))
        elif (counts.correctable or 0) > correctable:
            why = f"correctable memory errors of {counts.label} above the class limit"
            findings.append(_finding(counts, counts.correctable, correctable, why))
    return [*findings, _host(found, [finding.subject for finding in findings], uncorrectable, correctable)]


def _finding(counts: Counts, measured: int | None, limit: int, why: str) -> Finding:
    return Finding(NAME, f"dimm {counts.label}", FAIL, measured, limit, "errors", why, "replace")


def _host(found: Edac, faulty: Sequence[str], uncorrectable: int, correctable: int) -> Finding:
    lost = sum(counts.uncorrectable or 0 for counts in found.controllers)
    if faulty:
        why = f"above the class limit: {', '.join(faulty)}"
        return Finding(NAME, "host", FAIL, f"{len(faulty)} faulty modules", "none", "", why, "replace")
    if lost > uncorrectable:
        where = ", ".join(counts.label for counts in found.controllers if counts.uncorrectable)
        why = f"uncorrectable memory errors of {where} above the class limit; the hardware did not report which DIMM"
        return Finding(NAME, "host", FAIL, lost, uncorrectable, "errors", why, "investigate")
    unplaced = _unplaced(found)
    if unplaced > correctable:
        why = "correctable memory errors above the class limit; the hardware did not report which DIMM"
        return Finding(NAME, "host", FAIL, unplaced, correctable, "errors", why, "investigate")
    unread = [counts.label for counts in (*found.controllers, *found.dimms) if None in _numbers(counts)]
    if unread:
        why = f"no count of {', '.join(unread[:4])}{' and others' if len(unread) > 4 else ''}"
        return Finding(NAME, "host", INCOMPLETE, None, uncorrectable, "errors", why, "investigate")
    counted = [counts for counts in (*found.dimms, *found.controllers) if counts.correctable]
    seen = [f"{counts.label} {counts.correctable}" for counts in counted]
    why = f"correctable errors within the class limit, to be watched: {', '.join(seen[:8])}" if seen else ""
    return Finding(NAME, "host", PASS, lost, uncorrectable, "errors", why, "investigate" if seen else "none")


def _unplaced(found: Edac) -> int:
    """Return how many correctable errors the controllers counted that no DIMM shows."""
    counted, placed = (sum(counts.correctable or 0 for counts in parts) for parts in (found.controllers, found.dimms))
    return counted - placed


def _numbers(counts: Counts) -> tuple[int | None, int | None]:
    return counts.correctable, counts.uncorrectable
