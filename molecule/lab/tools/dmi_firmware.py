"""The structures of BIOS, system and base board that dmidecode prints (SMBIOS types 0, 1 and 2)."""

from __future__ import annotations

from typing import Any

import lab_tool

STRUCTURE = "Handle 0x{handle:04X}, DMI type {kind}, {length} bytes\n{title}\n{lines}\n"


def firmware(state: dict[str, Any]) -> str:
    """Return the three structures, without dmidecode's head."""
    shown = state["firmware"]
    serial = state["board"].get("serial", f"LAB-{state['host']}")
    digits = lab_tool.own(state, "board")
    uuid = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"
    system = {
        "Manufacturer": "Lab",
        "Product Name": shown["system_product"],
        "Version": "Not Specified",
        "Serial Number": serial,
        "UUID": state["board"].get("uuid", uuid),
        "Wake-up Type": "Power Switch",
        "SKU Number": "Not Specified",
        "Family": "Lab",
    }
    bios = {"Vendor": shown["bios_vendor"], "Version": shown["bios_version"], "Release Date": "01/15/2026"}
    board = {"Manufacturer": "Lab", "Product Name": "HGX carrier", "Version": "1.0", "Serial Number": serial}
    structures = ((0x0000, 0, 26, "BIOS Information", bios), (0x0100, 1, 27, "System Information", system))
    return "".join(
        STRUCTURE.format(
            handle=handle,
            kind=kind,
            length=length,
            title=title,
            lines="".join(f"\t{name}: {value}\n" for name, value in fields.items()),
        )
        for handle, kind, length, title, fields in (*structures, (0x0200, 2, 8, "Base Board Information", board))
    )
