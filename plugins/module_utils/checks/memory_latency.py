"""Does the memory of every NUMA node answer as soon as the class says, and as soon as that of the others?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..stress.memory_latency import Measured
from ..words.expectations import Expectations, MemoryLatency, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "memory_latency"
RULES = 1
PROBES: tuple[str, ...] = ("memory_latency",)
_UNIT = "ns per item"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NUMA nodes of the class."""
    own = expect.memory_latency
    return [f"numa {number}" for number in range(own.nodes)] if own else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare each NUMA node with the class limit where one is declared, and with the quickest of the host."""
    measured: Mapping[str, Measured] = values["memory_latency"]
    own = stated(expect.memory_latency)
    parts = [part for part in subjects(expect) if part in measured]
    times = {
        part: found.seconds * 1e9 / (found.count * own.items)
        for part in parts
        if not isinstance(found := measured[part], str)
    }
    best = min(times.values()) if len(times) > 1 else None
    return [
        _judged(part, times[part], own, best)
        if part in times
        else Finding(NAME, part, INCOMPLETE, None, own.ns_per_item, _UNIT, str(measured[part]), "investigate")
        for part in parts
    ]


def _judged(part: str, time: float, own: MemoryLatency, best: float | None) -> Finding:
    limit, margin, shown = own.ns_per_item, own.margin_percent, round(time, 1)
    if limit is not None and time > limit:
        return Finding(NAME, part, FAIL, shown, limit, _UNIT, "above the class limit", "investigate")
    if best is not None and time > best * (100 + margin) / 100:
        why = (
            f"more than {margin:g} % above the quickest NUMA node of the host, {best:.1f} ns: a slow or misplaced DIMM?"
        )
        return Finding(NAME, part, FAIL, shown, limit, _UNIT, why, "investigate")
    if limit is None and best is None:
        why = "no class limit, and no other NUMA node was measured to compare"
        return Finding(NAME, part, INCOMPLETE, shown, None, _UNIT, why, "investigate")
    return Finding(NAME, part, PASS, shown, limit, _UNIT)
