"""``dmidecode -t memory``: which slots hold a memory module, of what size, and at what speed it runs.

Structures: DMTF DSP0134 (SMBIOS), type 16 "Physical Memory Array" and type 17 "Memory Device"; names and units as
dmidecode 2.12 to 3.6 print them (the speed at which a module runs was "Configured Clock Speed" before 3.2; MHz before
3.1 is MT/s all the same).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "dmidecode_memory"
# No output of a real machine was at hand.
FORMAT_UNVERIFIED = True
ARGV = ("dmidecode", "-t", "memory")
TIMEOUT_SECONDS = 20.0

_HANDLE = re.compile(r"Handle (0x[0-9A-Fa-f]+), DMI type (\d+), \d+ bytes", re.ASCII)
_SIZE = re.compile(r"(\d+) (kB|MB|GB|TB)", re.ASCII)
_KIB = {"kB": 1, "MB": 1024, "GB": 1024**2, "TB": 1024**3}
_SPEED = re.compile(r"(\d+) (?:MT/s|MHz)", re.ASCII)
_EMPTY = "No Module Installed"


@dataclass(frozen=True)
class Module:
    """One slot; ``mib`` is 0 for an empty one, None where the firmware does not say; ``mts`` is the running speed."""

    slot: str
    mib: int | None
    mts: int | None
    part: str | None
    serial: str | None = None


@dataclass(frozen=True)
class Modules:
    """Slots for system memory in the firmware's order; ``complete`` says that the arrays they belong to are listed."""

    slots: tuple[Module, ...]
    complete: bool


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> Modules:
    """Return the slots; raises Unreadable (without root there is no table to read)."""
    text = output.stdout
    if output.rc != 0 or "table is broken" in text:
        said = (output.stderr.strip() or text.strip())[:200]
        raise Unreadable(f"exit status {output.rc}: {said}, expected the tables of the firmware")
    arrays: dict[str, int] = {}
    others: set[str] = set()
    devices: list[Mapping[str, str]] = []
    seen: set[str] = set()
    for kind, handle, fields in _structures(text):
        # SMBIOS specification, 6.1.2: a handle is used once.
        if handle in seen:
            raise Unreadable(f"structure {handle} is listed twice")
        seen.add(handle)
        if kind == "16" and not fields.get("Use"):
            raise Unreadable(f"array {handle} has no Use")
        if kind == "16" and fields["Use"] == "System Memory":
            arrays[handle] = _devices(handle, fields)
        elif kind == "16":
            others.add(handle)
        elif kind == "17":
            devices.append(fields)
    # Flash for firmware and cache modules have arrays of their own.
    devices = [fields for fields in devices if fields.get("Array Handle") not in others]
    if not devices:
        raise Unreadable(f"begins with {text[:60]!r}, expected structures of type 17 (Memory Device)")
    if arrays and (strays := {fields.get("Array Handle", "none") for fields in devices} - arrays.keys()):
        raise Unreadable(f"memory devices of unlisted arrays ({', '.join(sorted(strays))})")
    for handle, wanted in arrays.items():
        found = sum(fields.get("Array Handle") == handle for fields in devices)
        if found != wanted:
            raise Unreadable(f"{found} memory devices of array {handle}, which has {wanted}")
    return Modules(tuple(_module(fields) for fields in devices), complete=bool(arrays))


def _structures(text: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    kind = handle = ""
    fields: dict[str, str] = {}
    for line in [*text.splitlines(), "Handle 0x0, DMI type 127, 4 bytes"]:
        match = _HANDLE.fullmatch(line.strip())
        if match:
            if kind:
                yield kind, handle, fields
            handle, kind, fields = match.group(1), match.group(2), {}
        elif line[:1].isspace():
            name, sign, value = line.strip().partition(":")
            if sign:
                fields[name] = value.strip()


def _devices(handle: str, fields: Mapping[str, str]) -> int:
    text = fields.get("Number Of Devices", "")
    if not (text.isascii() and text.isdigit()):
        raise Unreadable(f"array {handle}: Number Of Devices is {text or 'missing'}, expected a number")
    return int(text)


def _module(fields: Mapping[str, str]) -> Module:
    slot = fields.get("Locator", "")
    if not slot:
        raise Unreadable("a memory device has no Locator")
    speed = _SPEED.fullmatch(fields.get("Configured Memory Speed", fields.get("Configured Clock Speed", "")))
    part, serial = (_known(fields.get(name, "")) for name in ("Part Number", "Serial Number"))
    return Module(slot, _mib(fields.get("Size", "")), int(speed.group(1)) if speed else None, part, serial)


def _known(text: str) -> str | None:
    return None if text in ("", "Not Specified", "Unknown", "NO DIMM") else text


def _mib(text: str) -> int | None:
    if text == _EMPTY:
        return 0
    match = _SIZE.fullmatch(text)
    return int(match.group(1)) * _KIB[match.group(2)] // 1024 if match else None
