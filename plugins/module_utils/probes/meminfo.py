"""``/proc/meminfo``: memory the kernel can use, and how much it may swap (proc(5))."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "meminfo"
PATH = "/proc/meminfo"


@dataclass(frozen=True)
class Memory:
    """Both in MiB; ``swap_mib`` is None where the file does not say."""

    mib: int
    swap_mib: int | None


def collect(host: Host, expect: Expectations) -> Output:
    """Read the file once."""
    return host.read(PATH)


def parse(output: Output) -> Memory:
    """Return MemTotal and SwapTotal; raises Unreadable."""
    lines = re.findall(r"^(MemTotal|SwapTotal):\s+(\d+) kB$", output.stdout, re.MULTILINE | re.ASCII)
    kib = dict(lines)
    if len(lines) != len(kib):
        raise Unreadable("MemTotal or SwapTotal twice")
    if "MemTotal" not in kib:
        raise Unreadable("no line 'MemTotal: N kB'")
    return Memory(int(kib["MemTotal"]) // 1024, -(-int(kib["SwapTotal"]) // 1024) if "SwapTotal" in kib else None)
