"""``/proc/cmdline``: what the kernel was started with (Linux, Documentation/admin-guide/kernel-parameters.rst)."""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable
from ..host.kernel_parameters import words_of
from ..words.expectations import Expectations

NAME = "cmdline"
PATH = "/proc/cmdline"


def collect(host: Host, expect: Expectations) -> Output:
    """Read the file once."""
    return host.read(PATH)


def parse(output: Output) -> tuple[str, ...]:
    """Return the parameters in order, without quotes; raises Unreadable. The kernel ends the line with a newline."""
    text = output.stdout
    if text.count('"') % 2 or not re.fullmatch(r"[^\n\0]+\n", text):
        raise Unreadable(f"{PATH} holds {text[:60]!r}, expected one line of parameters")
    words = words_of(text)
    if not words:
        raise Unreadable(f"{PATH} is blank, expected the kernel's parameters")
    return words
