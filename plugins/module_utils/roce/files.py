"""Sources and steps that both backends have: files of sysfs and procfs, and the interface's rings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Callable

from ..host.host import Unreadable
from .port import Command, Place, Source, Step, Write

# Answers on a rail only for the rail's own address, and from the interface that has it: several rails in one network
# would otherwise answer for one another (Documentation/networking/ip-sysctl.rst).
ARP = {"arp_ignore": 1, "arp_announce": 2}
# Loose, as a rail's route is in a table of its own.
RP_FILTER = {"rp_filter": 2}

_NET = "/sys/class/net/{interface}"
_SYSCTL = "/proc/sys/net/ipv4/conf/{interface}"


def only(texts: Mapping[str, str]) -> str:
    """Return the text of the one output; raises Unreadable when it is empty or cut off."""
    (text,) = texts.values()
    if not text.strip():
        raise Unreadable("no output")
    if not text.endswith("\n"):
        raise Unreadable("the last line has no end, expected a whole output")
    return text


def number(text: str) -> int:
    """Return the number that a text is; raises Unreadable."""
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise Unreadable(f"found {text.strip()[:40]!r}, expected a number")
    return int(text)


def of_file(name: str, path: str) -> Source:
    """Return the source of a setting that is one number in one file."""
    return Source((name,), (path,), lambda texts: {name: number(only(texts))})


def _rings(texts: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the current rings of ``ethtool -g``, whose second half tells them."""
    _, heading, current = only(texts).partition("Current hardware settings:")
    rows = re.findall(r"^(RX|TX):[ \t]+(\S+)$", current, re.MULTILINE)
    found = {key.lower(): number(value) for key, value in rows}
    if not heading or len(rows) != 2 or len(found) != 2:
        raise Unreadable("no current RX and TX, expected both under 'Current hardware settings'")
    return {"rings": found}


def _write(path: str) -> Callable[[Place, Any], list[Step]]:
    def steps(place: Place, value: Any) -> list[Step]:
        return [Write(path.format(device=place.device, interface=place.interface), str(value))]

    return steps


def _set_rings(place: Place, value: Mapping[str, int]) -> list[Step]:
    return [Command(("ethtool", "-G", place.interface, "rx", str(value["rx"]), "tx", str(value["tx"])))]


SOURCES: tuple[Source, ...] = (
    of_file("mtu_bytes", f"{_NET}/mtu"),
    *(of_file(name, f"{_SYSCTL}/{name}") for name in (*ARP, *RP_FILTER)),
    Source(("rings",), ("ethtool", "-g", "{interface}"), _rings),
)
STEPS: dict[str, Callable[[Place, Any], list[Step]]] = {
    "mtu_bytes": _write(f"{_NET}/mtu"),
    "rings": _set_rings,
    **{name: _write(f"{_SYSCTL}/{name}") for name in (*ARP, *RP_FILTER)},
}
ABILITIES: dict[str, str] = {
    "mtu_bytes": "/sys/class/net/INTERFACE/mtu",
    "rings": "ethtool -G, ethtool -g",
    **{name: f"/proc/sys/net/ipv4/conf/INTERFACE/{name}" for name in (*ARP, *RP_FILTER)},
}
