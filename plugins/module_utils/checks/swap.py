"""Is there no more swap than declared?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.meminfo import Memory
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "swap"
RULES = 2
PROBES: tuple[str, ...] = ("meminfo",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, unless the class declares no limit."""
    return [] if expect.memory.swap_mib is None else ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare what may be swapped out: a rank whose memory is on a disk holds up all the others."""
    memory: Memory = values["meminfo"]
    limit = stated(expect.memory.swap_mib)
    if memory.swap_mib is None:
        return [Finding(NAME, "host", INCOMPLETE, None, limit, "MiB", "/proc/meminfo has no SwapTotal", "investigate")]
    if memory.swap_mib > limit:
        why = "more swap than the class limit (swapon --show names it)"
        return [Finding(NAME, "host", FAIL, memory.swap_mib, limit, "MiB", why, "investigate")]
    return [Finding(NAME, "host", PASS, memory.swap_mib, limit, "MiB")]
