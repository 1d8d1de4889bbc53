"""``/etc/machine-id``: the id that an installation gives itself, and that copied images share (machine-id(5))."""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "machine_id"
PATH = "/etc/machine-id"


def collect(host: Host, expect: Expectations) -> Output:
    """Read the file once."""
    return host.read(PATH)


def parse(output: Output) -> str:
    """Return the id; raises Unreadable ("uninitialized" is what stands there until the first boot)."""
    text = output.stdout.strip()
    if not re.fullmatch(r"[0-9a-f]{32}", text):
        raise Unreadable(f"{PATH} holds {text[:60]!r}, expected 32 hexadecimal digits")
    return text
