"""Have error counters grown within a day: links that went down, memory errors?

The last heartbeat has the counts to compare with. Before the first one there are none: nothing has grown yet, and what
the counters hold since boot was burn-in's to judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.log_faults import HOST, Fault, findings_of, nic_part
from ..probes.heartbeat import Heartbeat
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "counter_growth"
RULES = 2
PROBES: tuple[str, ...] = ("boot_id", "error_counters", "heartbeat")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return [HOST]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host and one for each NIC whose links went down."""
    now: Mapping[str, int] = values["error_counters"]
    last: Heartbeat | None = values["heartbeat"]
    faults = [
        Fault(HOST, f"{count} uncorrected memory errors ({name})", FAIL, "replace")
        for name, count in now.items()
        if name.startswith("ue_count") and count
    ]
    if last is not None and last.boot_id == values["boot_id"]:
        for name, before in last.counters.items():
            faults += _grown(name, before, now.get(name), expect)
    return findings_of(NAME, faults, [HOST])


def _grown(name: str, before: int, now: int | None, expect: Expectations) -> list[Fault]:
    limits = expect.kernel_log
    if now is None:
        return [Fault(HOST, f"{name} is gone", INCOMPLETE, "investigate")]
    # A driver that was loaded anew counts from 0.
    growth = now - before if now >= before else now
    if name.startswith("link_downed"):
        part, limit, reached = nic_part(name.split()[1], expect), limits.link_flaps_per_day, growth >= 1
        what, verdict = f"link went down {growth} times within 24 h, class limit {limit:g}", growth >= limit
        return [Fault(part, what, *((FAIL, "reseat") if verdict else (PASS, "investigate")))] if reached else []
    most = limits.memory_corrected_errors
    if name.startswith("ce_count") and growth > most:
        what = f"{growth} corrected memory errors within 24 h ({name}), class limit {most:g}"
        return [Fault(HOST, what, FAIL, "replace")]
    return []
