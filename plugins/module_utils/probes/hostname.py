"""``uname -n``: the name by which the host calls itself."""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "hostname"
ARGV = ("uname", "-n")
TIMEOUT_SECONDS = 5.0

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})\n", re.ASCII)


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> str:
    """Return the name, with its domain where the host was given one; raises Unreadable."""
    require_success(output)
    if not _NAME.fullmatch(output.stdout):
        raise Unreadable(f"printed {output.stdout[:60]!r}, expected the name of a host")
    return output.stdout.strip()
