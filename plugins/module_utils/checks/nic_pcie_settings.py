"""Do the rails' NICs ask for reads as large as declared, and are their writes ordered as declared?

Both are in the Device Control register of PCI Express and lost at every reboot; ``muster pcie apply`` sets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nic.declared_nics import rail_subjects, rails_of, subject_of
from ..probes.lspci import Device
from ..words.expectations import Expectations, Pcie, Rail, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_pcie_settings"
RULES = 3
PROBES: tuple[str, ...] = ("lspci",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails, if the class declares one of the two."""
    pcie = expect.pcie
    asked = pcie and (pcie.max_read_request_bytes is not None or pcie.relaxed_ordering is not None)
    return rail_subjects(expect) if asked else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare what each rail's NIC is set to."""
    devices: Mapping[str, Device] = values["lspci"]
    return [_finding(rail, devices.get(rail.address), stated(expect.pcie)) for rail in rails_of(expect)]


def _finding(rail: Rail, device: Device | None, pcie: Pcie) -> Finding:
    subject = subject_of(rail)
    size, relaxed = pcie.max_read_request_bytes, pcie.relaxed_ordering
    expected = _shown(size, relaxed)
    if device is None or device.max_read_request_bytes is None or device.relaxed_ordering is None:
        why = f"Device Control register of {rail} could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, expected, "", why, "investigate")
    measured = _shown(
        None if size is None else device.max_read_request_bytes, None if relaxed is None else device.relaxed_ordering
    )
    if measured != expected:
        why = f"{rail} is set to {measured}, the class has {expected}"
        return Finding(NAME, subject, FAIL, measured, expected, "", why, "investigate")
    return Finding(NAME, subject, PASS, measured, expected)


def _shown(size: int | None, relaxed: bool | None) -> str:
    words = [] if size is None else [f"reads of {size} B"]
    return ", ".join(words + ([] if relaxed is None else [f"relaxed ordering {'on' if relaxed else 'off'}"]))
