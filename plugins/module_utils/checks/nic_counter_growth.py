"""Did the error and flap counters of a rail's ports or interface grow while the host was under load?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..host.rail_names import NamedRail, Names, no_device
from ..nic.declared_nics import COUNTER_END, INTERFACE_COUNTERS, named_rails, rail_subjects, subject_of
from ..probes.infiniband import Device
from ..stress.nic_counters import Readings
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_counter_growth"
RULES = 2
PROBES: tuple[str, ...] = ("nic_counters", "rail_names")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails; none where the class limits no counter's growth."""
    limits = expect.nic.growth.values() if expect.nic else ()
    return rail_subjects(expect) if any(limit is not None for limit in limits) else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare both readings of each rail's device."""
    readings: Readings = values["nic_counters"]
    names: Names = values["rail_names"]
    limits: Mapping[str, int] = {name: limit for name, limit in stated(expect.nic).growth.items() if limit is not None}
    return [
        Finding(NAME, subject_of(rail), INCOMPLETE, reason=no_device(rail, names), action="investigate")
        if rail.device is None
        else _finding(rail, readings.before.get(rail.device), readings.after.get(rail.device), limits)
        for rail in named_rails(expect, names)
    ]


def _finding(rail: NamedRail, before: Device | None, after: Device | None, limits: Mapping[str, int]) -> Finding:
    subject = subject_of(rail)
    if before is None:
        why = f"{rail} showed no counters before load"
        return Finding(NAME, subject, INCOMPLETE, reason=why, action="investigate")
    if after is None:
        why = f"{rail} was there before load and is gone after it"
        return Finding(NAME, subject, FAIL, "gone", "there", "", why, "reseat")
    grown: list[tuple[str, int]] = []
    unclear: list[str] = []
    for name, place, first, last in _pairs(before, after, limits):
        if first is None or last is None:
            unclear.append(f"{name}{place} could not be read")
        elif last < first:
            unclear.append(f"{name}{place} fell from {first} to {last}: it was cleared")
        elif last - first > limits[name]:
            grown.append((name, last - first))
        elif first == last == COUNTER_END.get(name):
            unclear.append(f"{name}{place} was at its maximum ({last}) before load: clear it")
    if grown:
        said = ", ".join(f"{name} by {by} (class limit {limits[name]})" for name, by in grown)
        name, by = grown[0]
        return Finding(NAME, subject, FAIL, by, limits[name], name, f"{rail} under load: {said}", "reseat")
    if unclear:
        why = f"{rail}: {'; '.join(unclear)}"
        return Finding(NAME, subject, INCOMPLETE, None, "class limits", "", why, "investigate")
    return Finding(NAME, subject, PASS, "within limits", "class limits")


def _pairs(
    before: Device, after: Device, limits: Mapping[str, int]
) -> Iterator[tuple[str, str, int | None, int | None]]:
    """Yield each limited counter, where it stands, and both of its values."""
    then = {port.number: port for port in after.ports}
    for port in before.ports:
        later = then[port.number].counters if port.number in then else {}
        for name in limits:
            if name not in INTERFACE_COUNTERS:
                yield name, f" of port {port.number}", port.counters.get(name), later.get(name)
    # Without a network interface (InfiniBand without IPoIB) there are no such counters to grow.
    for interface, counters in before.interfaces.items():
        later = after.interfaces.get(interface, {})
        for name in limits:
            if name in INTERFACE_COUNTERS:
                yield name, f" of {interface}", counters.get(name), later.get(name)
