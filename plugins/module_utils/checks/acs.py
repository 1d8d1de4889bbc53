"""Is access control (ACS) off on the bridges above GPUs and NICs, so that they reach each other without a detour?

Source: NCCL user guide, troubleshooting, "PCI Access Control Services": with ACS on, traffic between two devices below
one switch goes up to the root complex.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nic.declared_nics import rails_of, subject_of
from ..probes.lspci import Device, above
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding
from .pcie_links import is_fast_nic

NAME = "acs"
RULES = 3
PROBES: tuple[str, ...] = ("lspci",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, unless the class leaves access control undeclared (guests of a cloud have no bridges)."""
    return [] if expect.pcie is None or expect.pcie.acs_enabled is None else ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge every bridge on the way from a declared GPU or a NIC to its root port, if all of them can be read."""
    devices: Mapping[str, Device] = values["lspci"]
    names = gpu_subjects(expect)
    names |= {address: f"nic {address}" for address, device in devices.items() if is_fast_nic(device)}
    names |= {rail.address: subject_of(rail) for rail in rails_of(expect)}
    enabled = stated(expect.pcie).acs_enabled
    expected = "on" if enabled else "off"
    wrong: dict[str, str] = {}
    unread: list[str] = []
    for address, name in names.items():
        bridges = above(address, devices)
        if address not in devices or not bridges or not all(bridge.readable for bridge in bridges):
            unread.append(name)
        for bridge in bridges:
            # A bridge without the capability forwards as if it were off.
            if bridge.readable and bool(bridge.acs) != enabled and not (enabled and bridge.acs is None):
                wrong.setdefault(bridge.address, f"{', '.join(bridge.acs or ('none',))} above {name}")
    if wrong:
        listed = "; ".join(f"bridge {address} ({why})" for address, why in list(wrong.items())[:8])
        why = f"access control is {'off' if enabled else 'on'}: {listed}{' and others' if len(wrong) > 8 else ''}"
        measured = f"{'off' if enabled else 'on'} on {len(wrong)} bridges"
        return [Finding(NAME, "host", FAIL, measured, expected, "", why, "investigate")]
    if unread or not names:
        why = f"bridges to the root port are not all listed, or not readable, above {', '.join(unread) or 'any device'}"
        return [Finding(NAME, "host", INCOMPLETE, None, expected, "", why, "investigate")]
    return [Finding(NAME, "host", PASS, expected, expected)]
