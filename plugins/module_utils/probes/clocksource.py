"""The kernel's clock source: what every read of the time costs, and whether it can be trusted."""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "clocksource"
PATH = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def collect(host: Host, expect: Expectations) -> Output:
    """Read the file once."""
    return host.read(PATH)


def parse(output: Output) -> str:
    """Return the name, such as ``tsc`` or ``hpet``; raises Unreadable."""
    name = output.stdout.strip()
    # A name is never cut short unseen: the kernel ends it with a newline.
    if not re.fullmatch(r"[a-z][\w-]*\n", output.stdout, re.ASCII):
        raise Unreadable(f"{PATH} holds {name[:60]!r}, expected the name of a clock source")
    return name
