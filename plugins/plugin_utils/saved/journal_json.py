"""``journalctl -o json``, one object a line, as the lines that ``-o short-unix`` prints of the same messages.

Format: systemd's "Journal JSON Format" (systemd.io/JOURNAL_EXPORT_FORMATS): values are texts, or lists of bytes where
they are no text.
"""

from __future__ import annotations

import json
import re
from typing import Any

# What a message is known by, wherever the line came from.
MESSAGE = re.compile(r'\s*\{.*"MESSAGE"\s*:')


def short_lines(text: str) -> str:
    """Return the messages as lines; what is no such object stays as it is."""
    return "".join(_short(line) for line in text.splitlines(keepends=True))


def _short(line: str) -> str:
    try:
        entry = json.loads(line)
        seconds = int(entry["__REALTIME_TIMESTAMP"]) / 1e6
        said = _text(entry["MESSAGE"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return line
    level = entry.get("PRIORITY")
    priority = f"<{level}>" if isinstance(level, str) and re.fullmatch("[0-7]", level) else ""
    host, source = _text(entry.get("_HOSTNAME") or "host"), _text(entry.get("SYSLOG_IDENTIFIER") or "journal")
    return f"{priority}{seconds:.6f} {host} {source}: {said}\n"


def _text(value: Any) -> str:
    if isinstance(value, list):
        value = bytes(value).decode(errors="replace")
    if not isinstance(value, str):
        raise TypeError(f"found a {type(value).__name__}, expected a text")
    return " ".join(value.splitlines())
