"""The end of the fabric manager's own log, from the service's last start on.

Lines: ``[Jul 09 2024 18:14:07] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on ...`` (leptonai/gpud
4a8de33, test data of H100 hosts; the thread's number is not always there). Lines without such a head belong to the one
before. A start begins with ``Fabric Manager version 535.161.08 is running with the following configuration options``; a
log that has been rotated since, or whose start lies before the part that is read, is taken as a whole.
"""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, stated

NAME = "fabric_manager_log"
# The logs at hand begin after the start.
PARTLY_UNVERIFIED = "the line of a start"
# Every job writes a few hundred bytes for each of its multicast teams: the newest 250 jobs or so; small as evidence.
LIMIT_BYTES = 262144
TIMEOUT_SECONDS = 10.0

_LINE = re.compile(r"\[([A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d)\] \[(\w+)\] ?(?:\[tid \d+\] ?)?(.*)", re.ASCII)
_START = re.compile(r"Fabric Manager version \S+ is running with the following configuration options")


@dataclass(frozen=True)
class Entry:
    """One line: ``stamp`` in the host's own time, ``level`` in the log's words, both "" in a line without a head.

    ``seconds`` is the stamp as a number, for differences; None where there is none.
    """

    stamp: str
    level: str
    text: str
    seconds: float | None = None


def collect(host: Host, expect: Expectations) -> Output:
    """Read the end of the log that the class names."""
    path = expect.tools.root.rstrip("/") + stated(stated(expect.nvlink).fabric_manager_log)
    return host.run(("tail", "-c", str(LIMIT_BYTES), path), TIMEOUT_SECONDS)


def parse(output: Output) -> tuple[Entry, ...]:
    """Return the lines since the service last started; raises Unreadable when none is a fabric manager's."""
    if output.rc != 0:
        raise Unreadable(f"exit status {output.rc}: {output.stderr.strip()[:200] or 'no message'}")
    entries = [_entry(line) for line in output.stdout.split("\n") if line.strip()]
    if not any(entry.level for entry in entries):
        raise Unreadable(
            f"begins with {output.stdout[:60]!r}, expected lines such as '[Jul 09 2024 18:14:07] [INFO] ...'"
        )
    starts = [index for index, entry in enumerate(entries) if _START.search(entry.text)]
    begin = starts[-1] if starts else 0
    # Threads write in turn, not always in order: what is no older than the start belongs to it wherever it stands.
    late = [entry for entry in entries[:begin] if _not_before(entry.seconds, entries[begin].seconds)]
    return (*late, *entries[begin:])


def _entry(line: str) -> Entry:
    match = _LINE.match(line.rstrip("\r"))
    if not match:
        return Entry("", "", line)
    stamp, level, text = match.groups()
    return Entry(stamp, level, text, _seconds(stamp))


def _seconds(stamp: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(stamp, "%b %d %Y %H:%M:%S")))
    except ValueError:
        return None


def _not_before(seconds: float | None, start: float | None) -> bool:
    return start is None or (seconds is not None and seconds >= start)
