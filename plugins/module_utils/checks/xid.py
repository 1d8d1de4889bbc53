"""Did the driver report a GPU error (Xid) since boot, and what does NVIDIA's catalogue ask for?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..expectations import gpu_subjects
from ..finding import ACTIONS, PASS, VERDICTS, Finding
from ..xid import Event, events_in, verdict_of

NAME = "xid"
PROBES: tuple[str, ...] = ("kernel_log",)
# More names than these in one reason help nobody; the raw log is kept.
_NAMED = 5


def subjects(expect: Mapping[str, Any]) -> Sequence[str]:
    """Return the GPU parts, and the host for errors of a GPU that the class does not have."""
    parts = gpu_subjects(expect)
    return [*parts.values(), "host"] if parts else []


def decide(values: Mapping[str, Any], expect: Mapping[str, Any]) -> Sequence[Finding]:
    """Give one finding for each part: its worst event."""
    declared = gpu_subjects(expect)
    by_subject: dict[str, list[Event]] = {subject: [] for subject in subjects(expect)}
    for event in events_in(values["kernel_log"]):
        by_subject[declared.get(event.address or "", "host")].append(event)
    return [_finding(subject, events) for subject, events in by_subject.items()]


def _finding(subject: str, events: Sequence[Event]) -> Finding:
    if not events:
        return Finding(NAME, subject, PASS, "none", "none")
    ranked = sorted(events, key=_rank)
    worst = ranked[0]
    verdict, action = verdict_of(worst)
    measured = f"Xid {worst.code}" if worst.code is not None and worst.numbered else worst.name
    names = list(dict.fromkeys(_described(event, subject) for event in ranked))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return Finding(NAME, subject, verdict, measured, "none", "", "; ".join(names[:_NAMED]) + more, action)


def _rank(event: Event) -> tuple[int, int]:
    verdict, action = verdict_of(event)
    return VERDICTS.index(verdict), ACTIONS.index(action)


def _described(event: Event, subject: str) -> str:
    where = f" on {event.address or 'a GPU it does not name'}" if subject == "host" else ""
    return event.name + where + (f" at {event.stamp}" if event.stamp else "")
