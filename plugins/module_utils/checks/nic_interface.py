"""Is the network interface of every rail, and of the front end, up, at its speed and MTU?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..host.rail_names import Names, no_interface
from ..nic.declared_nics import WantedInterface, interface_subjects, interfaces_of, rails_of, subject_of
from ..probes.net_devices import Interface
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_interface"
RULES = 2
PROBES: tuple[str, ...] = ("net_devices", "rail_names")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the rails where the fabric has network interfaces, and the front-end interfaces."""
    return interface_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge each interface by itself."""
    found: Mapping[str, Interface] = values["net_devices"]
    names: Names = values["rail_names"]
    nameless = {subject_of(rail): no_interface(rail, names) for rail in rails_of(expect)}
    return [
        Finding(NAME, subject, FAIL, "absent", "one interface", "", nameless[subject], "investigate")
        if wanted.interface is None
        else _finding(subject, wanted, found.get(wanted.interface))
        for subject, wanted in interfaces_of(expect, names).items()
    ]


def _finding(subject: str, wanted: WantedInterface, found: Interface | None) -> Finding:
    where, speed, mtu = wanted.where, wanted.speed_gbps, wanted.mtu_bytes
    if found is None:
        return Finding(NAME, subject, FAIL, "absent", wanted.interface, "", f"{where} is absent", "investigate")
    if found.operstate in ("down", "lowerlayerdown", "notpresent", "dormant", "testing"):
        why = f"{where} is {found.operstate}"
        return Finding(NAME, subject, FAIL, found.operstate, "up", "", why, "reseat")
    if found.speed_mbps is not None and found.speed_mbps != speed * 1000:
        measured = found.speed_mbps / 1000
        why = f"{where} runs at {measured:g} Gb/s, class speed {speed:g}"
        return Finding(
            NAME, subject, FAIL, measured, speed, "Gb/s", why, "reseat" if measured < speed else "investigate"
        )
    if mtu is not None and found.mtu is not None and found.mtu != mtu:
        why = f"{where} has MTU {found.mtu}, class MTU {mtu}"
        return Finding(NAME, subject, FAIL, found.mtu, mtu, "B", why, "investigate")
    unread = [
        name
        for name, value in (
            ("state", None if found.operstate == "unknown" else found.operstate),
            ("speed", found.speed_mbps),
            ("MTU", found.mtu if mtu is not None else 0),
        )
        if value is None
    ]
    if unread:
        why = f"{where}: {', '.join(unread)} could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, speed, "Gb/s", why, "investigate")
    return Finding(NAME, subject, PASS, speed, speed, "Gb/s")
