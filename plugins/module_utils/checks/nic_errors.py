"""Do the error and flap counters of every rail's ports stand within the class's limits?

They count since the driver was loaded or somebody cleared them. A few errors belong to a link that comes up; that they
grow under load is nic_counter_growth's question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..host.rail_names import NamedRail
from ..judging.rail_devices import rail_devices
from ..nic.declared_nics import COUNTER_END, rail_subjects, subject_of
from ..probes.infiniband import Device
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_errors"
RULES = 3
PROBES: tuple[str, ...] = ("infiniband", "rail_names")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails; none where the class limits no counter."""
    limits = expect.nic.errors.values() if expect.nic else ()
    return rail_subjects(expect) if any(limit is not None for limit in limits) else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge every limited counter of each rail."""
    limits: Mapping[str, int] = {name: limit for name, limit in stated(expect.nic).errors.items() if limit is not None}
    return [_finding(rail, device, limits) for rail, device in rail_devices(values, expect)]


def _finding(rail: NamedRail, device: Device | str, limits: Mapping[str, int]) -> Finding:
    subject = subject_of(rail)
    if isinstance(device, str):
        return Finding(NAME, subject, INCOMPLETE, None, "class limits", "", device, "investigate")
    ports = device.ports
    unread = sorted({name for port in ports for name in limits if name not in port.counters})
    seen = [(name, port.counters[name]) for port in ports for name in limits if port.counters.get(name)]
    over = [(name, count) for name, count in seen if count > limits[name]]
    if over:
        name, count = over[0]
        said = ", ".join(f"{counted(name, count)} (class limit {limits[name]})" for name, count in over)
        why = f"{rail}: {said}"
        return Finding(NAME, subject, FAIL, count, limits[name], name, why, "reseat")
    if not ports or unread:
        why = f"{rail}: {', '.join(unread) or 'no port'} could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, "class limits", "", why, "investigate")
    if seen:
        said = ", ".join(f"{counted(name, count)} of {limits[name]}" for name, count in seen)
        why = f"{rail}: within the class limits, {said}"
        return Finding(NAME, subject, PASS, "within limits", "class limits", "", why, "investigate")
    return Finding(NAME, subject, PASS, "none", "class limits")


def counted(name: str, count: int) -> str:
    """Return a counter as reasons name it; one that stands at its end is a lower bound."""
    return f"{name} {'at least ' if count == COUNTER_END.get(name) else ''}{count}"
