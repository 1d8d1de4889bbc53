"""``/proc/stat``: when the kernel was started, by the host's clock (proc(5), ``btime``)."""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "boot_time"
PATH = "/proc/stat"


def collect(host: Host, expect: Expectations) -> Output:
    """Read the file once."""
    return host.read(PATH)


def parse(output: Output) -> int:
    """Return the time in seconds since the epoch; raises Unreadable."""
    match = re.search(r"^btime ([0-9]{1,12})\n", output.stdout, re.MULTILINE)
    if not match:
        raise Unreadable(f"no line 'btime N' in {PATH}")
    return int(match.group(1))
