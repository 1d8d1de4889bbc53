"""Is the host's memory of the declared size?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..words.expectations import Expectations
from ..words.finding import FAIL, PASS, Finding

NAME = "memory"
RULES = 1
PROBES: tuple[str, ...] = ("meminfo",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the size; the tolerance is what firmware and kernel may take for themselves."""
    mib: int = values["meminfo"].mib
    wanted, tolerance = expect.memory.mib, expect.memory.tolerance_percent
    if abs(mib - wanted) * 100 <= wanted * tolerance:
        return [Finding(NAME, "host", PASS, mib, wanted, "MiB")]
    why = f"{'less' if mib < wanted else 'more'} than declared by over {tolerance:g} %"
    return [Finding(NAME, "host", FAIL, mib, wanted, "MiB", why, "reseat" if mib < wanted else "investigate")]
