"""Errors that firmware reports to the kernel (ACPI's APEI: GHES and BERT), which fill several lines each.

Format: the kernel's Documentation/firmware-guide/acpi/apei/output_format.rst. All lines of a record carry its number:
``{1}[Hardware Error]: event severity: corrected``, ``{1}[Hardware Error]:   section_type: memory error``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..probes.kernel_log import Message

_LINE = re.compile(r"(?:\{(\d+)\})?\[Hardware Error\]: *(.*)")
_FIELDS = (
    ("section", re.compile(r"section_type: (.+)")),
    ("address", re.compile(r"device_id: ([0-9a-fA-F]{4,}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")),
    ("dimm", re.compile(r"DIMM location: (.+)")),
)
CORRECTED = ("corrected", "info")


@dataclass
class HardwareError:
    """One record: ``severity`` as the firmware gives it, ``fields`` what is known of section, address and dimm."""

    severity: str
    stamp: str
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def corrected(self) -> bool:
        """Whether the hardware mended it by itself."""
        return self.severity in CORRECTED


def hardware_errors_in(messages: Iterable[Message]) -> list[HardwareError]:
    """Return the firmware's records of a log in order."""
    records: list[HardwareError] = []
    current: dict[str | None, HardwareError] = {}
    for message in messages:
        match = _LINE.search(message.text) if "[Hardware Error]" in message.text else None
        if not match:
            continue
        number, text = match.groups()
        if text.startswith("event severity: "):
            current[number] = HardwareError(text[len("event severity: ") :].strip(), message.stamp)
            records.append(current[number])
        elif number in current:
            for name, pattern in _FIELDS:
                found = pattern.match(text)
                if found:
                    current[number].fields.setdefault(name, found.group(1).strip())
    return records
