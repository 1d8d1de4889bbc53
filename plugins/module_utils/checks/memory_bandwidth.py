"""Is the memory of every NUMA node as fast as the class says, and as that of the others?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..stress.memory_bandwidth import Rate
from ..words.expectations import Expectations, MemoryBandwidth, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "memory_bandwidth"
RULES = 1
PROBES: tuple[str, ...] = ("memory_bandwidth",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NUMA nodes of the class."""
    own = expect.memory_bandwidth
    return [f"numa {number}" for number in range(own.nodes)] if own else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare each NUMA node with the class floor where one is declared, and with the fastest of the host."""
    rates: Mapping[str, Rate] = values["memory_bandwidth"]
    own = stated(expect.memory_bandwidth)
    parts = [part for part in subjects(expect) if part in rates]
    numbers = [rate for part in parts if not isinstance(rate := rates[part], str)]
    best = max(numbers) if len(numbers) > 1 else None
    return [_judged(part, rates[part], own, best) for part in parts]


def _judged(part: str, rate: Rate, own: MemoryBandwidth, best: float | None) -> Finding:
    floor = own.read_gb_per_s
    if isinstance(rate, str):
        return Finding(NAME, part, INCOMPLETE, None, floor, "GB/s read", rate, "investigate")
    shown = round(rate, 2)
    if floor is not None and rate < floor:
        return Finding(NAME, part, FAIL, shown, floor, "GB/s read", "below the class floor", "investigate")
    margin = own.margin_percent
    if best is not None and rate < best * (100 - margin) / 100:
        why = (
            f"more than {margin:g} % below the fastest NUMA node of the host, {best:.1f} GB/s: a missing or slow DIMM?"
        )
        return Finding(NAME, part, FAIL, shown, floor, "GB/s read", why, "investigate")
    if floor is None and best is None:
        why = "no class floor, and no other NUMA node was measured to compare"
        return Finding(NAME, part, INCOMPLETE, shown, None, "GB/s read", why, "investigate")
    return Finding(NAME, part, PASS, shown, floor, "GB/s read")
