"""``ipmitool sel info`` and ``ipmitool sel elist``: the BMC's event log, and how many entries it should have.

Layouts of ipmitool 1.8.9 to 1.8.19 (lib/ipmi_sel.c): ``id | date | time | sensor | event | Asserted``, for ``elist``
with the sensor's name and a further column; ``Pre-Init`` and a counter in place of the date before the BMC's clock was
set; dates with two or four digits of year, times with a zone; OEM records. ``sel list`` alone is understood as well,
and so is its form with ``-v``, a paragraph of fields for each record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..formats.bmc import NOT_DECLARED, Event, bmc_declared
from ..host.blocks import joined, split
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "ipmi_sel"
# Logs of real BMCs are at hand, not what they say of them.
PARTLY_UNVERIFIED = "sel info"
INFO, LIST = "sel info", "sel elist"
# A BMC answers a few entries per second.
TIMEOUT_SECONDS = 120.0

_EMPTY = "SEL has no entries"
_DATE = re.compile(r"(\d\d)/(\d\d)/(\d{4}|\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?: ([AP]M))?(?: [\w+-]+)?", re.ASCII)
# Sixteen bits, of which a BMC may leave out the last few.
_LAST_NUMBERS = 0xF000
_ID = re.compile(r"[0-9a-f]{1,4}", re.ASCII)
_DIRECTIONS = ("Asserted", "Deasserted")
# ipmitool prints a sensor that it reads on the way as a line of the sensor list.
_SENSOR_NUMBER = re.compile(r"[0-9A-Fa-f]{1,2}h", re.ASCII)
_STATUS = {
    "lcr": "Lower Critical",
    "ucr": "Upper Critical",
    "lnr": "Lower Non-recoverable",
    "unr": "Upper Non-recoverable",
}


@dataclass(frozen=True)
class Log:
    """``overflow``: entries were lost, since the log was full."""

    events: tuple[Event, ...]
    overflow: bool = False


def collect(host: Host, expect: Expectations) -> Output:
    """Ask the host's BMC through the kernel's driver."""
    if not bmc_declared(expect, "ipmitool"):
        return NOT_DECLARED
    return joined({name: host.run(("ipmitool", *name.split()), TIMEOUT_SECONDS) for name in (INFO, LIST)})


def parse(output: Output) -> Log | None:
    """Return the log, None where the class declares no BMC behind ipmitool; raises Unreadable."""
    if output.stdout == NOT_DECLARED.stdout:
        return None
    if not output.stdout.startswith("="):
        require_success(output)
        return Log(_events(output.stdout))
    parts = split(output.stdout)
    for name in (INFO, LIST):
        answer = parts.get(name)
        if answer is None or answer.rc != 0:
            why = "no answer" if answer is None else answer.error or f"exit status {answer.rc}: {answer.stderr}"
            raise Unreadable(f"ipmitool {name}: {why}")
    info = dict(re.findall(r"^(Entries|Overflow) +: (.*?) *$", parts[INFO].stdout, re.MULTILINE))
    entries, overflow = info.get("Entries", ""), info.get("Overflow", "")
    if not (entries.isascii() and entries.isdigit()) or overflow not in ("true", "false"):
        raise Unreadable(f"sel info: Entries {entries!r}, Overflow {overflow!r}, expected a number and true or false")
    text = parts[LIST].stdout
    events = _events(text) if text or int(entries) else ()
    if len(events) != int(entries):
        raise Unreadable(f"sel elist has {len(events)} entries, sel info counts {entries}")
    return Log(events, overflow == "true")


def _events(text: str) -> tuple[Event, ...]:
    if re.match(r"\s*SEL Record ID", text):
        text = _as_lines(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if [line.strip() for line in lines] == [_EMPTY]:
        return ()
    if not lines or not text.endswith("\n"):
        raise Unreadable(f"ends with {text[-40:]!r}, expected whole lines")
    events = tuple(_event(line) for line in lines)
    numbers = [int(event.id, 16) for event in events]
    # What came before "log cleared" and what after it goes by the order; numbers begin again only after the last.
    for before, number in zip(numbers, numbers[1:]):
        if number <= before < _LAST_NUMBERS:
            raise Unreadable(f"record {number:x} stands after {before:x}, expected records in their order")
    return events


def _as_lines(text: str) -> str:
    """Return the records of ``sel list -v`` as lines of ``sel list``; raises Unreadable."""
    lines = []
    for record in re.split(r"^(?=\s*SEL Record ID)", text, flags=re.MULTILINE):
        if not record.strip():
            continue
        fields = dict(re.findall(r"^ *(\S[^:\n]*?) *: *(.*?) *$", record, re.MULTILINE))
        sensor = f"{fields.get('Sensor Type', '')} #0x{fields.get('Sensor Number', '')}"
        direction = fields.get("Event Direction", "").replace("ion Event", "ed")
        date, _, time = fields.get("Timestamp", "").partition(" ")
        if direction not in _DIRECTIONS or not fields.get("Description"):
            raise Unreadable(f"record {fields.get('SEL Record ID')!r} without direction or description")
        number = fields["SEL Record ID"].lstrip("0") or "0"
        lines.append(" | ".join((number, date, time, sensor, fields["Description"], direction)) + "\n")
    if not text.endswith("\n"):
        raise Unreadable(f"ends with {text[-40:]!r}, expected whole lines")
    return "".join(lines)


def _event(line: str) -> Event:
    fields = [field.strip() for field in line.split("|")]
    if not _ID.fullmatch(fields[0].lower()) or len(fields) < 2:
        raise Unreadable(f"line {line[:80]!r}, expected an entry of the log")
    if not _DATE.fullmatch(fields[1]) and not fields[1].startswith("Pre-Init"):
        if fields[1].startswith(("OEM record", "Linux kernel panic")):
            return Event(fields[0], None, "", " ".join(fields[1:]))
        raise Unreadable(f"line {line[:80]!r}, expected a date after the number")
    rest = fields[3:]
    if len(rest) < 2:
        raise Unreadable(f"line {line[:80]!r}, expected sensor and event")
    time = _time(fields[1], fields[2])
    if len(rest) >= 5 and _SENSOR_NUMBER.fullmatch(rest[1]):
        return Event(fields[0], time, rest[0], f"{_STATUS.get(rest[2], rest[2])} ({rest[4]})")
    direction = next((index for index, field in enumerate(rest) if field in _DIRECTIONS), None)
    if direction is None:
        # ipmitool before 1.8.9 has no such column.
        return Event(fields[0], time, rest[0], " | ".join(rest[1:]))
    if direction < 2:
        raise Unreadable(f"line {line[:80]!r}, expected sensor and event before {rest[direction]}")
    said = " | ".join(field for index, field in enumerate(rest) if index not in (0, direction) and field)
    return Event(fields[0], time, rest[0], said, rest[direction] == "Asserted")


def _time(date: str, clock: str) -> str | None:
    day, time = _DATE.fullmatch(date), _TIME.fullmatch(clock)
    if not day or not time:
        return None
    month, monthday, year = day.groups()
    # A BMC whose clock nobody set begins in 1970 (or 2000, with two digits).
    if not 1 <= int(month) <= 12 or not 1 <= int(monthday) <= 31 or year == "1970":
        return None
    hour = int(time.group(1)) % 12 + 12 * (time.group(4) == "PM") if time.group(4) else int(time.group(1))
    century = "20" if len(year) == 2 else ""
    return f"{century}{year}-{month}-{monthday}T{hour:02d}:{time.group(2)}:{time.group(3)}"
