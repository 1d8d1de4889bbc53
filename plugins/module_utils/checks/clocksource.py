"""Does the kernel read the time from the declared clock?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..words.expectations import Expectations
from ..words.finding import FAIL, PASS, Finding

NAME = "clocksource"
RULES = 1
PROBES: tuple[str, ...] = ("clocksource",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, unless the class declares no clock source."""
    return [] if expect.clock.clocksource is None else ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the names: a kernel that found the TSC unstable falls back to a clock that costs a microsecond a read."""
    found, wanted = values["clocksource"], expect.clock.clocksource
    if found != wanted:
        why = "the kernel runs on another clock source; its log says why it left the first (clocksource, tsc)"
        return [Finding(NAME, "host", FAIL, found, wanted, "", why, "investigate")]
    return [Finding(NAME, "host", PASS, found, wanted)]
