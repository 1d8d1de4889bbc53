"""``/proc/cpuinfo``: model, stepping and microcode of each CPU.

Formats: Linux, arch/x86/kernel/cpu/proc.c and arch/arm64/kernel/cpuinfo.c. The latter has neither name nor socket: the
model is Arm's numbers of it, and the sockets are read from sysfs (``physical_package_id``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "cpuinfo"
PATH = "/proc/cpuinfo"
SOCKETS = "/sys/devices/system/cpu/cpu*/topology/physical_package_id"

_SOCKET = re.compile(r".*/cpu(\d{1,9})/topology/physical_package_id", re.ASCII)
_ARM = ("CPU implementer", "CPU part", "CPU variant", "CPU revision")
_MICROCODE = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True)
class LogicalCpu:
    """One CPU as the kernel counts them; ``socket`` is its physical id, ``model`` its name and stepping.

    Of arm64 ``model`` is ``Arm 0x41 0xd4f r0p0``: implementer, part, variant and revision.
    """

    number: int
    socket: str
    model: str | None
    microcode: str | None


def collect(host: Host, expect: Expectations) -> Output:
    """Read the file once, and the sockets where it does not tell them."""
    output = host.read(PATH)
    if output.rc != 0 or "physical id" in output.stdout or _ARM[0] not in output.stdout:
        return output
    return blocks.listed({PATH: output, **{path: host.read(path) for path in host.paths(SOCKETS)}})


def parse(output: Output) -> tuple[LogicalCpu, ...]:
    """Return the CPUs in order; raises Unreadable."""
    cpus = []
    text, sockets = _parts(output)
    for block in text.split("\n\n"):
        lines = (line.partition(":") for line in block.splitlines())
        fields = {name.strip(): value.strip() for name, _, value in lines}
        if not any(fields):
            continue
        number = fields.get("processor", "")
        if not re.fullmatch(r"[0-9]{1,9}", number):
            raise Unreadable(f"block {block[:60]!r} has no 'processor : N'")
        name, stepping = fields.get("model name"), fields.get("stepping")
        model = f"{name} stepping {stepping}" if name and stepping else _arm(fields)
        microcode = fields.get("microcode", "")
        known = microcode if _MICROCODE.fullmatch(microcode) else None
        cpus.append(LogicalCpu(int(number), fields.get("physical id") or sockets.get(int(number), "?"), model, known))
    if not cpus:
        raise Unreadable("no block that begins with 'processor : N'")
    return tuple(cpus)


def _parts(output: Output) -> tuple[str, dict[int, str]]:
    """Return the text of the file, and the sockets by CPU where they were read as well; raises Unreadable."""
    if not blocks.is_listed(output.stdout):
        return output.stdout, {}
    files = blocks.split(output.stdout)
    own = files.pop(PATH, Output(rc=None))
    sockets = {}
    for path, file in files.items():
        match = _SOCKET.fullmatch(path)
        socket = file.stdout.strip()
        if match and (file.rc != 0 or not re.fullmatch(r"[0-9]{1,9}", socket)):
            raise Unreadable(f"{path}: found {file.error or repr(socket[:40])}, expected the number of a socket")
        if match:
            sockets[int(match.group(1))] = socket
    if own.rc != 0 or not sockets:
        raise Unreadable(own.error or f"{SOCKETS if own.rc == 0 else PATH}: nothing could be read")
    return own.stdout, sockets


def _arm(fields: Mapping[str, str]) -> str | None:
    implementer, part, variant, revision = (fields.get(name, "") for name in _ARM)
    if not all(re.fullmatch(r"0x[0-9a-f]+", each) for each in (implementer, part, variant)):
        return None
    # As Arm numbers its products: r0p1 is variant 0, revision 1.
    release = f"r{int(variant, 16)}p{revision}" if re.fullmatch(r"[0-9]+", revision) else None
    return f"Arm {implementer} {part} {release}" if release else None
