"""``/proc/meminfo``: memory the kernel can use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..examine import Unreadable
from ..host import Host, Output

NAME = "meminfo"
PATH = "/proc/meminfo"


def collect(host: Host, expect: Mapping[str, Any]) -> Output:
    """Read the file once."""
    return host.read(PATH)


def parse(output: Output) -> int:
    """Return MemTotal in MiB; raises Unreadable."""
    match = re.search(r"^MemTotal:\s+(\d+) kB$", output.stdout, re.MULTILINE | re.ASCII)
    if not match:
        raise Unreadable("no line 'MemTotal: N kB'")
    return int(match.group(1)) // 1024
