"""How often the links of a host lost and found their carrier, read before and after traffic from files open to all.

A link that comes back within a second costs a few retransmissions: no median and hardly a worst iteration tells of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from ..host.host import LocalHost
from ..host.rail_names import read_names
from ..words.reader import Count, ReadError, read_as
from .link_words import link_name

# Stands for every network interface that has hardware behind it and a carrier, where none is declared.
ANY = "*"
# What a host tells by what was wanted: of each link that changed, or could not be read, the count at first and at last.
Told = Mapping[str, Mapping[str, tuple[Optional[Count], Optional[Count]]]]


# The counters of an InfiniBand port come from its firmware, which may not answer any more.
READ_SECONDS = 5.0
Counts = dict[str, dict[str, Optional[int]]]


class LinkWatch:
    """The links of a host, of which it tells what they did since ``start``; ``root`` stands before /sys.

    ``wanted`` are words for rails (``link_words``), network interfaces, or ANY. With an interface come those below it,
    such as the members of a bond. A rail has its network interface and, on InfiniBand, its port.
    """

    def __init__(self, wanted: Iterable[str], root: str = "/") -> None:
        self._root = Path(root)
        self._words = {link_name(word): word for word in wanted}
        # What has no link stands for one that cannot be read.
        self._before: Counts = {name: {name: None} for name in self._words}

    def start(self) -> LinkWatch:
        """Read the counts from which changes are told, and return this watch."""
        self._before = _in_time(self._first, self._before)
        return self

    def told(self) -> dict[str, dict[str, list[Any]]]:
        """Return by what was wanted which of its links changed since, or cannot be read (null)."""
        found: dict[str, dict[str, list[Any]]] = {}
        now = _in_time(lambda: self._counts(self._before), {})
        for name, counts in self._before.items():
            both = {link: [count, now.get(name, {}).get(link)] for link, count in counts.items()}
            found[name] = {link: each for link, each in both.items() if None in each or each[0] != each[1]}
        return found

    def _first(self) -> Counts:
        return self._counts({name: self._links(word) or [name] for name, word in self._words.items()})

    def _counts(self, links: Mapping[str, Iterable[str]]) -> Counts:
        return {name: {link: self._count(link) for link in found} for name, found in links.items()}

    def _links(self, word: str) -> list[str]:
        net = self._root / "sys/class/net"
        name, _, address = word.partition("=")
        if address:
            return self._links_of_rail(address)
        if name == ANY:
            return sorted(each.name for each in _entries(net) if (each / "device").exists() and _read(each / "carrier"))
        if not (net / name).exists():
            return []
        below = [each.name[len("lower_") :] for each in _entries(net / name) if each.name.startswith("lower_")]
        return [name, *(link for each in sorted(below) for link in self._links(each))]

    def _links_of_rail(self, address: str) -> list[str]:
        names = read_names(LocalHost(root=str(self._root)))
        interfaces, devices = names.interfaces.get(address, ()), names.devices.get(address, ())
        # An IPoIB interface that nobody has set up never changes its carrier.
        ports = [name for name in devices if _text(self._port(name) / "link_layer") == "InfiniBand"]
        return [*interfaces, *ports] or list(devices)

    def _count(self, link: str) -> int | None:
        """Return how often the link changed: a carrier its state, a port of InfiniBand to down."""
        count = _read(self._root / "sys/class/net" / link / "carrier_changes")
        return _read(self._port(link) / "counters/link_downed") if count is None else count

    def _port(self, device: str) -> Path:
        return self._root / "sys/class/infiniband" / device / "ports/1"


class LinksTold:
    """What the nodes of a job tell of their links, of which each was to watch those that are ``watched``.

    ``by_node`` has what each told, nothing of one that said nothing; one whose links all stayed is left out.
    """

    def __init__(self, group: Sequence[str], watched: Iterable[str]) -> None:
        self.by_node: dict[str, list[Any]] = {node: [] for node in group}
        self._watched = set(map(link_name, watched))

    def take(self, node: str, told: Any) -> str:
        """Keep what one node told; return what is wrong with it, empty if nothing is."""
        try:
            links = read_as(Told, told, "links")
        except ReadError as exc:
            return str(exc)
        if not_told := sorted(self._watched - set(links)):
            return f"nothing told of the links of {', '.join(not_told)}"
        if any(links.values()):
            self.by_node[node].append(told)
        else:
            del self.by_node[node]
        return ""


def _in_time(read: Callable[[], Counts], otherwise: Counts) -> Counts:
    """Return what ``read`` gives, or what there is instead where it takes too long; it is left to itself then."""
    done: list[Counts] = []
    thread = threading.Thread(target=lambda: done.append(read()), daemon=True)
    thread.start()
    thread.join(READ_SECONDS)
    return done[0] if done else otherwise


def _entries(place: Path) -> list[Path]:
    try:
        return list(place.iterdir())
    except OSError:
        return []


def _read(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
