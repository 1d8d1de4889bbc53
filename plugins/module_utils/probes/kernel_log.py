"""``journalctl -k -b``: every kernel message of this boot.

Lines are ``2025-01-21T04:41:44+0000 HOST kernel: TEXT``. The other forms in which a kernel log is saved are understood
too: journalctl's ``short``, ``short-precise``, ``short-full``, ``short-unix`` and ``short-monotonic`` (journalctl(1)),
syslog files, ``dmesg`` with ``-T``, ``-x``, ``-r``, ``-d``, ``-e`` or ``--time-format iso`` (dmesg(1)), pstore dumps,
records of ``/dev/kmsg`` (the kernel's Documentation/ABI/testing/dev-kmsg), and lines without any stamp, or with one
that names the month in another language.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import datetime

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "kernel_log"
ARGV = ("journalctl", "-k", "-b", "--no-pager", "-o", "short-iso")
TIMEOUT_SECONDS = 30.0

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# A stamp of syslog names no year: any will do for telling how far apart two messages are; a leap year knows all days.
_SOME_YEAR = 2000

_CTIME = r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}"
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_FULL = r"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [A-Z]{3,5}"
_SYSLOG = r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
# journalctl writes months in the reader's language ("janv. 29 20:50:17"; strftime(3), %b), some with a number in their
# name ("11\u6708 15 14:15:47"); viewers put the day first ("04 Aug, 14:03:26").
FOREIGN_STAMP = r"(?:[^\s\d\[]{1,12} [ \d]\d|\d{1,2}[^\s\d]? \S{1,12}) \d\d:\d\d:\d\d"
# Level and facility of dmesg -r and -x.
_LEVEL = r"(?:<(?P<priority>\d{1,3})>|[a-z]+ *:(?P<level>[a-z]+) *: ?)?"
# dmesg's names of the kernel's levels, from 0 on (include/linux/kern_levels.h).
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
# A priority is eight times its facility and its level.
_LEVELS_OF_A_FACILITY = 8
# In brackets: uptime (dmesg -d puts the difference behind it), calendar, or dmesg -e's month-and-minute and difference.
_BRACKETS = (
    rf"\[\s*(?P<bracketed>\d+\.\d+|{_CTIME}|[A-Z][a-z]{{2}} ?\d{{1,2}} \d\d:\d\d|\+\d+\.\d+)(?:\s*<[\s\d.]*>)?\s*\]"
)
# grep -n, cat -n and less -N count the lines.
_NUMBERED = r"(?:\d{1,8}(?::|\s*)(?=\[\s*\d+\.\d{6}\]))?"
_LINE = re.compile(
    rf"\s*{_NUMBERED}{_LEVEL}(?:{_BRACKETS}|(?P<bare>{_ISO}|{_FULL}|{_SYSLOG}|\d{{9,}}\.\d+"
    rf"|{FOREIGN_STAMP}(?= \S+ kernel: )))\s?(?P<said>.*)",
    re.DOTALL,
)
_RECORD = re.compile(r"(\d+),(\d+),(\d+),[^;]*;(.*)", re.DOTALL)
# A record's dictionary: lines that begin with a blank.
_RECORD_KEY = re.compile(r" [A-Z_0-9]+=")
# Who said it, and what printk may add: its own stamp, and the thread or CPU (CONFIG_PRINTK_CALLER).
_SOURCE = re.compile(r"(?:[^\s:|]+ )?kernel: ?(?:\[\s*\d+\.\d+\] ?)?|\[\s*\d+\.\d+\] ?")
_CALLER = re.compile(r"\[\s*[TC]\d+\] ?")

# A kernel's first words; microcode loading and, on arm64, the boot CPU may come before them.
_BANNER = re.compile(r"Linux version \d")
_BANNER_WITHIN = 20
_NO_TEXT = re.compile("[\0\ufffd]")
# A record of the kernel holds 1,024 bytes (PRINTKRB_RECORD_MAX, kernel/printk/internal.h). What is much longer has lost
# the ends of its lines; searched in one piece it would cost the square of its length.
_LONGEST = 2048
# What journalctl says on standard error when it shows less than there is, with exit status 0.
_PARTIAL = re.compile(r"ignoring|corrupt|truncated|bad message|not seeing|failed|error", re.IGNORECASE)


@dataclass(frozen=True)
class Message:
    """One kernel message; ``stamp`` is "" for a line without one, as continuation lines are.

    ``text`` is what the kernel said, without stamp, level, host and ``kernel:``. ``level`` is the kernel's own, from 0
    (emergency) over 3 (error) to 7 (debug), None where the log was saved without it.
    """

    stamp: str
    text: str
    level: int | None = None

    @property
    def seconds(self) -> float | None:
        """Seconds on the log's own clock (epoch, uptime, or since a year's start), None where the stamp tells none."""
        try:
            return _seconds(self.stamp)
        except ValueError:
            return None


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> tuple[Message, ...]:
    """Return the messages of this boot in order.

    Raises Unreadable for a log that does not begin with the kernel's banner: what was rotated away may have held an
    error, so that silence of the rest says nothing. What it says of faults stands (``Unreadable.read``).
    """
    messages = messages_in(output)
    if not begins_with_boot(messages):
        raise Unreadable(
            "the log lacks the beginning of this boot: it begins with "
            f"{messages[0].text[:60]!r}, expected 'Linux version ...'",
            messages,
        )
    return messages


def begins_with_boot(messages: tuple[Message, ...]) -> bool:
    """Return whether the kernel's first words are there."""
    return any(_BANNER.match(message.text) for message in messages[:_BANNER_WITHIN])


def messages_in(output: Output) -> tuple[Message, ...]:
    """Return the messages of a log or a part of one, in order.

    Raises Unreadable for one that is not whole, with the lines that are (``Unreadable.read``): each speaks for itself.
    """
    lines = output.stdout.split("\n")
    # A half line may hold half a number.
    half = lines.pop()
    if _NO_TEXT.search(output.stdout):
        lines = [line for line in lines if not _NO_TEXT.search(line)]
    messages = tuple(
        _message(piece)
        for line in lines
        if line and not line.startswith("-- ") and not (line[0] == " " and _RECORD_KEY.match(line))
        for piece in (_pieces(line) if len(line) > _LONGEST else (line,))
    )
    why = _lacking(output, half)
    if why:
        raise Unreadable(why, messages or None)
    if not messages:
        raise Unreadable("no message, expected at least one")
    return messages


def _lacking(output: Output, half: str) -> str:
    """Return why a log is not whole, "" if it is."""
    try:
        require_success(output)
    except Unreadable as exc:
        return str(exc)
    if _PARTIAL.search(output.stderr):
        return f"shows less than there is: {output.stderr.strip()[:200]}"
    if half:
        # What else is missing after the half line nobody knows.
        return f"cut off in mid line: ends with {half[-60:]!r}"
    if _NO_TEXT.search(output.stdout):
        # journalctl writes "[12B blob data]" for what is no text.
        return "holds bytes that are no text, expected journalctl's lines"
    return ""


def _pieces(line: str) -> list[str]:
    """Return a line that is too long for one of the kernel's in pieces that overlap: none cuts a message in two."""
    return [line[at : at + _LONGEST] for at in range(0, len(line) - _LONGEST // 2, _LONGEST // 2)]


def _message(line: str) -> Message:
    line = line.rstrip("\r")
    record = _RECORD.match(line) if line[:1].isdigit() else None
    if record:
        level = int(record.group(1)) % _LEVELS_OF_A_FACILITY
        return Message(f"{int(record.group(3)) / 1e6:.6f}", _said(record.group(4)), level)
    match = _LINE.match(line)
    if match:
        return Message(match["bracketed"] or match["bare"], _said(match["said"]), _level(match))
    return Message("", _said(line))


def _level(match: re.Match[str]) -> int | None:
    if match["priority"]:
        return int(match["priority"]) % _LEVELS_OF_A_FACILITY
    return _LEVELS.index(match["level"]) if match["level"] in _LEVELS else None


def _said(text: str) -> str:
    match = _SOURCE.match(text) if text[:1] == "[" or "kernel:" in text else None
    if match:
        text = text[match.end() :]
    match = _CALLER.match(text) if text[:1] == "[" else None
    return text[match.end() :] if match else text


def _seconds(stamp: str) -> float | None:
    """Return the stamp as seconds; raises ValueError for a day or hour that is none."""
    if re.fullmatch(r"\d+\.\d+", stamp):
        return float(stamp)
    if re.fullmatch(_ISO, stamp):
        fraction = re.sub(r"[.,](\d{1,6})\d*", r".\1", stamp)
        form = "%Y-%m-%dT%H:%M:%S" + (".%f" if "." in fraction else "") + "%z"
        return datetime.strptime(fraction, form).timestamp()
    words = stamp.split()
    clock = words[-2] if re.fullmatch(f"{_CTIME}|{_FULL}", stamp) else words[-1] if words else ""
    if re.fullmatch(_CTIME, stamp):
        year, month, day = int(words[4]), _MONTHS.index(words[1]) + 1, int(words[2])
    elif re.fullmatch(_FULL, stamp):
        year, month, day = (int(part) for part in words[1].split("-"))
    elif re.fullmatch(_SYSLOG, stamp):
        year, month, day = _SOME_YEAR, _MONTHS.index(words[0]) + 1, int(words[1])
    else:
        return None
    hour, minute, second = clock.split(":")
    return calendar.timegm((year, month, day, int(hour), int(minute), 0)) + float(second)
