"""Which burn-ins start now and when, so that no power budget is exceeded and no feed is loaded at once.

All nodes carry out the same plan: who starts together changes steps together and ends together. A staggered start
staggers all that follows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet, Node

SITE = "the site"


@dataclass(frozen=True)
class Turn:
    """When a node's burn-in starts in this run: ``after_seconds`` after the first, unless ``waits`` says why not.

    ``running`` says that one is under way on the node by its own word, which needs no start. ``starting`` is how many
    nodes of the feed start in this run.
    """

    feed: str
    after_seconds: float = 0.0
    running: bool = False
    waits: str = ""
    starting: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as the action ``burn_in_job`` takes it."""
        return asdict(self)


@dataclass(frozen=True)
class Drawing:
    """Who draws power for a burn-in when a run begins, and which feeds are too hot for more.

    ``running`` maps nodes that say so themselves to the start of their run (seconds since the epoch), ``shares`` are
    those of which the ledger knows one or expects one. ``alarms`` maps a feed to what was seen there.
    """

    running: Mapping[str, float] = field(default_factory=dict)
    shares: Collection[str] = ()
    alarms: Mapping[str, str] = field(default_factory=dict)


def planned(fleet: Fleet, due: Sequence[str], drawing: Drawing) -> dict[str, Turn]:
    """Return the turns of the due nodes in the order in which they come.

    Those on which a burn-in is under way come first, then those that start, last those that wait for another run. A
    node that holds a share of the budget already starts within it.
    """
    wanted = set(due)
    # Whatever the order in which they are named: neighbours in a rack come one after the other.
    due = [name for name in fleet.compute if name in wanted]
    alarms = drawing.alarms
    budget = _Budget(fleet, {*drawing.running, *drawing.shares})
    waits: dict[str, str] = {}
    for _, rack in _rack_by_rack(fleet, due):
        for name in rack:
            feed = fleet.compute[name].power_feed
            if feed in alarms:
                waits[name] = f"{feed}: {alarms[feed]}"
            elif name not in drawing.running and (why := budget.refused(name)):
                waits[name] = why
    running = [name for name in due if name in drawing.running]
    moments = _moments(fleet, [name for name in due if name not in waits and name not in drawing.running], running)
    starting = Counter(fleet.compute[name].power_feed for name in due if name not in (waits.keys() | drawing.running))
    order = [*running, *sorted((name for name in moments if name not in drawing.running), key=moments.__getitem__)]
    turns = {}
    for name in (*order, *(name for name in waits if name not in drawing.running)):
        feed = fleet.compute[name].power_feed
        turns[name] = Turn(feed, moments.get(name, 0.0), name in drawing.running, waits.get(name, ""), starting[feed])
    return turns


def waiting_lines(turns: Mapping[str, Turn]) -> list[str]:
    """Return one line for each feed on which nodes wait: how many, and why the first of them does."""
    found: dict[str, list[str]] = {}
    for turn in turns.values():
        if turn.waits:
            found.setdefault(turn.feed, []).append(turn.waits)
    return [waiting_line(feed, len(reasons), reasons[0]) for feed, reasons in found.items()]


def waiting_line(feed: str, nodes: int, why: str) -> str:
    """Return how many nodes of a feed wait for another run, and why."""
    return f"burn-in of {nodes} node{'s' * (nodes != 1)} of {feed} is not started in this run: {why}"


def _moments(fleet: Fleet, fresh: Sequence[str], running: Sequence[str]) -> dict[str, float]:
    """Return in seconds when each node starts: in its feed rack after rack, the nodes of a rack evenly within.

    A run under way needs no start. If it turns out to have been cut off, it begins anew after all others.
    """
    step = fleet.policy.burn_in.ramp_seconds
    racks: Counter[str] = Counter()
    moments: dict[str, float] = {}
    for names in (fresh, running):
        for feed, rack in _rack_by_rack(fleet, names):
            for index, name in enumerate(rack):
                moments[name] = step * (racks[feed] + index / len(rack))
            racks[feed] += 1
    return moments


def _rack_by_rack(fleet: Fleet, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield feed and nodes of each rack: the first rack of every feed, then the second, so that no feed comes last.

    A node in no rack is one of its own.
    """
    feeds: dict[str, dict[str, list[str]]] = {}
    for name in names:
        node = fleet.compute[name]
        rack = f"rack {node.rack}" if node.rack else f"node {name}"
        feeds.setdefault(node.power_feed, {}).setdefault(rack, []).append(name)
    most = max((len(racks) for racks in feeds.values()), default=0)
    ordered = {feed: list(racks.values()) for feed, racks in feeds.items()}
    for number in range(most):
        for feed, racks in ordered.items():
            if number < len(racks):
                yield feed, racks[number]


class _Budget:
    """What nodes under burn-in draw, by rack, feed and site; nothing is counted where nothing is declared."""

    def __init__(self, fleet: Fleet, drawing: Collection[str]) -> None:
        self._fleet = fleet
        self._limits = fleet.policy.burn_in.kilowatts.to_dict() if fleet.policy.burn_in.kilowatts.declared else {}
        self._nodes: Counter[str] = Counter()
        self._kilowatts: dict[str, float] = defaultdict(float)
        self._drawing = {name for name in drawing if name in fleet.compute}
        if self._limits:
            for name in self._drawing:
                self._count(fleet.compute[name])

    def refused(self, name: str) -> str:
        """Take a node's share and return ""; return why there is none left for it."""
        if not self._limits or name in self._drawing:
            return ""
        node = self._fleet.compute[name]
        draws = self._draws(node)
        for limit, place in self._places(node):
            used = self._kilowatts[place]
            if limit is not None and used + draws > limit:
                in_use = f"{used:g} of {limit:g} kW are in use by {self._nodes[place]} nodes"
                return f"{place}: {in_use}, and {name} draws {draws:g} kW"
        self._drawing.add(name)
        self._count(node)
        return ""

    def _count(self, node: Node) -> None:
        for _, place in self._places(node):
            self._nodes[place] += 1
            # Tenths of a kilowatt add up exactly to no budget; rounded they do.
            self._kilowatts[place] = round(self._kilowatts[place] + self._draws(node), 6)

    def _draws(self, node: Node) -> float:
        power = self._fleet.classes[str(node.hardware_class)].power
        # Fleets that declare a budget have it for every class.
        return power.kilowatts if power else 0.0

    def _places(self, node: Node) -> list[tuple[float | None, str]]:
        limits = self._limits
        rack = [(limits["rack"], f"rack {node.rack}")] if node.rack else []
        return [*rack, (limits["feed"], node.power_feed), (limits["site"], SITE)]
