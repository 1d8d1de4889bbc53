"""How often the links of a host lost and found their carrier, read before and after traffic from files open to all.

A link that comes back within a second costs a few retransmissions: no median and hardly a worst iteration tells of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Optional

from ..words.reader import Count

# Stands for every network interface that has hardware behind it and a carrier, where none is declared.
ANY = "*"
# What a host tells by what was wanted: of each link that changed, or could not be read, the count at first and at last.
Told = Mapping[str, Mapping[str, tuple[Optional[Count], Optional[Count]]]]


class LinkWatch:
    """A host's links from now on. ``wanted`` are network interfaces, RDMA devices, or ANY; ``root`` stands before /sys.

    With an interface come those below it, such as the members of a bond. An RDMA device has its network interfaces, or
    on InfiniBand, where it may have none, the port itself.
    """

    def __init__(self, wanted: Iterable[str], root: str = "/") -> None:
        self._root = Path(root)
        # What has no link stands for one that cannot be read.
        links = {name: self._links(name) or [name] for name in wanted}
        self._before = {name: {link: self._count(link) for link in found} for name, found in links.items()}

    def told(self) -> dict[str, dict[str, list[Any]]]:
        """Return by what was wanted which of its links changed since, or cannot be read (null)."""
        found: dict[str, dict[str, list[Any]]] = {}
        for name, counts in self._before.items():
            both = {link: [count, self._count(link)] for link, count in counts.items()}
            found[name] = {link: each for link, each in both.items() if None in each or each[0] != each[1]}
        return found

    def _links(self, name: str) -> list[str]:
        net, device = self._root / "sys/class/net", self._root / "sys/class/infiniband" / name
        if name == ANY:
            return sorted(each.name for each in _entries(net) if (each / "device").exists() and _read(each / "carrier"))
        if (net / name).exists():
            below = [each.name[len("lower_") :] for each in _entries(net / name) if each.name.startswith("lower_")]
            return [name, *(link for each in sorted(below) for link in self._links(each))]
        interfaces = sorted(each.name for each in _entries(device / "device/net"))
        return interfaces or ([name] if device.exists() else [])

    def _count(self, link: str) -> int | None:
        """Return how often the link changed: a carrier its state, a port of InfiniBand to down."""
        count = _read(self._root / "sys/class/net" / link / "carrier_changes")
        if count is None:
            return _read(self._root / "sys/class/infiniband" / link / "ports/1/counters/link_downed")
        return count


def _entries(place: Path) -> list[Path]:
    try:
        return list(place.iterdir())
    except OSError:
        return []


def _read(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if text.isdigit() else None
