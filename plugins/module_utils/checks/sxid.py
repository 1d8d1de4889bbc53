"""Did an NVSwitch report an error (SXid) since boot, and which link is it about?

Owed on the host; a switch with events has a finding of its own, under its PCI address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.log_faults import Fault, findings_of
from ..judging.sxid import SwitchEvent, switch_events_in, verdict_of
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import Finding

NAME = "sxid"
RULES = 2
PROBES: tuple[str, ...] = ("kernel_log",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, where the class has GPUs."""
    return ["host"] if gpu_subjects(expect) else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host and one for each switch that said something: its worst event."""
    seen: set[tuple[str, int | None, int | None]] = set()
    faults = []
    for event in switch_events_in(values["kernel_log"]):
        key = (event.switch, event.code, event.link)
        # Without a time it may be a copy of the same line.
        verdict, action = verdict_of(event, key in seen and event.seconds is not None)
        seen.add(key)
        faults.append(Fault(_part(event), event.name, verdict, action, event.stamp))
    return findings_of(NAME, faults, subjects(expect))


def _part(event: SwitchEvent) -> str:
    return f"nvswitch {event.address or event.switch}" if event.switch else "host"
