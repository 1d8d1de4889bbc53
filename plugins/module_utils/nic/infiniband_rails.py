"""InfiniBand rails of a host: named for the fabric, and read back from sysfs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..host.host import Host
from ..host.rail_names import NamedRail, named, no_device, no_interface, read_names
from ..words.errors import MusterError
from ..words.expectations import Rail

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
# 20 bytes: queue pair, then the group's GID ff12:401b:PKEY.
_BROADCAST = re.compile(r"(?:[0-9a-f]{2}:){8}([0-9a-f]{2}):([0-9a-f]{2})(?::[0-9a-f]{2}){10}")


class RailError(MusterError):
    """A rail that is not what it has to be; the text says rail, found and expected."""


@dataclass(frozen=True)
class Ipoib:
    """What a rail's interface has to be: mode, MTU in bytes, and the partitions that have an interface of their own."""

    mode: str
    mtu_bytes: int
    children: tuple[int, ...] = ()


def description_of(name: str, rail: str) -> str:
    """Return the node description of a host's adapter, as the cabling plan names it: ``gpu-0001 rail0``."""
    return f"{name} {rail}"


def child_name(rail: str, pkey: int) -> str:
    """Return the name of a partition's interface on a rail: ``rail0.8012``."""
    return f"{rail}.{pkey | FULL_MEMBER:04x}"


def interface_mtu(mode: str, link_mtu_bytes: int) -> int:
    """Return the MTU of an IPoIB interface: four bytes of a packet are IPoIB's (RFC 4391); RFC 4755 for connected."""
    return link_mtu_bytes - 4 if mode == "datagram" else 65520


def infiniband_rails(host: Host, rails: Sequence[Rail]) -> list[NamedRail]:
    """Return the rails with their names; raises RailError unless each one's device is there and speaks InfiniBand."""
    names = read_names(host)
    found = named(rails, names)
    said = [_link_layer(host, rail) if rail.device else no_device(rail, names) for rail in found]
    if wrong := [text for text in said if text]:
        raise RailError("; ".join(wrong))
    return found


def _link_layer(host: Host, rail: NamedRail) -> str:
    layer = _line(host, f"{_CLASS}/{rail.device}/ports/1/link_layer")
    if layer == "InfiniBand":
        return ""
    return (
        f"{rail}: link layer is {layer}, expected InfiniBand: the firmware's LINK_TYPE_P1 has to be IB(1), "
        "and takes effect with the next reboot of the host (one may be pending)"
    )


def wrong_descriptions(host: Host, rails: Sequence[NamedRail], name: str) -> dict[str, tuple[str, str]]:
    """Return what each wrongly named device is called and has to be, by the file to write. Raises RailError."""
    found = {}
    for rail in rails:
        wanted = description_of(name, rail.name)
        if len(wanted.encode()) > _DESCRIPTION_BYTES:
            raise RailError(f"{rail}: node description {wanted!r} is longer than {_DESCRIPTION_BYTES} bytes")
        path = f"{_CLASS}/{rail.device}/node_desc"
        answer = host.read(path)
        if answer.rc != 0:
            raise RailError(f"{rail}: {path} could not be read")
        # The kernel adds one newline; a further one was written into the description, and is a blank in the fabric.
        now = answer.stdout.removesuffix("\n")
        if now != wanted:
            found[path] = (now, wanted)
    return found


def lacking(host: Host, rails: Sequence[Rail], partitions: Sequence[int], ipoib: Ipoib | None) -> list[str]:
    """Return what the rails still lack, as sentences; nothing where every one is as it has to be."""
    names = read_names(host)
    found = []
    for rail in named(rails, names):
        found += _port(host, rail, partitions) if rail.device else [no_device(rail, names)]
        if ipoib is not None and rail.interface is None:
            found.append(f"{no_interface(rail, names)} (kernel module ib_ipoib)")
        elif ipoib is not None:
            found += _interfaces(host, rail, ipoib)
    return found


def _port(host: Host, rail: NamedRail, partitions: Sequence[int]) -> list[str]:
    base = f"{_CLASS}/{rail.device}/ports/1"
    state = _line(host, f"{base}/state")
    if state is None or state.rpartition(": ")[2] != "ACTIVE":
        hint = ": the link is up, no subnet manager made it active" if state and "INIT" in state else ""
        return [f"{rail}: port is {state}, expected ACTIVE{hint}"]
    table = {_line(host, path) for path in host.paths(f"{base}/pkeys/*")}
    wanted = [f"{key | FULL_MEMBER:#06x}" for key in partitions]
    return [f"{rail}: the port is no full member of partition {key}" for key in wanted if key not in table]


def _interfaces(host: Host, rail: NamedRail, ipoib: Ipoib) -> list[str]:
    wanted = {(str(rail.interface), "mode"): ipoib.mode, (str(rail.interface), "mtu"): str(ipoib.mtu_bytes)}
    for key in ipoib.children:
        name = child_name(rail.name, key)
        # Its mode is in no file where networkd made it (ipoib_vlan.c), and one of the other mode has another MTU.
        wanted |= {(name, "pkey"): f"{key | FULL_MEMBER:#06x}", (name, "mtu"): str(ipoib.mtu_bytes)}
    wanted |= {(name, parameter): str(value) for name, _ in list(wanted) for parameter, value in ARP.items()}
    found = []
    for (name, what), value in wanted.items():
        now = _shown(host, name, what)
        if now != value:
            found.append(f"{rail}: {what} of {name} is {now}, expected {value}{_HINTS.get((what, value), '')}")
    return found


def _shown(host: Host, interface: str, what: str) -> str | None:
    if what in ARP:
        return _line(host, f"/proc/sys/net/ipv4/conf/{interface}/{what}")
    if what != "pkey":
        return _line(host, f"{_NET}/{interface}/{what}")
    # The address of the partition's broadcast group has its key (RFC 4391, section 4), whoever made the interface.
    key = _BROADCAST.fullmatch(_line(host, f"{_NET}/{interface}/broadcast") or "")
    return f"0x{key[1]}{key[2]}" if key else None


_HINTS = {
    ("mode", "connected"): " (ConnectX-4 and later offer datagram only, unless ib_ipoib has ipoib_enhanced=0)",
    ("mtu", "4092"): " (needs the broadcast group of 4096 bytes that subnet_manager_mtu_bytes declares)",
}


def _line(host: Host, path: str) -> str | None:
    answer = host.read(path)
    text = answer.stdout.strip()
    return text if answer.rc == 0 and re.fullmatch(r"[^\n]+", text) else None
