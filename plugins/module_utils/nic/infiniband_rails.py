"""InfiniBand rails of a host: named for the fabric, and read back from sysfs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..host.host import Host
from ..words.errors import MusterError

# Bit of full membership in a P_Key (InfiniBand specification, volume 1, section 10.9.1).
FULL_MEMBER = 0x8000
# NodeDescription of the InfiniBand specification: 64 bytes with an end.
_DESCRIPTION_BYTES = 63
# ARPHRD_INFINIBAND, the type of an IPoIB interface (linux/if_arp.h).
IPOIB_TYPE = "32"
# All rails of a fabric are one broadcast domain: each answers for its own address only, and by the loose
# reverse path filter takes what comes back by a rail's own table (Documentation/networking/ip-sysctl.rst).
ARP = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}
_CLASS = "/sys/class/infiniband"
_NET = "/sys/class/net"


class RailError(MusterError):
    """A rail is not what it has to be; the text says rail, found and expected."""


@dataclass(frozen=True)
class Rail:
    """A rail of the host; ``interface`` is None where the class leaves its name open."""

    rail: int
    device: str
    interface: str | None = None

    def __str__(self) -> str:
        return f"rail {self.rail} ({self.device})"


@dataclass(frozen=True)
class Ipoib:
    """What a rail's interface has to be: mode, MTU in bytes, and the partitions that have an interface of their own."""

    mode: str
    mtu_bytes: int
    children: tuple[int, ...] = ()


def description_of(name: str, device: str) -> str:
    """Return the node description of a host's adapter, as the cabling plan names it: ``gpu-0001 mlx5_0``."""
    return f"{name} {device}"


def child_name(interface: str, pkey: int) -> str:
    """Return the name of a partition's interface, as the kernel and NetworkManager form it: ``ib0.8012``."""
    return f"{interface}.{pkey | FULL_MEMBER:04x}"


def interface_mtu(mode: str, link_mtu_bytes: int) -> int:
    """Return the MTU of an IPoIB interface: four bytes of a packet are IPoIB's (RFC 4391); RFC 4755 for connected."""
    return link_mtu_bytes - 4 if mode == "datagram" else 65520


def check_link_layers(host: Host, rails: Sequence[Rail]) -> None:
    """Raise RailError unless every rail's device is there and speaks InfiniBand."""
    wrong = []
    for rail in rails:
        layer = _line(host, f"{_CLASS}/{rail.device}/ports/1/link_layer")
        if layer is None:
            there = ", ".join(path.rsplit("/", 1)[1] for path in host.paths(f"{_CLASS}/*")) or "none"
            wrong.append(f"{rail}: no such device, RDMA devices of this host: {there}")
        elif layer != "InfiniBand":
            wrong.append(
                f"{rail}: link layer is {layer}, expected InfiniBand: the firmware's LINK_TYPE_P1 has to be IB(1), "
                "and takes effect with the next reboot of the host (one may be pending)"
            )
    if wrong:
        raise RailError("; ".join(wrong))


def wrong_descriptions(host: Host, rails: Sequence[Rail], name: str) -> dict[str, tuple[str, str]]:
    """Return what each wrongly named device is called and has to be, by the file to write. Raises RailError."""
    found = {}
    for rail in rails:
        wanted = description_of(name, rail.device)
        if len(wanted.encode()) > _DESCRIPTION_BYTES:
            raise RailError(f"{rail}: node description {wanted!r} is longer than {_DESCRIPTION_BYTES} bytes")
        path = f"{_CLASS}/{rail.device}/node_desc"
        now = _line(host, path)
        if now is None:
            raise RailError(f"{rail}: {path} could not be read")
        if now != wanted:
            found[path] = (now, wanted)
    return found


def lacking(host: Host, rails: Sequence[Rail], partitions: Sequence[int], ipoib: Ipoib | None) -> list[str]:
    """Return what the rails still lack, as sentences; nothing where every one is as it has to be."""
    return [text for rail in rails for text in (*_port(host, rail, partitions), *_interfaces(host, rail, ipoib))]


def _port(host: Host, rail: Rail, partitions: Sequence[int]) -> list[str]:
    base = f"{_CLASS}/{rail.device}/ports/1"
    state = _line(host, f"{base}/state")
    if state is None or state.rpartition(": ")[2] != "ACTIVE":
        hint = ": the link is up, no subnet manager made it active" if state and "INIT" in state else ""
        return [f"{rail}: port is {state}, expected ACTIVE{hint}"]
    table = {_line(host, path) for path in host.paths(f"{base}/pkeys/*")}
    wanted = [f"{key | FULL_MEMBER:#06x}" for key in partitions]
    return [f"{rail}: the port is no full member of partition {key}" for key in wanted if key not in table]


def _interfaces(host: Host, rail: Rail, ipoib: Ipoib | None) -> list[str]:
    if ipoib is None:
        return []
    own = [rail.interface] if rail.interface else _own_interfaces(host, rail.device)
    if len(own) != 1:
        return [f"{rail}: its IPoIB interfaces are {', '.join(own) or 'none'}, expected one (kernel module ib_ipoib)"]
    # Where the class leaves the interface's name open, a partition's is named after the device.
    names = {own[0]: None, **{child_name(rail.interface or rail.device, key): key for key in ipoib.children}}
    found = []
    for name, key in names.items():
        wanted: Mapping[str, str] = {"mode": ipoib.mode, "mtu": str(ipoib.mtu_bytes)}
        wanted = wanted if key is None else {**wanted, "pkey": f"{key | FULL_MEMBER:#06x}"}
        for file, value in wanted.items():
            now = _line(host, f"{_NET}/{name}/{file}")
            if now != value:
                found.append(f"{rail}: {file} of {name} is {now}, expected {value}{_HINTS.get((file, value), '')}")
        for parameter, number in ARP.items():
            now = _line(host, f"/proc/sys/net/ipv4/conf/{name}/{parameter}")
            if now != str(number):
                found.append(f"{rail}: {parameter} of {name} is {now}, expected {number}")
    return found


_HINTS = {
    ("mode", "connected"): " (ConnectX-4 and later offer datagram only, unless ib_ipoib has ipoib_enhanced=0)",
    ("mtu", "4092"): " (needs the broadcast group of 4096 bytes that subnet_manager_mtu_bytes declares)",
}


def _own_interfaces(host: Host, device: str) -> list[str]:
    """Return the IPoIB interfaces of a device without those of further partitions, which alone have a parent."""
    names = [path.rsplit("/", 1)[1] for path in host.paths(f"{_CLASS}/{device}/device/net/*")]
    return [
        name
        for name in names
        if _line(host, f"{_NET}/{name}/type") == IPOIB_TYPE and not host.paths(f"{_NET}/{name}/parent")
    ]


def _line(host: Host, path: str) -> str | None:
    answer = host.read(path)
    text = answer.stdout.strip()
    return text if answer.rc == 0 and re.fullmatch(r"[^\n]+", text) else None
