"""Is the link of every rail up, at its rate and width, on the declared link layer?

The rate is the product of lanes and lane speed, so that a report without lanes (``ibstat``) still tells a link of half
its width by its rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..host.rail_names import NamedRail
from ..judging.rail_devices import rail_devices
from ..nic.declared_nics import rail_subjects, subject_of
from ..probes.infiniband import Device, Port
from ..words.expectations import Expectations, Nic, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_link"
RULES = 3
PROBES: tuple[str, ...] = ("infiniband", "rail_names")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails."""
    return rail_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge every port of each rail's device; the worst one is the finding."""
    rails, nic = rail_devices(values, expect), stated(expect.nic)
    layers = [port.link_layer for _, device in rails if isinstance(device, Device) for port in device.ports]
    usual = Counter(layer for layer in layers if layer).most_common(1)
    found = []
    for rail, device in rails:
        if isinstance(device, str) or not device.ports:
            why = device if isinstance(device, str) else f"{rail} shows no port"
            found.append(Finding(NAME, subject_of(rail), INCOMPLETE, None, nic.speed_gbps, "Gb/s", why, "investigate"))
            continue
        answers = [_finding(rail, port, nic, usual[0][0] if usual else None) for port in device.ports]
        found.append(min(answers, key=lambda answer: (FAIL, INCOMPLETE, PASS).index(answer.verdict)))
    return found


def _finding(rail: NamedRail, port: Port, nic: Nic, usual: str | None) -> Finding:
    subject = subject_of(rail)
    where = f"{rail} port {port.number}"
    speed = nic.speed_gbps
    shown = f"{port.state or 'unread'}, {port.phys_state or 'unread'}"
    if port.phys_state not in (None, "linkup"):
        why = f"{where} is {shown}: no link, check cable, module and switch port"
        return Finding(NAME, subject, FAIL, shown, "active, linkup", "", why, "reseat")
    if port.state in ("init", "armed"):
        why = f"{where} is {shown}: the link is up, no subnet manager made it active"
        return Finding(NAME, subject, FAIL, shown, "active, linkup", "", why, "investigate")
    if port.state not in (None, "active"):
        why = f"{where} is {shown}: no link, check cable, module and switch port"
        return Finding(NAME, subject, FAIL, shown, "active, linkup", "", why, "reseat")
    lanes = f"{port.lanes}X {port.lane_speed or ''}".strip() if port.lanes else "lanes not told"
    if port.rate_gbps is not None and port.rate_gbps != speed:
        why = f"{where} runs at {port.rate_gbps:g} Gb/s ({lanes}), class rate {speed:g}"
        action = "reseat" if port.rate_gbps < speed else "investigate"
        return Finding(NAME, subject, FAIL, port.rate_gbps, speed, "Gb/s", why, action)
    if nic.lanes is not None and port.lanes not in (None, nic.lanes):
        why = f"{where} runs on {port.lanes} lanes, class width {nic.lanes}"
        return Finding(NAME, subject, FAIL, port.lanes, nic.lanes, "lanes", why, "reseat")
    layer = nic.link_layer
    if port.link_layer is not None and port.link_layer != (layer or usual):
        than = f"the class has {layer}" if layer else f"most rails of the node speak {usual}"
        why = f"{where} speaks {port.link_layer}, {than}"
        return Finding(NAME, subject, FAIL, port.link_layer, layer, "", why, "investigate")
    unread = [
        name
        for name, value in (
            ("state", port.state),
            ("physical state", port.phys_state),
            ("rate", port.rate_gbps),
            ("link layer", port.link_layer),
        )
        if value is None
    ]
    if unread:
        why = f"{where}: {', '.join(unread)} could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, speed, "Gb/s", why, "investigate")
    return Finding(NAME, subject, PASS, port.rate_gbps, speed, "Gb/s")
