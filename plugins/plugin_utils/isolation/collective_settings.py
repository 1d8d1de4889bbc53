"""What a hardware class asks of its collectives, and the words in which a measurement is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import MINI_CLUSTER_CHECK
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile

ALL_REDUCE, SENDRECV = "all_reduce", "sendrecv"
COLLECTIVES = (ALL_REDUCE, "all_gather", "reduce_scatter", "all_to_all")
UNIT = "GB/s"
# Up to this size a message is judged by its time (latency), above by its bandwidth.
SMALL_BYTES = 2**20

T = TypeVar("T")


class SettingsError(MusterError, ValueError):
    """Collective settings that cannot be judged by; the text names the key, what was found and what was expected."""


@dataclass(frozen=True)
class Floor:
    """Least bus bandwidth, in GB/s, of groups of ``nodes_min`` or more nodes at one message size.

    For ``sendrecv`` it is what one rail gives to each of two nodes; with ``nodes_min`` 1 it holds inside a node.
    """

    collective: str
    nodes_min: int
    size_bytes: int
    busbw_gb_per_s: float


@dataclass(frozen=True)
class Ceiling:
    """Longest time, in microseconds, that 99 % of a group's operations may take at one message size."""

    collective: str
    nodes_min: int
    size_bytes: int
    microseconds: float


@dataclass(frozen=True)
class Move:
    """How one kind of operation is measured; ``seconds`` is what planning counts for one of them."""

    sizes_bytes: tuple[int, ...]
    iterations: int
    warmup: int
    seconds: float = 0
    collectives: tuple[str, ...] = (SENDRECV,)


@dataclass(frozen=True)
class Peers:
    """How nodes are judged by one another: from ``peers`` hosts on, one that is more than ``margin`` slower fails.

    ``smallest`` is the smallest slowdown that must be found; the first step looks for half of it.
    """

    peers: int = 8
    margin: float = 0.05
    smallest: float = 0.10


@dataclass(frozen=True)
class Hold:
    """From ``nodes`` on, and beyond this ``share`` of those measured, bad nodes are held: suspect what they share."""

    nodes: int = 2
    share: float = 0.2


@dataclass(frozen=True)
class Straggler:
    """How much longer the slowest of 100 operations may take than the median, and how often one node may be last."""

    p99_over_p50: float
    last_share: float


@dataclass(frozen=True)
class Settings:
    """What a hardware class asks of its collectives, and how a campaign may go about it.

    ``places`` tells the ``rack`` and ``pod`` of each node. ``baseline`` is what was adopted of a healthy fleet: GB/s by
    collective, nodes and size (see baseline.py); it stands in for peers where there are too few of them.
    ``mini_clusters`` is what groups as large as those that serve one model have to keep, None: nothing.
    """

    ranks_per_node: int
    pairs: Move
    groups: Move
    floors: tuple[Floor, ...]
    latency: tuple[Ceiling, ...] = ()
    step_seconds: float = 180
    cohort: Peers = Peers()
    hold: Hold = Hold()
    straggler: Straggler | None = None
    train: Mapping[str, Any] | None = None
    budget_minutes: float | None = None
    places: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    baseline: Mapping[tuple[str, int, int], float] = field(default_factory=dict)
    mini_clusters: LatencyProfile | None = None

    @classmethod
    def from_expect(
        cls,
        collective: Any,
        places: Mapping[str, Mapping[str, str | None]] | None = None,
        baseline: Mapping[tuple[str, int, int], float] | None = None,
        mini_clusters: LatencyProfile | None = None,
    ) -> Settings:
        """Return the settings in a class' ``collective`` expectations; raises SettingsError."""
        if not isinstance(collective, Mapping):
            raise SettingsError(f"collective is {type(collective).__name__}, expected a mapping")
        found = _Section("collective", collective)
        pairs, groups = found.section("pairs"), found.section("groups")
        cohort, hold = found.section("cohort"), found.section("hold")
        straggler, train, budget = (found.optional(key) for key in ("straggler", "train", "budget_minutes"))
        if train is not None and not isinstance(train, Mapping):
            raise SettingsError(f"collective.train is {train!r}, expected a mapping or null")
        return cls(
            found.whole("ranks_per_node"),
            Move(pairs.sizes(), pairs.whole("iterations"), pairs.whole("warmup", 0), pairs.number("seconds")),
            Move(
                groups.sizes(),
                groups.whole("iterations"),
                groups.whole("warmup", 0),
                0,
                groups.each("collectives", _collective),
            ),
            found.each("floors", _floor),
            found.each("latency", _ceiling),
            found.number("step_seconds"),
            Peers(cohort.whole("peers", 2), cohort.share("margin"), cohort.share("smallest")),
            Hold(hold.whole("nodes"), hold.share("share")),
            None if straggler is None else _straggler(found.section("straggler")),
            train,
            None if budget is None else found.number("budget_minutes"),
            places or {},
            baseline or {},
            mini_clusters,
        )

    def floor(self, collective: str, nodes: int, size_bytes: int) -> float | None:
        """Return the floor in GB/s for a group of so many nodes: of those that hold, that of the largest groups."""
        return _least(self.floors, collective, nodes, size_bytes, lambda each: each.busbw_gb_per_s)

    def ceiling(self, collective: str, nodes: int, size_bytes: int) -> float | None:
        """Return the longest time in microseconds for a group of so many nodes, None where the class limits none."""
        return _least(self.latency, collective, nodes, size_bytes, lambda each: each.microseconds)

    def healthy(self, nodes: int, size_bytes: int, collective: str = SENDRECV) -> float | None:
        """Return the bandwidth of which the margin is taken where there are too few peers to tell it, else None.

        It follows from the class' floor, which is that bandwidth less the margin, and from the adopted baseline.
        """
        floor = self.floor(collective, nodes, size_bytes)
        known = [] if floor is None else [floor / (1 - self.cohort.margin)]
        adopted = self.baseline.get((collective, nodes, size_bytes))
        return max([*known, *([] if adopted is None else [adopted])], default=None)

    def fault(self) -> str:
        """Return why nothing can be judged by these settings, empty if everything can."""
        for floor in self.floors:
            measured = self.pairs if floor.collective == SENDRECV else self.groups
            if floor.collective not in measured.collectives:
                return f"the hardware class has a floor for {floor.collective}, which is not measured"
            if floor.size_bytes not in measured.sizes_bytes:
                return (
                    f"the hardware class has a floor for {floor.collective} at {size_text(floor.size_bytes)}, "
                    f"which is not in {'pairs' if measured is self.pairs else 'groups'}.sizes_bytes"
                )
        for ceiling in self.latency:
            measured = self.pairs if ceiling.collective == SENDRECV else self.groups
            if ceiling.collective not in measured.collectives or ceiling.size_bytes not in measured.sizes_bytes:
                what = f"{ceiling.collective} at {size_text(ceiling.size_bytes)}"
                return f"the hardware class limits the latency of {what}, which is not measured"
        if all(self.floor(SENDRECV, 2, size) is None for size in self.pairs.sizes_bytes):
            return "the hardware class has no sendrecv floor for two nodes (collective.floors)"
        if self.cohort.smallest < self.cohort.margin:
            return f"cohort.smallest is {self.cohort.smallest:g}, expected at least its margin {self.cohort.margin:g}"
        return ""

    def checks(self) -> tuple[str, ...]:
        """Return the checks on which every node under test gets a finding."""
        small = min(self.pairs.sizes_bytes) <= SMALL_BYTES and len(self.pairs.sizes_bytes) > 1
        asked = {
            "pair_bandwidth": True,
            "rail_bandwidth": self.ranks_per_node > 1,
            "pair_latency": small or any(each.collective == SENDRECV for each in self.latency),
            "data": True,
            "group_bandwidth": True,
            "group_latency": any(each.collective != SENDRECV for each in self.latency),
            "straggler": self.straggler is not None,
            "train": self.train is not None,
            MINI_CLUSTER_CHECK: self.mini_clusters is not None,
        }
        return tuple(check for check, wanted in asked.items() if wanted)


def bus_bandwidth(collective: str, ranks: int, size_bytes: int, seconds: float) -> float:
    """Return a collective's bus bandwidth in GB/s, as nccl-tests defines it: independent of the number of ranks."""
    factor = {ALL_REDUCE: 2 * (ranks - 1) / ranks, SENDRECV: 1.0}.get(collective, (ranks - 1) / ranks)
    return factor * size_bytes / seconds / 1e9


def size_text(size_bytes: int) -> str:
    """Return a message size as people write it (``8 MiB``)."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


class _Section:
    """A mapping of the class' expectations, read key by key; raises SettingsError with the key's whole name."""

    def __init__(self, name: str, data: Mapping[str, Any]) -> None:
        self.name = name
        self.data = data

    def value(self, key: str) -> Any:
        if key not in self.data:
            raise SettingsError(f"{self.name}.{key} is missing")
        return self.data[key]

    def optional(self, key: str) -> Any:
        return self.data.get(key)

    def section(self, key: str) -> _Section:
        value = self.value(key)
        if not isinstance(value, Mapping):
            raise SettingsError(f"{self.name}.{key} is {value!r}, expected a mapping")
        return _Section(f"{self.name}.{key}", value)

    def whole(self, key: str, least: int = 1) -> int:
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise SettingsError(f"{self.name}.{key} is {value!r}, expected a whole number of at least {least}")
        return value

    def number(self, key: str) -> float:
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value > 0):
            raise SettingsError(f"{self.name}.{key} is {value!r}, expected a number above 0")
        return float(value)

    def share(self, key: str) -> float:
        value = self.number(key)
        if value >= 1:
            raise SettingsError(f"{self.name}.{key} is {value:g}, expected a share between 0 and 1")
        return value

    def sizes(self) -> tuple[int, ...]:
        value = self.value("sizes_bytes")
        where = f"{self.name}.sizes_bytes"
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            raise SettingsError(f"{where} is {value!r}, expected a list of sizes")
        return tuple(
            _Section(where, {str(at): each for at, each in enumerate(value)}).whole(str(index))
            for index in range(len(value))
        )

    def each(self, key: str, read: Callable[[_Section], T]) -> tuple[T, ...]:
        value = self.value(key)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise SettingsError(f"{self.name}.{key} is {value!r}, expected a list")
        where = f"{self.name}.{key}"
        return tuple(
            read(_Section(f"{where}[{index}]", item if isinstance(item, Mapping) else {"": item}))
            for index, item in enumerate(value)
        )


def _collective(item: _Section) -> str:
    name = item.data.get("")
    if name not in COLLECTIVES:
        raise SettingsError(f"{item.name} is {name!r}, expected one of {', '.join(COLLECTIVES)}")
    return str(name)


def _floor(item: _Section) -> Floor:
    known = (str(item.value("collective")), item.whole("nodes_min"), item.whole("size_bytes"))
    return Floor(*known, item.number("busbw_gb_per_s"))


def _ceiling(item: _Section) -> Ceiling:
    known = (str(item.value("collective")), item.whole("nodes_min"), item.whole("size_bytes"))
    return Ceiling(*known, item.number("microseconds"))


def _straggler(item: _Section) -> Straggler:
    return Straggler(item.number("p99_over_p50"), item.share("last_share"))


def _least(limits: Any, collective: str, nodes: int, size_bytes: int, value: Callable[[Any], float]) -> float | None:
    # What holds inside a node says nothing about nodes between which there is a network, nor the other way round.
    known = [
        each
        for each in limits
        if each.collective == collective
        and each.size_bytes == size_bytes
        and each.nodes_min <= nodes
        and (each.nodes_min > 1 or nodes == 1)
    ]
    return value(max(known, key=lambda each: each.nodes_min)) if known else None
