"""Is the NIC of every declared rail there, under its name, at its PCI address and of the declared model?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nic.declared_nics import named, rail_subjects, rails_of, subject_of
from ..probes.infiniband import Device
from ..words.expectations import Expectations, Rail, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_inventory"
RULES = 1
PROBES: tuple[str, ...] = ("infiniband",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails."""
    return rail_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge the RDMA devices against the rails; devices besides them (front-end, virtual functions) are no fault."""
    devices: Mapping[str, Device] = values["infiniband"]
    at = {device.address: device.name for device in devices.values() if device.address}
    rails = rails_of(expect)
    besides = sorted(set(devices) - {rail.device for rail in rails})
    return [_finding(rail, devices, at, besides, stated(expect.nic).model) for rail in rails]


def _finding(
    rail: Rail,
    devices: Mapping[str, Device],
    at: Mapping[str, str],
    besides: Sequence[str],
    model: str | None,
) -> Finding:
    subject, address = subject_of(rail), rail.address
    wanted = address or rail.device
    device = devices.get(rail.device)
    if device is None:
        if address is not None and address in at:
            why = f"{named(rail)} is called {at[address]} at {address}: check the class and udev's names"
            return Finding(NAME, subject, FAIL, at[address], rail.device, "", why, "investigate")
        why = f"{named(rail)}{f' at {address}' if address else ''} is not among the {len(devices)} RDMA devices"
        note = f" (not declared: {', '.join(besides)})" if besides else ""
        return Finding(NAME, subject, FAIL, "absent", wanted, "", why + note, "reseat")
    if address is not None:
        if device.address is None:
            why = f"PCI address of {named(rail)} could not be read"
            return Finding(NAME, subject, INCOMPLETE, None, wanted, "", why, "investigate")
        if device.address != address:
            why = f"{named(rail)} is at {device.address}, the class has it at {address}"
            return Finding(NAME, subject, FAIL, device.address, address, "", why, "investigate")
    if model is not None:
        if device.model is None:
            why = f"model of {named(rail)} could not be read"
            return Finding(NAME, subject, INCOMPLETE, None, model, "", why, "investigate")
        if device.model != model:
            why = f"{named(rail)} is a {device.model}, the class has {model}"
            return Finding(NAME, subject, FAIL, device.model, model, "", why, "replace")
    return Finding(NAME, subject, PASS, device.address or device.name, wanted)
