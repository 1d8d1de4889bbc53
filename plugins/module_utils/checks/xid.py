"""Did the driver report a GPU error (Xid) since boot, and what does NVIDIA's catalogue ask for?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.sxid import is_fatal, switch_events_in
from ..judging.xid import Event, Judged, events_in, judged
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import ACTIONS, PASS, VERDICTS, Finding

NAME = "xid"
RULES = 2
PROBES: tuple[str, ...] = ("kernel_log",)
# More names than these in one reason help nobody; the raw log is kept.
_NAMED = 5


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts, and the host for errors of a GPU that the class does not have."""
    parts = gpu_subjects(expect)
    return [*parts.values(), "host"] if parts else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for each part: its worst event."""
    declared = gpu_subjects(expect)
    messages = values["kernel_log"]
    by_subject: dict[str, list[Event]] = {subject: [] for subject in subjects(expect)}
    for event in events_in(messages):
        by_subject[declared.get(event.address or "", "host")].append(event)
    fabric_fault = any(is_fatal(event) for event in switch_events_in(messages))
    return [_finding(subject, events, fabric_fault) for subject, events in by_subject.items()]


def _finding(subject: str, events: Sequence[Event], fabric_fault: bool) -> Finding:
    if not events:
        return Finding(NAME, subject, PASS, "none", "none")
    ranked = sorted(_judged_by_gpu(events, fabric_fault), key=_rank)
    worst = ranked[0]
    code = worst.event.code
    measured = f"Xid {code}" if code is not None and worst.event.numbered else worst.event.name
    names = list(dict.fromkeys(_described(item, subject) for item in ranked))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    reason = "; ".join(names[:_NAMED]) + more
    return Finding(NAME, subject, worst.verdict, measured, "none", "", reason, worst.action)


def _judged_by_gpu(events: Sequence[Event], fabric_fault: bool) -> list[Judged]:
    """Return the judged events; those on the host may be of several GPUs, and one says nothing of another."""
    addresses = dict.fromkeys(event.address for event in events)
    return [
        item
        for address in addresses
        for item in judged([event for event in events if event.address == address], fabric_fault)
    ]


def _rank(item: Judged) -> tuple[int, int]:
    return VERDICTS.index(item.verdict), ACTIONS.index(item.action)


def _described(item: Judged, subject: str) -> str:
    event = item.event
    where = f" on {event.address or 'a GPU it does not name'}" if subject == "host" else ""
    when = f" at {event.stamp}" if event.stamp else ""
    return event.name + where + when + (f" ({item.why})" if item.why else "")
