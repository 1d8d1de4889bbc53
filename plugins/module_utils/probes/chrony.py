"""``chronyc -c tracking``: is the clock steered, and how far off is it.

Fields in order (chronyc(1), "tracking"): reference id, name, stratum, reference time, system time, last offset, RMS
offset, frequency, residual frequency, skew, root delay, root dispersion, update interval, leap status.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..examine import Unreadable
from ..host import Host, Output

NAME = "chrony"
ARGV = ("chronyc", "-c", "tracking")
TIMEOUT_SECONDS = 10.0

_FIELDS = 14
# chrony's own clock as reference (directive "local"): nothing from outside steers it.
_LOCAL_REFERENCE = "7F7F0101"
_LEAP = ("Normal", "Insert second", "Delete second", "Not synchronised")


@dataclass(frozen=True)
class Tracking:
    """``offset_ms``: how far the system clock is from the reference, without sign."""

    synchronised: bool
    source: str
    offset_ms: float


def collect(host: Host, expect: Mapping[str, Any]) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> Tracking:
    """Return the state of the clock; raises Unreadable (``506 Cannot talk to daemon`` among others)."""
    text = output.stdout.strip()
    if output.rc != 0:
        raise Unreadable(f"exit status {output.rc}: {(text or output.stderr.strip())[:200]}")
    fields = text.split(",")
    if len(fields) != _FIELDS:
        raise Unreadable(f"{len(fields)} fields, expected {_FIELDS}: {text[:60]!r}")
    reference, name, stratum, leap = fields[0], fields[1], fields[2], fields[13]
    if leap not in _LEAP:
        raise Unreadable(f"leap status is {leap!r}, expected one of {', '.join(_LEAP)}")
    try:
        offset, level = float(fields[4]), int(stratum)
    except ValueError as exc:
        raise Unreadable(f"stratum {stratum!r} or system time {fields[4]!r} is not a number") from exc
    if not math.isfinite(offset):
        raise Unreadable(f"system time is {fields[4]}, expected a number of seconds")
    synchronised = leap != "Not synchronised" and level > 0 and reference not in ("00000000", _LOCAL_REFERENCE)
    return Tracking(synchronised, name or reference, abs(offset) * 1000)
