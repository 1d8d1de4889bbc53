"""A drive's health report as people save it, in the form that ``smartctl -j`` has: smartctl's text, nvme-cli's too.

Formats: smartmontools' nvmeprint.cpp, nvme-cli's nvme-print-stdout.c and nvme-print-json.c (temperatures in kelvin).
nvme-cli tells no assessment of the drive's own, so that its report alone is incomplete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

# Its name in smartctl's JSON by the names that others give it (small letters, "_" between words).
_NAMES = {
    "avail_spare": "available_spare",
    "spare_thresh": "available_spare_threshold",
    "percent_used": "percentage_used",
    "media_and_data_integrity_errors": "media_errors",
    "warning_comp_temperature_time": "warning_temp_time",
    "warning_temperature_time": "warning_temp_time",
    "critical_comp_temperature_time": "critical_comp_time",
    "critical_composite_temperature_time": "critical_comp_time",
    "host_read_commands": "host_reads",
    "host_write_commands": "host_writes",
}
_FIELDS = (
    *("critical_warning", "temperature", "available_spare", "available_spare_threshold", "percentage_used"),
    *("media_errors", "warning_temp_time", "critical_comp_time", "power_on_hours", "power_cycles"),
    *("data_units_read", "data_units_written", "host_reads", "host_writes"),
)
_UNITS = {
    "temperature": r" ?°? ?C(?:elsius)?\b.*",
    **dict.fromkeys(("available_spare", "available_spare_threshold", "percentage_used"), r" ?%"),
    **dict.fromkeys(("data_units_read", "data_units_written"), r"(?: [\[(].*)?"),
}
_ZERO_CELSIUS_IN_KELVIN = 273

# Where the report of one drive begins.
_BEGIN = re.compile(r"^(?=smartctl \d+\.\d|Smart Log for NVME device)", re.MULTILINE)
_LINE = re.compile(r"^([A-Za-z][\w. -]*?)[ \t]*: *(.*?)[ \t]*$")
_ASSESSMENT = re.compile(r"SMART overall-health self-assessment test result: (\w+)")
# smartctl groups digits as the locale does.
_NUMBER = re.compile(r"(0x[0-9a-fA-F]{1,16}|\d{1,3}(?:[,.'\u2019\u202f]\d{3})+|\d{1,39})(.*)")


def is_log_of_nvme_cli(text: str) -> bool:
    """Return whether ``nvme smart-log`` printed this, as text or as JSON."""
    if text.lstrip()[:1] == "{":
        return bool(re.search(r'"critical_warning"\s*:', text) and re.search(r'"avail_spare"\s*:', text))
    return bool(re.search(r"^Smart Log for NVME device", text, re.MULTILINE))


def reports_in(text: str) -> Iterator[str]:
    """Yield the report of each drive in smartctl's JSON; what is no such text is yielded as it is."""
    if text.lstrip()[:1] == "{":
        yield _of_nvme_cli(text) if is_log_of_nvme_cli(text) else text
        return
    starts = [match.start() for match in _BEGIN.finditer(text)] or [0]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield _of_text(text[start:end])


def _of_text(text: str) -> str:
    # A last line without its end may have lost part of a number.
    lines = text.split("\n")[:-1]
    found: dict[str, Any] = {}
    for line in lines:
        match = _LINE.match(line)
        if match:
            name = re.sub(r"[^a-z0-9]+", "_", match.group(1).lower())
            found.setdefault(_NAMES.get(name, name), []).append(match.group(2))
    assessment = _ASSESSMENT.search(text)
    # A drive of another kind tells none of the fields, and fails by its own word all the same.
    log = {name: _value(name, found.get(name, [])) for name in _FIELDS if name in found or assessment}
    if not log:
        return text
    passed = {"PASSED": True, "FAILED": False}.get(assessment.group(1)) if assessment else None
    return _document(log, passed, next(iter(found.get("serial_number", [])), None))


def _value(name: str, texts: list[str]) -> int | None:
    values = {_whole(text, _UNITS.get(name, "")) for text in texts}
    return values.pop() if len(values) == 1 else None


def _whole(text: str, unit: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    if not match or not re.fullmatch(unit, match.group(2)):
        return None
    number = match.group(1)
    return int(number, 16) if number.startswith("0x") else int(re.sub(r"\D", "", number))


def _of_nvme_cli(text: str) -> str:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(told, dict):
        return text
    log = {_NAMES.get(name, name): value for name, value in told.items()}
    if isinstance(log.get("critical_warning"), dict):
        # With -v it tells each bit beside the whole.
        log["critical_warning"] = log["critical_warning"].get("value")
    if isinstance(log.get("temperature"), int):
        log["temperature"] -= _ZERO_CELSIUS_IN_KELVIN
    return _document({name: log[name] for name in _FIELDS if name in log}, None, None)


def _document(log: Mapping[str, Any], passed: bool | None, serial: str | None) -> str:
    return json.dumps(
        {
            "smartctl": {"exit_status": 0},
            "serial_number": serial,
            "smart_status": {"passed": passed},
            "nvme_smart_health_information_log": log,
        }
    )
