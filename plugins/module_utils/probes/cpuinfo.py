"""``/proc/cpuinfo``: model, stepping and microcode of each CPU (Linux, arch/x86/kernel/cpu/proc.c)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "cpuinfo"
PATH = "/proc/cpuinfo"

_MICROCODE = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True)
class LogicalCpu:
    """One CPU as the kernel counts them; ``socket`` is its physical id, ``model`` its name and stepping."""

    number: int
    socket: str
    model: str | None
    microcode: str | None


def collect(host: Host, expect: Expectations) -> Output:
    """Read the file once."""
    return host.read(PATH)


def parse(output: Output) -> tuple[LogicalCpu, ...]:
    """Return the CPUs in order; raises Unreadable."""
    cpus = []
    for block in output.stdout.split("\n\n"):
        lines = (line.partition(":") for line in block.splitlines())
        fields = {name.strip(): value.strip() for name, _, value in lines}
        if not any(fields):
            continue
        number = fields.get("processor", "")
        if not re.fullmatch(r"[0-9]{1,9}", number):
            raise Unreadable(f"block {block[:60]!r} has no 'processor : N'")
        name, stepping = fields.get("model name"), fields.get("stepping")
        model = f"{name} stepping {stepping}" if name and stepping else None
        microcode = fields.get("microcode", "")
        known = microcode if _MICROCODE.fullmatch(microcode) else None
        cpus.append(LogicalCpu(int(number), fields.get("physical id", "?"), model, known))
    if not cpus:
        raise Unreadable("no block that begins with 'processor : N'")
    return tuple(cpus)
