"""Are machine, BIOS and BMC firmware those that the class declares?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.dmidecode import Firmware
from ..words import expectations
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "firmware"
RULES = 2
PROBES: tuple[str, ...] = ("dmidecode",)
# Of the two that ask a BMC, the one that the class does not declare has no value.
OPTIONAL_PROBES: tuple[str, ...] = ("ipmi_mc", "redfish")

# By part: the name in reasons.
_NAMES = {"host": "system product", "bios vendor": "bios vendor", "bios": "bios version", "bmc": "bmc version"}


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the parts of which the class declares a value."""
    return list(_declared(expect.firmware)) if expect.firmware else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare each declared value with the one found."""
    smbios: Firmware = values["dmidecode"]
    bmc = values.get("ipmi_mc") or getattr(values.get("redfish"), "firmware", None)
    found = {
        "host": smbios.system_product,
        "bios vendor": smbios.bios_vendor,
        "bios": smbios.bios_version,
        "bmc": bmc,
    }
    return [_compared(part, found[part], wanted) for part, wanted in _declared(stated(expect.firmware)).items()]


def _declared(firmware: expectations.Firmware) -> dict[str, str]:
    values = {
        "host": firmware.system_product,
        "bios vendor": firmware.bios_vendor,
        "bios": firmware.bios_version,
        "bmc": firmware.bmc_version,
    }
    return {part: value for part, value in values.items() if value is not None}


def _compared(part: str, found: str | None, wanted: str) -> Finding:
    name = _NAMES[part]
    if found is None:
        return Finding(NAME, part, INCOMPLETE, None, wanted, "", f"{name} could not be read", "investigate")
    if found != wanted:
        return Finding(NAME, part, FAIL, found, wanted, "", f"another {name} than the class declares", "investigate")
    return Finding(NAME, part, PASS, found, wanted)
