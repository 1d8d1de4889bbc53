"""Firmware settings of NVIDIA's NICs: what ``mstconfig`` or ``mlxconfig`` shows of them, and what has to be set.

The two are one program (package mstflint, NVIDIA's MFT). ``-e query`` shows three values of each setting: the
firmware's default, the one in force (``Current``) and the one that holds after the next reset of the device (``Next
Boot``). A value is a number (``128``) or a name with its number (``True(1)``, ``ETH(2)``); a list is ``Array[0..15]``.
Some settings are shown only once another is set (``MAX_ACC_OUT_READ`` needs ``ADVANCED_PCI_SETTINGS``), and some,
which mstflint from 4.26 on marks ``RO``, nobody can set. Its query can also write JSON (``-j FILE``), which says the
same, into a file alone, and is not in the versions of Debian 12 and Ubuntu 22.04: the table is what all have. Format:
mstflint's source, mlxconfig/mlxcfg_ui.cpp, printSingleParam.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..host.host import Unreadable

# The firmware answers over a slow interface: 2 s are usual for all settings.
TIMEOUT_SECONDS = 60.0

_COLUMNS = re.compile(r"^Configurations:\s+(.*\S)\s*$")
_ROW = re.compile(r"^[*\s](RO)?\s+([A-Z][A-Za-z0-9_]*)\s+(\S.*\S|\S)\s*$")
# What stands below the rows, where one has the mark that it explains.
_LEGENDS = (
    "The '*' shows parameters with next value different from default/current value.",
    "The 'RO' shows parameters which are for read only and cannot be changed",
)
_VALUE = re.compile(r"([^\s()]+)\((0x[0-9a-fA-F]+|\d+)\)|(0x[0-9a-fA-F]+|\d+)", re.ASCII)
_VERSION = re.compile(r"^FW Version(\(Running\))?:\s+(\d+\.\d+\.\d+)\s*$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True)
class Shown:
    """One value as the tool prints it: ``text``, with name and number where it has them."""

    text: str
    name: str | None
    number: int | None

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, text: str) -> Shown:
        """Return the value; without a number where it is none (``Array[0..15]``, ``N/A``)."""
        match = _VALUE.fullmatch(text)
        if not match:
            return cls(text, None, None)
        return cls(text, match.group(1), int(match.group(2) or match.group(3), 0))

    def is_(self, wanted: str) -> bool:
        """Return whether this is the declared value: a number, a name, or both (``2``, ``ETH``, ``ETH(2)``)."""
        asked = Shown.of(wanted)
        if self.number is None:
            return False
        if asked.number is not None:
            return asked.number == self.number and asked.name in (None, self.name)
        return wanted == self.name


@dataclass(frozen=True)
class Setting:
    """Values of one setting now and after the next reset of the device."""

    current: Shown
    next_boot: Shown
    read_only: bool = False


@dataclass(frozen=True)
class Change:
    """A setting that differs from the declaration: ``held`` is what stands for the next boot."""

    key: str
    held: str
    wanted: str
    read_only: bool = False

    def __str__(self) -> str:
        return f"{self.key} is {self.held}, declared {self.wanted}{', and read-only' if self.read_only else ''}"


def parse_settings(text: str) -> dict[str, Setting]:
    """Return the settings by key as ``-e query`` prints them; raises Unreadable."""
    lines = text.splitlines()
    heads = [index for index, line in enumerate(lines) if _COLUMNS.match(line)]
    # Cut within a line a number may have lost digits; the legend's full stop is the end as well.
    if len(heads) != 1 or not text.endswith(("\n", "value.")):
        raise Unreadable(f"found {text[-60:]!r}, expected one table 'Configurations: Default Current Next Boot'")
    columns = lines[heads[0]].split()[1:]
    if columns != ["Default", "Current", "Next", "Boot"]:
        raise Unreadable(f"found columns {' '.join(columns)!r}, expected 'Default Current Next Boot'")
    settings: dict[str, Setting] = {}
    for line in lines[heads[0] + 1 :]:
        if not line.strip() or line.strip() in _LEGENDS:
            continue
        match = _ROW.match(line)
        values = match.group(3).split() if match else []
        if not match or len(values) != 3 or match.group(2) in settings:
            raise Unreadable(f"found {line.strip()[:80]!r}, expected a setting with default, current and next value")
        settings[match.group(2)] = Setting(Shown.of(values[1]), Shown.of(values[2]), bool(match.group(1)))
    if not settings:
        raise Unreadable("found no setting")
    return settings


def parse_firmware(text: str) -> tuple[str, str]:
    """Return the versions that run and that start at the next reset, of ``flint query``; raises Unreadable."""
    found = {bool(running): version for running, version in _VERSION.findall(text)}
    if False not in found or not text.endswith("\n"):
        raise Unreadable(f"found {text[:60]!r}, expected a line 'FW Version: 28.43.1014'")
    return found.get(True, found[False]), found[False]


def argument_of(wanted: str) -> str:
    """Return a declared value as the tool takes it: ``2`` of ``ETH(2)``."""
    asked = Shown.of(wanted)
    return str(asked.number) if asked.name else wanted


def unreadable(settings: Mapping[str, Setting], wanted: Mapping[str, str]) -> list[str]:
    """Return why declared settings cannot be judged although the device shows them: lists, and what is no value."""
    return [
        f"{key} is shown as {value.text!r}, expected one value"
        for key in wanted
        if key in settings
        for value in (settings[key].next_boot, settings[key].current)
        if value.number is None
    ]


def read_only(settings: Mapping[str, Setting], wanted: Mapping[str, str]) -> list[str]:
    """Return the declared settings that are otherwise and that the device lets nobody set."""
    return [str(change) for change in changes(settings, wanted) if change.read_only]


def hidden(settings: Mapping[str, Setting], wanted: Mapping[str, str]) -> list[str]:
    """Return the declared keys that the device does not show: unknown to it, or waiting for another setting."""
    return [key for key in wanted if key not in settings]


def unlocking(settings: Mapping[str, Setting], wanted: Mapping[str, str]) -> list[str]:
    """Return the declared settings that show others (``ADVANCED_PCI_SETTINGS``) and are not in force yet."""
    return [
        key
        for key, value in wanted.items()
        if key.startswith("ADVANCED_") and key in settings and not settings[key].current.is_(value)
    ]


def changes(settings: Mapping[str, Setting], wanted: Mapping[str, str]) -> list[Change]:
    """Return what has to be set: where the value for the next boot is not the declared one, in the declared order."""
    return [
        Change(key, str(settings[key].next_boot), value, settings[key].read_only)
        for key, value in wanted.items()
        if key in settings and not settings[key].next_boot.is_(value)
    ]


def pending(settings: Mapping[str, Setting], wanted: Mapping[str, str]) -> list[str]:
    """Return the settings that hold only after a reset: ``MAX_ACC_OUT_READ is 0, 128 from the next boot on``."""
    return [
        f"{key} is {settings[key].current}, {settings[key].next_boot} from the next boot on"
        for key, value in wanted.items()
        if key in settings and settings[key].next_boot.is_(value) and not settings[key].current.is_(value)
    ]
