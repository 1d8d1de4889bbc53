"""Do the error and flap counters of every rail's ports stand within the class's limits?

They count since the driver was loaded or somebody cleared them. A few errors belong to a link that comes up; that they
grow under load is nic_counter_growth's question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nic.declared_nics import COUNTER_END, named, rail_subjects, rails_of, subject_of
from ..probes.infiniband import Device
from ..words.expectations import Expectations, Rail, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_errors"
RULES = 1
PROBES: tuple[str, ...] = ("infiniband",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails; none where the class limits no counter."""
    limits = expect.nic.errors.values() if expect.nic else ()
    return rail_subjects(expect) if any(limit is not None for limit in limits) else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge every limited counter of each rail."""
    devices: Mapping[str, Device] = values["infiniband"]
    limits: Mapping[str, int] = {name: limit for name, limit in stated(expect.nic).errors.items() if limit is not None}
    return [_finding(rail, devices.get(rail.device), limits) for rail in rails_of(expect)]


def _finding(rail: Rail, device: Device | None, limits: Mapping[str, int]) -> Finding:
    subject = subject_of(rail)
    ports = device.ports if device else ()
    unread = sorted({name for port in ports for name in limits if name not in port.counters})
    seen = [(name, port.counters[name]) for port in ports for name in limits if port.counters.get(name)]
    over = [(name, count) for name, count in seen if count > limits[name]]
    if over:
        name, count = over[0]
        said = ", ".join(f"{counted(name, count)} (class limit {limits[name]})" for name, count in over)
        why = f"{named(rail)}: {said}"
        return Finding(NAME, subject, FAIL, count, limits[name], name, why, "reseat")
    if not ports or unread:
        why = f"{named(rail)}: {', '.join(unread) or 'no port'} could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, "class limits", "", why, "investigate")
    if seen:
        said = ", ".join(f"{counted(name, count)} of {limits[name]}" for name, count in seen)
        why = f"{named(rail)}: within the class limits, {said}"
        return Finding(NAME, subject, PASS, "within limits", "class limits", "", why, "investigate")
    return Finding(NAME, subject, PASS, "none", "class limits")


def counted(name: str, count: int) -> str:
    """Return a counter as reasons name it; one that stands at its end is a lower bound."""
    return f"{name} {'at least ' if count == COUNTER_END.get(name) else ''}{count}"
