"""CPUs and memory of each NUMA node, from sysfs; the text of ``numactl --hardware`` is understood as well.

Formats: Linux, Documentation/ABI/stable/sysfs-devices-node; numactl(8).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "numa"
CPUS = "/sys/devices/system/node/node*/cpulist"
MEMORY = "/sys/devices/system/node/node*/meminfo"

_PATH = re.compile(r".*/node(\d{1,9})/(cpulist|meminfo)", re.ASCII)
_TOTAL = re.compile(r"^Node \d+ MemTotal:\s+(\d{1,18}) kB$", re.MULTILINE | re.ASCII)
_AVAILABLE = re.compile(r"^available: (\d{1,9}) nodes? \(.*\)$", re.MULTILINE | re.ASCII)
_NODE_CPUS = re.compile(r"^node (\d{1,9}) cpus:((?: \d+)*) ?$", re.MULTILINE | re.ASCII)
_NODE_SIZE = re.compile(r"^node (\d{1,9}) size: (\d{1,18}) MB$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True)
class Node:
    """How many CPUs that are on, and how many MiB of memory lie at one node."""

    cpus: int
    mib: int


def collect(host: Host, expect: Expectations) -> Output:
    """Read two files for each node."""
    return blocks.read_files(host, CPUS, MEMORY)


def parse(output: Output) -> dict[int, Node]:
    """Return the nodes by number; raises Unreadable."""
    require_success(output)
    found = _numactl(output.stdout) if _AVAILABLE.search(output.stdout) else _sysfs(output.stdout)
    if not found:
        raise Unreadable(f"no file {CPUS}, expected one for each node")
    return found


def _sysfs(text: str) -> dict[int, Node]:
    cpus: dict[int, int] = {}
    mib: dict[int, int] = {}
    for path, file in blocks.split(text).items():
        match = _PATH.fullmatch(path)
        if not match:
            continue
        if file.rc != 0:
            raise Unreadable(file.error or f"{path}: exit status {file.rc}")
        number = int(match.group(1))
        if match.group(2) == "cpulist":
            # Empty for a node that has memory alone.
            count = cpus_in(file.stdout.strip())
            if count is None:
                raise Unreadable(f"{path}: found {file.stdout[:60]!r}, expected a list such as 0-47,96-143")
            cpus[number] = count
        elif total := _TOTAL.search(file.stdout):
            mib[number] = int(total.group(1)) // 1024
        else:
            raise Unreadable(f"{path}: no line 'Node {number} MemTotal: N kB'")
    if cpus.keys() != mib.keys():
        odd = ", ".join(f"node{number}" for number in sorted(cpus.keys() ^ mib.keys()))
        raise Unreadable(f"cpulist or meminfo is missing of {odd}")
    return {number: Node(cpus[number], mib[number]) for number in sorted(cpus)}


def cpus_in(cpulist: str) -> int | None:
    """Return how many CPUs ``0-47,96-143`` names, None for what is no such list; an empty one names none."""
    count = 0
    for part in cpulist.split(",") if cpulist else ():
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part, re.ASCII)
        if not match:
            return None
        count += int(match.group(2) or match.group(1)) - int(match.group(1)) + 1
    return count


def _numactl(text: str) -> dict[int, Node]:
    cpus = {int(number): len(listed.split()) for number, listed in _NODE_CPUS.findall(text)}
    mib = {int(number): int(size) for number, size in _NODE_SIZE.findall(text)}
    available = _AVAILABLE.search(text)
    assert available is not None
    if cpus.keys() != mib.keys() or len(cpus) != int(available.group(1)):
        found = f"CPUs of {len(cpus)} nodes and memory of {len(mib)}"
        raise Unreadable(f"{found}, expected both of the {available.group(1)} that are available")
    return {number: Node(cpus[number], mib[number]) for number in sorted(cpus)}
