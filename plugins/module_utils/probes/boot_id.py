"""The kernel's boot id: another one means that the host was rebooted."""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "boot_id"
PATH = "/proc/sys/kernel/random/boot_id"


def collect(host: Host, expect: Expectations) -> Output:
    """Read the file once."""
    return host.read(PATH)


def parse(output: Output) -> str:
    """Return the UUID; raises Unreadable."""
    text = output.stdout.strip()
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text):
        raise Unreadable(f"{PATH} holds {text[:60]!r}, expected a UUID")
    return text
