"""Text of others, made safe to show: node names, reasons and log lines are not ours."""

from __future__ import annotations

import unicodedata

_LINE_BREAKS = {"\n", "\t"}
# Separators that break a line in some programs, and marks that reverse or hide text.
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def printable(text: str) -> str:
    """Return the text with whatever could steer a terminal, reverse a line or break a file written out as an escape.

    Line breaks and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"\\u{ord(char):04x}" if char not in _LINE_BREAKS and unicodedata.category(char) in _UNSAFE else char
        for char in text
    )


def one_line(text: str) -> str:
    """Return the text as ``printable`` does, on one line."""
    return " ".join(printable(text).split())
