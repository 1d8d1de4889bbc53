"""Is the clock steered from outside, and close enough?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.chrony import Tracking
from ..words.expectations import Expectations
from ..words.finding import FAIL, PASS, Finding

NAME = "clock"
RULES = 1
PROBES: tuple[str, ...] = ("chrony",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Ask for a source first: the offset of a clock that nobody steers says nothing."""
    tracking: Tracking = values["chrony"]
    limit = expect.clock.offset_ms
    if not tracking.synchronised:
        why = "chrony has no source to follow"
        return [Finding(NAME, "host", FAIL, "not synchronised", "synchronised", "", why, "investigate")]
    measured = round(tracking.offset_ms, 6)
    if tracking.offset_ms > limit:
        why = f"system clock is off by more than {limit:g} ms from {tracking.source}"
        return [Finding(NAME, "host", FAIL, measured, limit, "ms", why, "investigate")]
    return [Finding(NAME, "host", PASS, measured, limit, "ms")]
