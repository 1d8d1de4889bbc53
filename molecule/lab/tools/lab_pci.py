"""Registers of the lab's PCI devices that setpci changes and lspci shows; a boot forgets what was set."""

from __future__ import annotations

from typing import Any

import lab_tool

KEPT = "setpci.json"
CONTROL, ACCESS = "CAP_EXP+8.w", "ECAP_ACS+6.w"
# Errors reported, MaxPayload 256, ExtTag, NoSnoop; access control with SrcValid, ReqRedir, CmpltRedir, UpstreamFwd.
_CONTROL = 0x092F
_ACCESS_ON = 0x001D


def register(state: dict[str, Any], address: str, name: str) -> int:
    """Return what a register of a device (or of the bridge above it, by the device's address) holds."""
    values, booted = lab_tool.kept(KEPT, address)
    if name in values and not booted:
        return values[name]
    if name == ACCESS:
        return _ACCESS_ON if address in state["acs_enabled"] else 0
    over = state["pci_control"].get(address, {})
    code = (int(over.get("max_read_request_bytes", 4096)) // 128).bit_length() - 1
    return _CONTROL | code << 12 | (0x10 if over.get("relaxed_ordering", True) else 0)


def change(state: dict[str, Any], address: str, name: str, value: int, mask: int) -> None:
    """Set the bits of ``mask``; a device that ignores it stays as it is."""
    if not state["pci_control"].get(address, {}).get("ignored"):
        new = register(state, address, name) & ~mask | value & mask
        lab_tool.keep(KEPT, address, {name: new})
