"""The structures of BIOS, system and base board that dmidecode prints (SMBIOS types 0, 1 and 2)."""

from __future__ import annotations

from typing import Any

STRUCTURE = "Handle 0x{handle:04X}, DMI type {kind}, {length} bytes\n{title}\n{lines}\n"


def firmware(state: dict[str, Any]) -> str:
    """Return the three structures, without dmidecode's head."""
    shown = state["firmware"]
    serial = f"LAB-{state['host']}"
    system = {
        "Manufacturer": "Lab",
        "Product Name": shown["system_product"],
        "Version": "Not Specified",
        "Serial Number": serial,
        "UUID": "00000000-0000-4000-8000-000000000000",
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
