"""``dmidecode -t 0,1,2``: BIOS, system and base board, as the firmware describes them (SMBIOS types 0, 1 and 2)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "dmidecode"
ARGV = ("dmidecode", "-t", "0,1,2")
TIMEOUT_SECONDS = 20.0

_SECTIONS = {"0": "bios", "1": "system", "2": "board"}
_HANDLE = re.compile(r"Handle (0x[0-9A-Fa-f]+), DMI type (\d+), \d+ bytes", re.ASCII)
_UNSPECIFIED = ("", "Not Specified", "Unknown", "<BAD INDEX>", "<OUT OF SPEC>")


@dataclass(frozen=True)
class Firmware:
    """What is declared of the machine and its BIOS; None where the firmware does not say it."""

    bios_vendor: str | None
    bios_version: str | None
    system_product: str | None
    system_serial: str | None
    system_uuid: str | None = None
    board_product: str | None = None
    board_serial: str | None = None


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> Firmware:
    """Return the fields of the first structure of each kind; raises Unreadable."""
    require_success(output)
    fields: dict[str, str] = {}
    handles: set[str] = set()
    section = ""
    for line in output.stdout.split("\n"):
        handle = _HANDLE.fullmatch(line.rstrip())
        if handle:
            # SMBIOS specification, 6.1.2: a handle is used once.
            if handle.group(1) in handles:
                raise Unreadable(f"structure {handle.group(1)} is listed twice")
            handles.add(handle.group(1))
            section = _SECTIONS.get(handle.group(2), "")
        elif section and ": " in line:
            name, _, value = line.strip().partition(": ")
            fields.setdefault(f"{section}/{name}", value.strip())
    # A last line without its end may be half a value.
    tail = output.stdout.rsplit("\n", 1)[-1]
    if tail.strip() and ": " in tail:
        fields = {
            name: value for name, value in fields.items() if not tail.strip().endswith(f"{name.split('/')[1]}: {value}")
        }
    if not fields:
        raise Unreadable(f"no BIOS, system or base board structure in {output.stdout[:60]!r}")

    def known(name: str) -> str | None:
        value = fields.get(name, "")
        return None if value in _UNSPECIFIED else value

    return Firmware(
        known("bios/Vendor"),
        known("bios/Version"),
        known("system/Product Name"),
        known("system/Serial Number"),
        known("system/UUID"),
        known("board/Product Name"),
        known("board/Serial Number"),
    )
