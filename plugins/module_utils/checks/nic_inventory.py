"""Is the NIC of every declared rail there, at its PCI address, of the declared model, and no manager of NVSwitches?"""

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
RULES = 4
PROBES: tuple[str, ...] = ("infiniband", "rail_names")
# A class without a subnet manager for NVLink has no NICs that manage NVSwitches.
OPTIONAL_PROBES: tuple[str, ...] = ("nvswitch_nics",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails."""
    return rail_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge the RDMA devices against the rails; devices besides them (front-end, virtual functions) are no fault."""
    managers: Mapping[str, bool | None] = values.get("nvswitch_nics") or {}
    asked = expect.nvlink is not None and expect.nvlink.subnet_manager
    model = stated(expect.nic).model
    return [
        _finding(rail, device, model, managers.get(rail.address) if asked else bool(managers.get(rail.address)))
        for rail, device in rail_devices(values, expect)
    ]


def _finding(rail: NamedRail, device: Device | str, model: str | None, manages: bool | None) -> Finding:
    subject = subject_of(rail)
    if manages:
        why = f"{rail} manages NVSwitches (SW_MNG in its VPD) and leads to no other host: declare another NIC"
        return Finding(NAME, subject, FAIL, "manages NVSwitches", "a NIC of the fabric", "", why, "investigate")
    if isinstance(device, str):
        return Finding(NAME, subject, FAIL, "absent", rail.address, "", device, "reseat")
    if manages is None:
        why = f"whether {rail} manages NVSwitches could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, "a NIC of the fabric", "", why, "investigate")
    if model is not None and device.model is None:
        why = f"model of {rail} could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, model, "", why, "investigate")
    if model is not None and device.model != model:
        why = f"{rail} is a {device.model}, the class has {model}"
        return Finding(NAME, subject, FAIL, device.model, model, "", why, "replace")
    return Finding(NAME, subject, PASS, rail.address, rail.address)
