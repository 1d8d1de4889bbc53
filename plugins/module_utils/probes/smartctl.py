"""``smartctl -j -i -H -A`` of every NVMe drive of the class: the drive's own health report.

Exit status and JSON as smartctl(8) and smartmontools 7.0 to 7.5 define them: bits 0 to 2 of the status say that
something could not be read, bits 3 to 7 that the drive reports a fault or an old one. ``-i -H -A`` read no log but the
health report, so that a drive without error or self-test log does not set bit 2. Meaning and units of the report's
fields: NVM Express base specification, "SMART / Health Information" log page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

from ..formats.nvme import assigned
from ..host.blocks import joined, split
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations
from . import nvme_sysfs

NAME = "smartctl"
ARGV = ("smartctl", "-j", "-i", "-H", "-A")
TIMEOUT_SECONDS = 20.0
NO_DRIVE = "no drive of the class was found\n"

# Bits of smartctl's exit status.
_NOT_PARSED, _NOT_OPENED, _COMMAND_FAILED, FAILING, _OLD_ERRORS, SELF_TEST_FAILED = 1, 2, 4, 8, 64, 128


@dataclass(frozen=True)
class Smart:
    """One drive's health report; a field that the drive did not give is None.

    ``temperature_celsius`` in degrees C, ``percentage_used`` of the rated endurance (may exceed 100), ``passed`` as
    smartctl sums it up.
    """

    exit_status: int
    serial: str | None
    passed: bool | None
    critical_warning: int | None
    temperature_celsius: float | None
    available_spare: int | None
    available_spare_threshold: int | None
    percentage_used: int | None
    media_errors: int | None
    # Minutes in the drive's life at its own warning temperature or above, and at its critical one.
    warning_temp_time: int | None
    critical_comp_time: int | None
    power_on_hours: int | None
    power_cycles: int | None
    data_units_read: int | None
    data_units_written: int | None
    host_reads: int | None
    host_writes: int | None


# What is known of one drive, or why nothing is.
Report = Union[Smart, str]


def collect(host: Host, expect: Expectations) -> Output:
    """Ask each drive of the class that sysfs shows, under the name of its part."""
    drives = nvme_sysfs.parse(nvme_sysfs.collect(host, expect))
    parts = assigned(drives, expect.nvme)
    if not parts:
        return Output(NO_DRIVE)
    return joined(
        {part: host.run((*ARGV, f"/dev/{drive.controller}"), TIMEOUT_SECONDS) for part, drive in parts.items()}
    )


def parse(output: Output) -> dict[str, Report]:
    """Return what each drive says by its part's name, as text why it could not be read; raises Unreadable."""
    if output.stdout == NO_DRIVE:
        return {}
    parts = split(output.stdout)
    if not parts or not output.stdout.startswith("==> "):
        raise Unreadable(f"begins with {output.stdout[:40]!r}, expected a heading for each drive")
    return {part: _report(answer) for part, answer in parts.items()}


def _report(answer: Output) -> Report:
    if answer.rc is None:
        return answer.error or "smartctl could not be run"
    try:
        document = json.loads(answer.stdout)
    except (ValueError, RecursionError) as exc:
        return f"exit status {answer.rc}, not JSON: {exc}"
    tool = _mapping(document, "smartctl")
    status = _whole(tool, "exit_status")
    if status is None:
        return "no smartctl.exit_status in what smartctl printed"
    # The two say the same, unless somebody else ended the tool.
    if answer.rc not in (0, status):
        return f"exit status {answer.rc}, but {status} in what smartctl printed"
    log = _mapping(document, "nvme_smart_health_information_log")
    if status & (_NOT_PARSED | _NOT_OPENED) or not log:
        return f"exit status {status}: {_messages(tool) or 'no health report'}"
    return Smart(
        status,
        _text(document.get("serial_number")),
        _flag(_mapping(document, "smart_status").get("passed")),
        _whole(log, "critical_warning"),
        _whole(log, "temperature"),
        *(
            _whole(log, name)
            for name in (
                "available_spare",
                "available_spare_threshold",
                "percentage_used",
                "media_errors",
                "warning_temp_time",
                "critical_comp_time",
                "power_on_hours",
                "power_cycles",
                "data_units_read",
                "data_units_written",
                "host_reads",
                "host_writes",
            )
        ),
    )


def _messages(tool: Mapping[str, Any]) -> str:
    messages = tool.get("messages")
    texts = (
        [str(item.get("string")) for item in messages if isinstance(item, dict)] if isinstance(messages, list) else []
    )
    return "; ".join(texts)[:200]


def _mapping(document: Any, name: str) -> Mapping[str, Any]:
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, dict) else {}


def _whole(document: Mapping[str, Any], name: str) -> int | None:
    value = document.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
