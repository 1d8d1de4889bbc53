"""Over which network interfaces a host reaches the server of a mounted file system.

Formats: proc_pid_mountinfo(5), and ``/proc/net/route`` of Linux, whose addresses are words of the host's byte order.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from ..formats.mounts import Mount, mounts_of
from ..host.host import Output, Unreadable

# Of NFS among the options that the kernel shows; of Lustre in the source, one for each server (10.0.0.1@tcp:/scratch).
_OPTION = re.compile(r"addr=([0-9.]+)")
_SOURCE = re.compile(r"([0-9]+(?:\.[0-9]+){3})@")
_UP = 0x1


def roads_to(path: str, mountinfo: str, routes: str) -> list[str]:
    """Return the interfaces to the servers of what is mounted at or above ``path``; none of what needs no network.

    Servers with addresses of IPv6 are not found. Raises Unreadable.
    """
    above = [each for each in mounts_of(Output(mountinfo)) if _lies_in(path, each.path)]
    if not above:
        return []
    # The longest path is nearest, the last one hides those before it.
    mount = max(reversed(above), key=lambda each: len(each.path))
    table = list(_routes(routes))
    found = (_interface(address, table) for address in _servers(mount))
    return sorted({name for name in found if name})


def own_roads_to(path: str) -> list[str]:
    """Return the same of this host; what cannot be read leads nowhere."""
    try:
        files = [Path(name).read_text(encoding="utf-8") for name in ("/proc/self/mountinfo", "/proc/net/route")]
        return roads_to(path, *files)
    except (OSError, ValueError, Unreadable):
        return []


def _lies_in(path: str, place: str) -> bool:
    return place in ("/", path) or path.startswith(f"{place}/")


def _servers(mount: Mount) -> list[int]:
    options = (match.group(1) for match in map(_OPTION.fullmatch, mount.options) if match)
    return [int(ipaddress.IPv4Address(text)) for text in (*options, *_SOURCE.findall(mount.source))]


def _routes(text: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield interface, destination, mask and metric of the routes that are up."""
    for line in text.splitlines()[1:]:
        words = line.split()
        if int(words[3], 16) & _UP:
            destination, mask = (socket.ntohl(int(words[at], 16)) for at in (1, 7))
            yield words[0], destination, mask, int(words[6])


def _interface(address: int, table: list[tuple[str, int, int, int]]) -> str:
    ways = [each for each in table if address & each[2] == each[1]]
    # The narrowest network first, then the least metric.
    return max(ways, key=lambda each: (each[2], -each[3]))[0] if ways else ""
