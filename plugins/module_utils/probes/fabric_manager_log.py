"""The end of the fabric manager's own log, from the service's last start on; or the service's lines of a journal.

Lines: ``[Jul 09 2024 18:14:07] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on ...`` (leptonai/gpud
4a8de33, test data of H100 hosts; the thread's number is not always there). Lines without such a head belong to the one
before. A start begins with ``Fabric Manager version 535.161.08 is running with the following configuration options``; a
log that has been rotated since, or whose start lies before the part that is read, is taken as a whole.

People save the journal as well (``journalctl -u nvidia-fabricmanager``): ``Sep 18 03:19:01 HOST PROGRAM[4753]: TEXT``
of the service's programs and of systemd about it; there a start is systemd's ``Starting nvidia-fabricmanager.service``.
Their lines have no level: one that speaks of a failure has ``ERROR``.
"""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, stated
from .kernel_log import FOREIGN_STAMP, Message

NAME = "fabric_manager_log"
# The logs at hand begin after the start.
PARTLY_UNVERIFIED = "the line of a start"
# Every job writes a few hundred bytes for each of its multicast teams: the newest 250 jobs or so; small as evidence.
LIMIT_BYTES = 262144
TIMEOUT_SECONDS = 10.0

_LINE = re.compile(r"\[([A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d)\] \[(\w+)\] ?(?:\[tid \d+\] ?)?(.*)", re.ASCII)
_JOURNAL = re.compile(
    r"(?:([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+|" + FOREIGN_STAMP + r") \S+ )?"
    r"(?:nv(?:idia)?-fabric[\w.-]*|systemd)\[\d+\]: (.*)",
    re.ASCII,
)
_OF_SYSTEMD = re.compile(r"\bsystemd\[\d+\]: ")
_FAILURE = re.compile(r"\b(?:error|fail(?:ed|ure)?|fatal|abort\w*|cannot|unable)\b", re.IGNORECASE)
_START = re.compile(
    r"Fabric Manager version \S+ is running with the following configuration options"
    r"|Starting (?:nvidia-fabricmanager\.service|NVIDIA fabric manager service)"
)


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
    line = line.rstrip("\r")
    match = _LINE.match(line)
    if not match:
        journal = _JOURNAL.match(line)
        if not journal or (_OF_SYSTEMD.search(line) and "fabric" not in line.lower()):
            return Entry("", "", line)
        stamp, text = journal.groups(default="")
        return Entry(stamp, "ERROR" if _FAILURE.search(text) else "INFO", text, Message(stamp, "").seconds)
    stamp, level, text = match.groups()
    return Entry(stamp, level, text, _seconds(stamp))


def _seconds(stamp: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(stamp, "%b %d %Y %H:%M:%S")))
    except ValueError:
        return None


def _not_before(seconds: float | None, start: float | None) -> bool:
    return start is None or (seconds is not None and seconds >= start)
