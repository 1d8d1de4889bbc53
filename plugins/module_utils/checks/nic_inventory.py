"""Is the NIC of every declared rail there, at its PCI address and of the declared model?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..host.rail_names import NamedRail
from ..judging.rail_devices import rail_devices
from ..nic.declared_nics import rail_subjects, subject_of
from ..probes.infiniband import Device
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_inventory"
RULES = 2
PROBES: tuple[str, ...] = ("infiniband", "rail_names")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails."""
    return rail_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge the RDMA devices against the rails; devices besides them (front-end, virtual functions) are no fault."""
    return [_finding(rail, device, stated(expect.nic).model) for rail, device in rail_devices(values, expect)]


def _finding(rail: NamedRail, device: Device | str, model: str | None) -> Finding:
    subject = subject_of(rail)
    if isinstance(device, str):
        return Finding(NAME, subject, FAIL, "absent", rail.address, "", device, "reseat")
    if model is not None and device.model is None:
        why = f"model of {rail} could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, model, "", why, "investigate")
    if model is not None and device.model != model:
        why = f"{rail} is a {device.model}, the class has {model}"
        return Finding(NAME, subject, FAIL, device.model, model, "", why, "replace")
    return Finding(NAME, subject, PASS, rail.address, rail.address)
