"""``journalctl -k -b``: every kernel message of this boot.

Lines are ``2025-01-21T04:41:44+0000 HOST kernel: TEXT``; the stamps of ``dmesg`` (``[12.3]``) and of ``dmesg --decode
--time-format iso`` are understood too, so that a saved log can be judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..examine import Unreadable
from ..host import Host, Output

NAME = "kernel_log"
ARGV = ("journalctl", "-k", "-b", "--no-pager", "-o", "short-iso")
TIMEOUT_SECONDS = 30.0

_ISO = re.compile(r"(?:\w+ *:\w+ *: )?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))\s+(.*)")
# A kernel's first words; microcode loading and, on arm64, the boot CPU may come before them.
_BANNER = re.compile(r"(?:^|\bkernel: )Linux version \d")
_BANNER_WITHIN = 20
_UPTIME = re.compile(r"\[\s*(\d+\.\d+)\]\s?(.*)")


@dataclass(frozen=True)
class Message:
    """One kernel message; ``stamp`` is "" for a continuation line."""

    stamp: str
    text: str

    @property
    def seconds(self) -> float | None:
        """Seconds on the log's own clock (epoch or uptime), None without a stamp."""
        if not self.stamp:
            return None
        if "T" not in self.stamp:
            return float(self.stamp)
        stamp = re.sub(r"[.,](\d{1,6})\d*", r".\1", self.stamp)
        try:
            return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S" + (".%f" if "." in stamp else "") + "%z").timestamp()
        except ValueError:
            return None


def collect(host: Host, expect: Mapping[str, Any]) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> tuple[Message, ...]:
    """Return the messages of this boot in order.

    Raises Unreadable for a log that does not begin with the kernel's banner: what was rotated away may have held an
    error, so that silence of the rest says nothing.
    """
    messages = messages_in(output)
    if not any(_BANNER.search(message.text) for message in messages[:_BANNER_WITHIN]):
        raise Unreadable(
            "the journal no longer holds the beginning of this boot: it begins with "
            f"{messages[0].text[:60]!r}, expected 'Linux version ...'"
        )
    return messages


def messages_in(output: Output) -> tuple[Message, ...]:
    """Return the messages of a log or a part of one, in order; raises Unreadable for one that says nothing."""
    if output.rc != 0:
        raise Unreadable(f"exit status {output.rc}: {output.stderr.strip()[:200]}")
    if output.stdout and not output.stdout.endswith("\n"):
        # What else is missing after the half line nobody knows.
        raise Unreadable(f"cut off in mid line: ends with {output.stdout[-60:]!r}")
    messages = tuple(_message(line) for line in output.stdout.splitlines() if line and not line.startswith("-- "))
    if not any(message.stamp for message in messages):
        raise Unreadable(f"no message with a time stamp in {len(messages)} lines, expected at least one")
    return messages


def _message(line: str) -> Message:
    for pattern in (_ISO, _UPTIME):
        match = pattern.match(line)
        if match:
            return Message(match.group(1), match.group(2))
    return Message("", line)
