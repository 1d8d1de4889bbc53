"""``/sys/class/net``: state, MTU and speed of every network interface.

Format: Linux' Documentation/ABI/testing/sysfs-class-net: ``operstate`` is one of the words of RFC 2863, ``speed`` in
Mb/s, unreadable (or -1) while there is no link. ``ip -j addr`` (iproute2) is understood as well, so that saved outputs
can be judged; it says nothing of the speed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "net_devices"

_FIELDS = ("operstate", "mtu", "speed", "carrier_changes")
_STATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
_PATH = re.compile(r"(?:.*/net/)?([^/\s]+)/(operstate|mtu|speed|carrier_changes)")


@dataclass(frozen=True)
class Interface:
    """One interface; a field that was not given, or not in a known form, is None. ``operstate`` is lower case."""

    name: str
    operstate: str | None = None
    mtu: int | None = None
    speed_mbps: int | None = None
    carrier_changes: int | None = None


def collect(host: Host, expect: Expectations) -> Output:
    """Read the files of every interface once."""
    return blocks.read_files(host, *(f"/sys/class/net/*/{name}" for name in _FIELDS))


def parse(output: Output) -> dict[str, Interface]:
    """Return the interfaces by name; raises Unreadable when there are none, or the text was cut off."""
    text = output.stdout
    require_success(output)
    if text.lstrip().startswith("["):
        return _of_ip(text)
    if text and not text.endswith("\n"):
        raise Unreadable("the last line has no end, expected a whole output")
    values: dict[str, dict[str, str]] = {}
    for path, block in blocks.split(text).items():
        match = _PATH.fullmatch(path)
        if match:
            interface = values.setdefault(match.group(1), {})
            if block.rc == 0:
                interface[match.group(2)] = block.stdout.strip()
    if not values:
        raise Unreadable(f"begins with {text[:60]!r}, expected files of /sys/class/net")
    return {
        name: Interface(
            name=name,
            operstate=_word(own.get("operstate")),
            mtu=_count(own.get("mtu")),
            speed_mbps=_count(own.get("speed")) or None,
            carrier_changes=_count(own.get("carrier_changes")),
        )
        for name, own in values.items()
    }


def _of_ip(text: str) -> dict[str, Interface]:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"not JSON: {exc}") from exc
    found: dict[str, Interface] = {}
    for item in items:
        name = item.get("ifname") if isinstance(item, dict) else None
        if not isinstance(name, str) or name in found:
            raise Unreadable(f"an interface is called {name!r}, expected each by a name of its own")
        mtu = item.get("mtu")
        found[name] = Interface(
            name=name,
            operstate=_word(str(item.get("operstate", ""))),
            mtu=mtu if isinstance(mtu, int) and not isinstance(mtu, bool) else None,
        )
    if not found:
        raise Unreadable("no interface, expected at least the loopback")
    return found


def _word(text: str | None) -> str | None:
    word = (text or "").lower()
    return word if word in _STATES else None


def _count(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,12}", text) else None
