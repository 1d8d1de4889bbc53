"""What do the NVMe drives of the class say of their own health?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..formats.nvme import nvme_subjects
from ..probes.smartctl import FAILING, SELF_TEST_FAILED, Report, Smart
from ..words.expectations import Expectations, Nvme, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nvme_smart"
RULES = 2
PROBES: tuple[str, ...] = ("smartctl",)

# Bits of the critical warning field (NVM Express base specification, SMART / Health Information).
_WARNINGS = (
    "available spare below its threshold",
    "temperature beyond a threshold",
    "reliability degraded",
    "read only",
    "volatile memory backup failed",
    "persistent memory region unreliable",
)

# What a report has to hold before it can pass.
_NEEDED = (
    "critical_warning",
    "passed",
    "media_errors",
    "percentage_used",
    "available_spare",
    "available_spare_threshold",
    "temperature_celsius",
    "warning_temp_time",
    "critical_comp_time",
    "power_on_hours",
    "power_cycles",
)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the drives of the class."""
    return nvme_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge each drive's report."""
    reports: Mapping[str, Report] = values["smartctl"]
    return [_judged(part, reports[part], stated(expect.nvme)) for part in nvme_subjects(expect) if part in reports]


def _judged(part: str, report: Report, wanted: Nvme) -> Finding:
    if isinstance(report, str):
        return Finding(NAME, part, INCOMPLETE, None, "health report", "", report, "investigate")
    serial = f" (serial {report.serial})" if report.serial else ""
    fault = _fault(report, wanted)
    if fault is not None:
        measured, expected, unit, why, action = fault
        return Finding(NAME, part, FAIL, measured, expected, unit, why + serial, action)
    unread = [name for name in _NEEDED if getattr(report, name) is None]
    # 0 C or -273 C (0 K) is what a drive shows that does not measure.
    if report.temperature_celsius == 0:
        unread.append("temperature_celsius")
    if unread:
        why = f"not in the health report: {', '.join(unread)}{serial}"
        return Finding(NAME, part, INCOMPLETE, None, "health report", "", why, "investigate")
    used = report.percentage_used
    if report.warning_temp_time:
        why = f"{report.warning_temp_time} minutes of its life at its warning temperature or above{serial}"
        return Finding(NAME, part, PASS, used, wanted.percentage_used, "% used", why, "investigate")
    if report.exit_status:
        why = f"smartctl's exit status is {report.exit_status}: old errors or a log it could not read{serial}"
        return Finding(NAME, part, PASS, used, wanted.percentage_used, "% used", why, "investigate")
    return Finding(NAME, part, PASS, used, wanted.percentage_used, "% used")


def _fault(report: Smart, wanted: Nvme) -> tuple[Any, Any, str, str, str] | None:
    """Return measured, expected, unit, reason and action of the worst that the report shows."""
    if report.critical_warning:
        bits = [text for bit, text in enumerate(_WARNINGS) if report.critical_warning >> bit & 1] or ["unknown bit"]
        # A hot drive is first of all a matter of cooling.
        action = "investigate" if report.critical_warning == 2 else "replace"
        return report.critical_warning, 0, "", f"critical warning: {', '.join(bits)}", action
    if report.passed is False or report.exit_status & FAILING:
        return "failed", "passed", "", "the drive's health self-assessment is FAILED", "replace"
    if report.exit_status & SELF_TEST_FAILED:
        return "failed", "passed", "", "a self-test of the drive failed", "replace"
    if report.media_errors is not None and report.media_errors > wanted.media_errors:
        return report.media_errors, wanted.media_errors, "errors", "media errors above the class limit", "replace"
    spare, threshold = report.available_spare, report.available_spare_threshold
    if spare is not None and threshold is not None and spare < threshold:
        return spare, threshold, "%", "available spare below the drive's own threshold", "replace"
    # "May prevent continued normal operation, possibility of data loss, ... or permanent damage": CCTEMP in the NVM
    # Express base specification. Its warning temperature, below that, is a remark.
    if report.critical_comp_time:
        why = "minutes at the drive's critical temperature or above, at which it may lose data"
        return report.critical_comp_time, 0, "minutes", why, "replace"
    if report.percentage_used is not None and report.percentage_used > wanted.percentage_used:
        why = "used endurance above the class limit"
        return report.percentage_used, wanted.percentage_used, "% used", why, "replace"
    celsius = report.temperature_celsius
    if celsius is not None and celsius > wanted.temperature_celsius:
        return celsius, wanted.temperature_celsius, "C", "temperature above the class limit", "investigate"
    odd = _implausible(report)
    return (odd, "plausible counters", "", f"implausible health report: {odd}", "investigate") if odd else None


def _implausible(report: Smart) -> str:
    """Return why the counters cannot be true: a drive that lost its own records cannot vouch for its health."""
    if report.power_on_hours and report.power_cycles == 0:
        return f"{report.power_on_hours} power-on hours without a power cycle"
    # A data unit is 1000 blocks of 512 bytes, rounded up: the first read or write makes it 1.
    for unit, commands, what in (
        (report.data_units_read, report.host_reads, "reads"),
        (report.data_units_written, report.host_writes, "writes"),
    ):
        if unit == 0 and commands:
            return f"{commands} {what} that moved no data"
    if report.available_spare is not None and report.available_spare > 100:
        return f"available spare of {report.available_spare} %"
    return ""
