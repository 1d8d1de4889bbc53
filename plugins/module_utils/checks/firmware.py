"""Are machine, BIOS and BMC firmware those that the class declares?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..finding import FAIL, INCOMPLETE, PASS, Finding
from ..probes.dmidecode import Firmware

NAME = "firmware"
PROBES: tuple[str, ...] = ("dmidecode",)
# Of the two that ask a BMC, the one that the class does not declare has no value.
OPTIONAL_PROBES: tuple[str, ...] = ("ipmi_mc", "redfish")

_PARTS = {"system_product": "host", "bios_vendor": "bios vendor", "bios_version": "bios", "bmc_version": "bmc"}


def subjects(expect: Mapping[str, Any]) -> Sequence[str]:
    """Return the parts of which the class declares a value."""
    declared = expect["firmware"] or {}
    return [part for key, part in _PARTS.items() if declared.get(key) is not None]


def decide(values: Mapping[str, Any], expect: Mapping[str, Any]) -> Sequence[Finding]:
    """Compare each declared value with the one found."""
    smbios: Firmware = values["dmidecode"]
    bmc = values.get("ipmi_mc") or getattr(values.get("redfish"), "firmware", None)
    found = {
        "system_product": smbios.system_product,
        "bios_vendor": smbios.bios_vendor,
        "bios_version": smbios.bios_version,
        "bmc_version": bmc,
    }
    declared = expect["firmware"]
    return [
        _compared(part, found[key], declared[key], key) for key, part in _PARTS.items() if declared[key] is not None
    ]


def _compared(part: str, found: str | None, wanted: str, key: str) -> Finding:
    name = key.replace("_", " ")
    if found is None:
        return Finding(NAME, part, INCOMPLETE, None, wanted, "", f"{name} could not be read", "investigate")
    if found != wanted:
        return Finding(NAME, part, FAIL, found, wanted, "", f"another {name} than the class declares", "investigate")
    return Finding(NAME, part, PASS, found, wanted)
