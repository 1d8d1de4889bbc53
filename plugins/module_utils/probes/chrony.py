"""``chronyc -c tracking``: is the clock steered, and how far off is it.

Fields in order (chronyc(1), "tracking"): reference id, name, stratum, reference time, system time, last offset, RMS
offset, frequency, residual frequency, skew, root delay, root dispersion, update interval, leap status. The report for
people (``chronyc tracking``) has the same, one per line, and is understood as well.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "chrony"
ARGV = ("chronyc", "-c", "tracking")
TIMEOUT_SECONDS = 10.0

_FIELDS = 14
# No reference, and chrony's own clock as reference (directive "local"), in today's form and in that of chrony 2.
_UNSTEERED = ("00000000", "7F7F0101", "0.0.0.0", "127.127.1.1")
_LEAP = ("Normal", "Insert second", "Delete second", "Not synchronised")
_REFERENCE = re.compile(r"([0-9A-Fa-f.:]+)(?: \((.*)\))?")
_SYSTEM_TIME = re.compile(r"(\S+) seconds (?:slow|fast) of NTP time")


@dataclass(frozen=True)
class Tracking:
    """``offset_ms``: how far the system clock is from the reference, without sign."""

    synchronised: bool
    source: str
    offset_ms: float


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> Tracking:
    """Return the state of the clock; raises Unreadable (``506 Cannot talk to daemon`` among others)."""
    text = output.stdout.strip()
    require_success(output)
    reference, name, stratum, system_time, leap = _report(text) if text.startswith("Reference ID") else _csv(text)
    if leap not in _LEAP:
        raise Unreadable(f"leap status is {leap!r}, expected one of {', '.join(_LEAP)}")
    try:
        offset, level = float(system_time), int(stratum)
    except ValueError as exc:
        raise Unreadable(f"stratum {stratum!r} or system time {system_time!r} is not a number") from exc
    if not math.isfinite(offset):
        raise Unreadable(f"system time is {system_time}, expected a number of seconds")
    synchronised = leap != "Not synchronised" and level > 0 and reference not in _UNSTEERED
    return Tracking(synchronised, name or reference, abs(offset) * 1000)


def _csv(text: str) -> tuple[str, str, str, str, str]:
    fields = text.split(",")
    if len(fields) != _FIELDS:
        raise Unreadable(f"{len(fields)} fields, expected {_FIELDS}: {text[:60]!r}")
    return fields[0], fields[1], fields[2], fields[4], fields[13]


def _report(text: str) -> tuple[str, str, str, str, str]:
    lines = dict(line.partition(" :")[::2] for line in text.splitlines())
    fields = {name.strip(): value.strip() for name, value in lines.items()}
    reference = _REFERENCE.fullmatch(fields.get("Reference ID", ""))
    system_time = _SYSTEM_TIME.fullmatch(fields.get("System time", ""))
    if not reference or not system_time:
        raise Unreadable("no lines 'Reference ID : ID (NAME)' and 'System time : N seconds slow of NTP time'")
    stratum, leap = fields.get("Stratum", ""), fields.get("Leap status", "")
    return reference.group(1), reference.group(2) or "", stratum, system_time.group(1), leap
