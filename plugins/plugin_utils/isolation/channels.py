"""The exchanges of a campaign, each held against its peers: exchanges of the same size, rail and distance.

What the pairwise sweep showed is judged once, whatever is measured after it: the exchanges of later rounds are held
against what the sweep showed to be usual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import (
    SENDRECV,
    SMALL_BYTES,
    UNIT,
    Settings,
    size_text,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Exchanges
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.medians import median, median_across
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.typical_nodes import (
    MOST_SETS,
    Met,
    are_alike,
    sets_apart,
    some_of,
)

NODE, LINK, INTERMITTENT, PAIR, BOUNDARY = "node", "link", "intermittent", "pair", "boundary"
# How a boundary is named that nothing declared tells.
BEFORE = "what lies before"
# Of normal noise the median deviation from the median is that part of the standard deviation.
MAD_SIGMA = 1.4826
# GPU fleets are so uniform that their own spread alone would flag noise (numbers.md section 9: 0.5 % of the median).
LEAST_SPREAD = 0.005
# A pair stands out so far that noise makes less than one such in thousands of fleets of 232 nodes.
STRONG_SIGMAS = 5.6
# What many nodes show is certain, and is told from this part of the smallest effect on that must be found.
LEAST_OF_ALL = 0.75
# The units of topology among which a slow boundary can be the greater part of all pairs across: 5 units have 10 pairs.
FEW_UNITS = 8


# How far apart two nodes are: in the same rack, in the same pod, farther apart (or nobody says).
DISTANCES = 3


def _nothing() -> Any:
    return np.zeros(0)


@dataclass(frozen=True)
class Channel:
    """One thing measured of every exchange: ``x`` is by row by how much it is worse than it should be (0.1: 10 %).

    ``rail`` is None where all rails together are meant. With ``limit`` the class' limit says what should be, and what
    exceeds the margin breaks it; else peers do. ``sigma`` is the noise of one row. ``value`` is what was measured, in
    ``unit``, ``expected`` where the margin ends. These are rows of the sweep; ``again`` and ``again_value`` are the
    same of later rounds. ``reference`` is by distance the bandwidth that should be, nothing where there is a ceiling.
    ``typical`` are by node those that tell what is usual, None if all do.
    """

    check: str
    size: int
    rail: int | None
    limit: bool
    unit: str
    x: Any
    value: Any
    sigma: float
    threshold: float
    expected: float
    reference: Any = field(default_factory=_nothing)
    again: Any = field(default_factory=_nothing)
    again_value: Any = field(default_factory=_nothing)
    typical: Any = None

    @property
    def beyond_noise(self) -> float:
        """Return from which slowdown on a single exchange is slow, and not by noise."""
        return max(self.threshold, 3 * self.sigma)


class Suspect(NamedTuple):
    """What might explain slow exchanges: of which ``members`` (two of a pair, all of a boundary, else one).

    ``slowdown`` is the median of ``rows`` exchanges, ``share`` how many of them were slow. ``strong``: too much for
    noise. A boundary lies between its members and those ``beyond`` it, everybody else if that is empty. ``partners``
    are those with whom a node was slow that is so now and then, or with some.
    """

    kind: str
    members: tuple[int, ...]
    channel: int
    slowdown: float
    share: float
    rows: int
    strong: bool = True
    unit: str = ""
    beyond: tuple[int, ...] = ()
    partners: tuple[int, ...] = ()

    @property
    def declared(self) -> bool:
        """Return whether racks, pods or two sides tell the boundary, so that it cannot be its members after all."""
        return not self.unit.startswith(BEFORE)

    @property
    def behind(self) -> tuple[int, ...]:
        """Return everybody whom it is about: of a boundary between two units the members of both."""
        return (*self.members, *self.beyond)


@dataclass(frozen=True)
class Topology:
    """Where ``nodes`` lie: by level (``pod``, ``rack``) the unit of each, -1 for none, and the units' names."""

    nodes: Sequence[str]
    units: Mapping[str, Any]
    names: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, nodes: Sequence[str], places: Mapping[str, Mapping[str, str | None]]) -> Topology:
        """Return where these nodes lie."""
        units: dict[str, Any] = {}
        names: dict[str, list[str]] = {}
        for level in ("pod", "rack"):
            named = [(places.get(node) or {}).get(level) for node in nodes]
            names[level] = sorted({place for place in named if place is not None})
            number = {name: at for at, name in enumerate(names[level])}
            units[level] = np.array([-1 if place is None else number[place] for place in named], dtype=np.int64)
        return cls(nodes, units, names)

    def distances(self, one: Any, other: Any) -> Any:
        """Return how far apart two nodes are, each: 0 same rack, 1 same pod, 2 farther, or unknown."""
        far = np.full(len(one), 2)
        for level, near in (("pod", 1), ("rack", 0)):
            unit = self.units[level][one]
            far[(unit == self.units[level][other]) & (unit >= 0)] = near
        return far


@dataclass(frozen=True)
class Sweep:
    """The exchanges of the pairwise sweep as seen by every channel.

    ``members`` tells by node who is under test, ``peers`` how many nodes were measured; ``fabric`` says what speaks
    against the fabric as a whole. ``limited`` tells by size whether the class' limit asks for more than peers reach.
    ``typical`` are by size and node those that tell what is ``usual``, None if all do.
    """

    exchanges: Exchanges
    topology: Topology
    settings: Settings
    members: Any
    distances: Any
    peers: int
    channels: tuple[Channel, ...] = ()
    fabric: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    limited: tuple[bool | None, ...] = ()
    usual: tuple[Any, ...] = ()
    typical: tuple[Any, ...] = ()

    @cached_property
    def outwards(self) -> dict[str, Any]:
        """Return by level the rows between two of its units."""
        sides = {level: (unit[self.exchanges.one], unit[self.exchanges.other]) for level, unit in self._units}
        return {level: (one >= 0) & (other >= 0) & (one != other) for level, (one, other) in sides.items()}

    @cached_property
    def units_met(self) -> dict[str, Sequence[int]]:
        """Return by level its units of which anybody was measured."""
        met = self.exchanges.of_nodes(self.exchanges.known) > 0
        return {level: np.unique(unit[met & (unit >= 0)]).tolist() for level, unit in self._units}

    @cached_property
    def blocks(self) -> dict[str, Any]:
        """Return by level one number for the two units of each row."""
        sides = {level: (unit[self.exchanges.one], unit[self.exchanges.other]) for level, unit in self._units}
        counts = {level: len(names) for level, names in self.topology.names.items()}
        return {
            level: np.minimum(one, other) * counts[level] + np.maximum(one, other)
            for level, (one, other) in sides.items()
        }

    @cached_property
    def complete(self) -> Rows | None:
        """Return all rows if every one was measured at every size, None if not."""
        known = self.exchanges.known
        return Rows(self, known) if known.all() else None

    def measured(self, channel: Channel) -> Rows:
        """Return the rows that were measured in a channel."""
        return self.complete or Rows(self, ~np.isnan(channel.x))

    @cached_property
    def met(self) -> Met:
        """Return by distance whom each node met."""
        return Met(self.exchanges, self.distances)

    def between(self, nodes: Any) -> Any:
        """Return the rows between two of these nodes (by node; None: of all nodes), as a mask or a slice of all."""
        return slice(None) if nodes is None else nodes[self.exchanges.one] & nodes[self.exchanges.other]

    @property
    def _units(self) -> Sequence[tuple[str, Any]]:
        return tuple(self.topology.units.items())

    @cached_property
    def repeated(self) -> bool:
        """Return whether any pair was measured more than once."""
        pairs = self.exchanges.pairs[self.exchanges.known]
        met = np.zeros(self.exchanges.count**2, dtype=bool)
        met[pairs] = True
        return int(np.count_nonzero(met)) < len(pairs)


class Rows:
    """A choice of a sweep's exchanges; what is counted of it is counted once."""

    def __init__(self, sweep: Sweep, mask: Any) -> None:
        self.sweep, self.mask = sweep, mask
        self._outwards: dict[str, Rows] = {}

    @cached_property
    def by_node(self) -> Any:
        """Return by node in how many of them it took part."""
        return self.sweep.exchanges.of_nodes(self.mask)

    def outwards(self, level: str) -> Rows:
        """Return those between two units of a level."""
        if level not in self._outwards:
            self._outwards[level] = Rows(self.sweep, self.mask & self.sweep.outwards[level])
        return self._outwards[level]

    def of(self, rows: Any) -> Any:
        """Return which of some rows (their numbers) are among them."""
        return rows[self.mask[rows]]

    def without(self, rows: Any) -> Rows:
        """Return all but these (a mask, or their numbers)."""
        mask = self.mask.copy()
        mask[rows] = False
        return Rows(self.sweep, mask)

    def slow_shares(self, slow: Any) -> Any:
        """Return by node how many of its exchanges among them are among the slow ones (numbers), as a part."""
        return self.sweep.exchanges.of_nodes(self.of(slow)) / np.maximum(self.by_node, 1)


def swept(exchanges: Exchanges, topology: Topology, members: Any, settings: Settings, again: Exchanges) -> Sweep:
    """Return what the exchanges of a sweep look like against what should be; ``again`` are those of later rounds."""
    met = exchanges.of_nodes(exchanges.known) > 0
    distances = topology.distances(exchanges.one, exchanges.other)
    sweep = Sweep(exchanges, topology, settings, members, distances, int(met.sum()))
    enough = sweep.peers >= settings.cohort.peers
    speeds = [_together(exchanges.gb[:, at]) for at in range(len(settings.pairs.sizes_bytes))]
    if enough:
        typical = tuple(_typical(sweep, each) for each in speeds)
        usual = tuple(_usual(sweep, each, some) for each, some in zip(speeds, typical, strict=True))
        sweep = replace(sweep, usual=usual, typical=typical)
    else:
        sweep = replace(sweep, usual=(None,) * len(speeds), typical=(None,) * len(speeds))
    return _Channels(sweep, again).swept(speeds)


def limited(sweep: Sweep, again: Exchanges) -> tuple[bool | None, ...]:
    """Return by size whether the class' limit asks for more than peers reach, None where there is neither."""
    counts = _counts(sweep, again)
    found: list[bool | None] = []
    for size, usual in zip(sweep.settings.pairs.sizes_bytes, sweep.usual, strict=True):
        healthy = sweep.settings.healthy(2, size)
        if usual is None:
            found.append(None if healthy is None else True)
        else:
            found.append(healthy is not None and healthy > _median_of(usual, counts))
    return tuple(found)


def measured_again(sweep: Sweep, again: Exchanges) -> tuple[Channel, ...]:
    """Return the channels with what later rounds showed."""
    return _Channels(sweep, again).again() if len(again.one) else sweep.channels


def _counts(sweep: Sweep, again: Exchanges) -> Any:
    """Return how many exchanges there are by distance, measured or not."""
    sides = [(again.one, again.other), sweep.exchanges.unmeasured, again.unmeasured]
    both = np.concatenate([sweep.distances, *(sweep.topology.distances(*each) for each in sides)])
    return np.bincount(both, minlength=DISTANCES)


def _median_of(values: Any, counts: Any) -> float:
    """Return the median of as many of each of these values."""
    order = np.argsort(values)
    ends, total = np.cumsum(counts[order]), int(counts.sum())
    if not total:
        return float("nan")
    low, high = (values[order][np.searchsorted(ends, at, side="right")] for at in ((total - 1) // 2, total // 2))
    return float((low + high) / 2)


def _together(gb: Any) -> Any:
    """Return the speed over all rails by row.

    Of two rails one may be slow alone: the better one tells of the node. Of more the one in the middle.
    """
    return np.maximum(*gb.T) if gb.shape[1] == 2 else median_across(gb.T)


class _Channels:
    """Makes the channels of a sweep."""

    def __init__(self, sweep: Sweep, again: Exchanges) -> None:
        self.sweep, self.settings, self.cohort = sweep, sweep.settings, sweep.settings.cohort
        self.exchanges, self.later = sweep.exchanges, again
        self.counts = _counts(sweep, again)
        self.complete = sweep.complete is not None

    def swept(self, speeds: Sequence[Any]) -> Sweep:
        """Return the sweep with its channels, and what holds for the fabric as a whole."""
        sweep, exchanges = self.sweep, self.exchanges
        sizes, rails = self.settings.pairs.sizes_bytes, exchanges.gb.shape[2]
        enough = sweep.peers >= self.cohort.peers
        fabric: list[str] = []
        remarks: list[str] = []
        channels: list[Channel] = []
        bounded = limited(sweep, self.later)
        for at, size in enumerate(sizes):
            healthy, usual, by_limit = self.settings.healthy(2, size), sweep.usual[at], bounded[at]
            if by_limit is None:
                if self.settings.ceiling(SENDRECV, 2, size) is None:
                    said = "too few peers, and no limit of the class"
                    remarks.append(f"pairs at {size_text(size)} are not judged: {said}")
                continue
            check = "pair_bandwidth" if size > SMALL_BYTES or size == max(sizes) else "pair_latency"
            about = check, size, None, by_limit
            reference = np.full(DISTANCES, healthy) if usual is None else np.maximum(usual, healthy or 0)
            channels.append(self._speed(about, reference, speeds[at], sweep.typical[at]))
            if rails > 1:
                slow = self._add_rails(channels, at, speeds[at], reference)
                (fabric if size == max(sizes) else remarks).extend(slow if enough else [])
            if usual is not None:
                own = [each for each in channels if each.size == size]
                fabric += [said for each in own for said in _few_fast(sweep, each)]
                (apart, certain) = _sets_apart(sweep, speeds[at], at)
                (fabric if certain else remarks).extend(apart)
        if enough:
            fabric += _two_units(sweep, sizes.index(max(sizes)), speeds)
        channels += self._ceilings()
        found = replace(sweep, channels=tuple(channels), limited=bounded)
        return replace(found, fabric=tuple(fabric), remarks=tuple(remarks))

    def _add_rails(self, channels: list[Channel], at: int, speeds: Any, reference: Any) -> list[str]:
        """Add a channel for each rail at one size, and return which rails are slow with everybody.

        A rail may be a little slower by the way it is wired; what counts is who is slower than that rail is.
        """
        size, by_limit, gb = channels[-1].size, channels[-1].limit, self.exchanges.gb[:, at].T
        everybody, less = self.sweep.typical[at], self.cohort.smallest / 2
        usually, judged = np.ones(len(gb)), self.sweep.usual[at] is not None
        for rail, speed in enumerate(gb):
            typical = everybody
            usually[rail] = self._relative(speed, speeds, typical)
            if judged and not are_alike(self.sweep.distances, speed, speeds * usually[rail], less):
                # As every third node may be slow on this rail alone.
                typical = self.sweep.met.typical(speed, less, everybody)
                usually[rail] = self._relative(speed, speeds, typical)
            expected = reference if by_limit else reference * usually[rail]
            channels.append(self._speed(("rail_bandwidth", size, rail, by_limit), expected, speed, typical))
        middle = float(np.median(usually))
        return [
            f"rail {rail} is {1 - each / middle:.0%} slower than the others with all nodes at {size_text(size)}"
            for rail, each in enumerate(usually)
            if each < middle * (1 - LEAST_OF_ALL * self.cohort.smallest)
        ]

    def _relative(self, speed: Any, speeds: Any, typical: Any) -> float:
        """Return what part of the speed over all rails one rail usually has, by the nodes that tell."""
        relative = (speed / speeds)[self.sweep.between(typical)]
        relative = relative if self.complete else relative[~np.isnan(relative)]
        return float(median(relative)) if len(relative) else 1.0

    def _speed(self, about: tuple[str, int, int | None, bool], reference: Any, speeds: Any, typical: Any) -> Channel:
        """Return the channel of a bandwidth (check, size, rail, by limit), told as time where the message is small."""
        check, size, _rail, by_limit = about
        x = 1 - speeds / reference.take(self.sweep.distances)
        small = check == "pair_latency"
        sigma, threshold = self._noise(x[self.sweep.between(typical)], by_limit)
        value, unit = (size / speeds / 1e3, "us") if small else (speeds, UNIT)
        expected = self._expected(check, size, reference)
        return Channel(*about, unit, x, value, sigma, threshold, expected, reference, typical=typical)

    def _expected(self, check: str, size: int, reference: Any) -> float:
        floor = _median_of(reference, self.counts) * (1 - self.cohort.margin)
        return size / floor / 1e3 if check == "pair_latency" else floor

    def _noise(self, x: Any, by_limit: bool) -> tuple[float, float]:
        """Return the noise of one row, and from where on it is slow."""
        known = x if self.complete else x[~np.isnan(x)]
        sigma = max(MAD_SIGMA * float(median(np.abs(known - median(known)))), LEAST_SPREAD) if len(known) else 0.0
        return max(sigma, LEAST_SPREAD), self.cohort.margin if by_limit else self.cohort.smallest / 2

    def _ceilings(self) -> list[Channel]:
        """Return the channels of the 99 %: against the class' ceiling, and against the median of the same exchange."""
        found = []
        for at, size in enumerate(self.settings.pairs.sizes_bytes):
            for check, limit, unit in self._limits(size):
                value = self._tail(self.exchanges, at, check)
                x = self._above(limit, value)
                found.append(Channel(check, size, None, True, unit, x, value, *self._noise(x, True), limit))
        return found

    def _limits(self, size: int) -> list[tuple[str, float, str]]:
        ceiling, straggler = self.settings.ceiling(SENDRECV, 2, size), self.settings.straggler
        found = [] if ceiling is None else [("pair_latency", ceiling, "us")]
        return found + ([] if straggler is None else [("straggler", straggler.p99_over_p50, "p99/p50")])

    def _above(self, limit: float, value: Any) -> Any:
        return 1 - (1 - self.cohort.margin) * limit / value

    @staticmethod
    def _tail(exchanges: Exchanges, at: int, check: str) -> Any:
        return exchanges.p99[:, at] * 1e6 if check == "pair_latency" else exchanges.ratio[:, at]

    def again(self) -> tuple[Channel, ...]:
        """Return the channels with what later rounds showed."""
        gb, distances = self.later.gb, self.sweep.topology.distances(self.later.one, self.later.other)
        found = []
        for channel in self.sweep.channels:
            at = self.settings.pairs.sizes_bytes.index(channel.size)
            if not len(channel.reference):
                value = self._tail(self.later, at, channel.check)
                found.append(replace(channel, again=self._above(channel.expected, value), again_value=value))
                continue
            speeds = _together(gb[:, at]) if channel.rail is None else gb[:, at, channel.rail]
            x = self._steadied(channel, 1 - speeds / channel.reference[distances])
            value = channel.size / speeds / 1e3 if channel.check == "pair_latency" else speeds
            expected = self._expected(channel.check, channel.size, channel.reference)
            found.append(replace(channel, again=x, again_value=value, expected=expected))
        return tuple(found)

    @cached_property
    def _rows_before(self) -> Any:
        """Return by later row one of the sweep of the same two nodes, or the number of these rows if there is none."""
        pairs, count = self.sweep.exchanges.pairs, len(self.sweep.exchanges.one)
        if not count:
            return np.zeros(len(self.later.one), dtype=np.int64)
        order = np.argsort(pairs, kind="stable")
        rows = order[np.minimum(np.searchsorted(pairs[order], self.later.pairs), count - 1)]
        return np.where(pairs[rows] == self.later.pairs, rows, count)

    def _steadied(self, channel: Channel, x: Any) -> Any:
        """Return the slowdowns with what a later round as a whole was slower than the sweep taken out.

        Rounds of confirmation have sound pairs beside those they confirm, to tell by.
        """
        late = ~np.isnan(x)
        if not late.any():
            return x
        rows = self.sweep.measured(channel)
        plain = rows.slow_shares(np.flatnonzero(channel.x > self.cohort.smallest / 2)) <= 0.5
        late &= plain[self.later.one] & plain[self.later.other]
        # What was slow in the sweep may be so again.
        swept = np.append(channel.x, 0)[self._rows_before]
        late &= ~(swept > self.cohort.smallest / 2)
        for number in np.unique(self.later.number[late]):
            rows_of_it = late & (self.later.number == number)
            if rows_of_it.sum() >= self.cohort.peers:
                common = max(0.0, float(median(x[rows_of_it])))
                x = np.where(self.later.number == number, 1 - (1 - x) / (1 - common), x)
        return x


def _typical(sweep: Sweep, speeds: Any) -> Any:
    """Return by node whether it tells what is usual, None if all do."""
    less = sweep.settings.cohort.smallest / 2
    if are_alike(sweep.distances, speeds, _usual(sweep, speeds).take(sweep.distances), less):
        return None
    found = sweep.met.typical(speeds, less)
    if found.all():
        return None
    # Racks that nobody declared differ in size, and those of small ones meet few nodes that are near. Beside one set of
    # most nodes the others are no racks: of bad nodes some met well by chance.
    sizes = [int(each.sum()) for each in _sets(sweep, speeds)]
    return None if len(sizes) >= MOST_SETS and 2 * max(sizes) <= sweep.peers else found


def _usual(sweep: Sweep, speeds: Any, typical: Any = None) -> Any:
    """Return by distance what the nodes that tell it reach at that distance."""
    known = ~np.isnan(speeds)
    if typical is not None:
        known &= sweep.between(typical)
    everywhere = float(median(speeds[known]))
    usual = np.full(DISTANCES, everywhere)
    for kind in range(DISTANCES):
        here = known & (sweep.distances == kind)
        if here.sum() >= sweep.settings.cohort.peers:
            usual[kind] = _undivided(sweep, speeds, here, kind) or float(median(speeds[here]))
    # What is nearer is no slower: where it is, most of what is near is slow.
    for near in range(DISTANCES - 2, -1, -1):
        if usual[near] < usual[near + 1] * (1 - sweep.settings.cohort.smallest / 2):
            usual[near] = usual[near + 1]
    return usual


def _undivided(sweep: Sweep, speeds: Any, rows: Any, kind: int) -> float | None:
    """Return what the better pairs of units reach among each other, where a bad unit could be in most of them."""
    topology = sweep.topology
    unit = topology.units["rack"] if len(topology.names["rack"]) > 1 else topology.units["pod"]
    count = int(unit.max(initial=-1)) + 1
    if kind == 0 or not 3 <= count <= FEW_UNITS:
        return None
    a, b = unit[sweep.exchanges.one[rows]], unit[sweep.exchanges.other[rows]]
    block = np.where(a < b, a * count + b, b * count + a)
    values = speeds[rows]
    medians = [
        float(np.median(values[block == each])) for each in np.unique(block) if (block == each).sum() >= 4 and each >= 0
    ]
    return float(np.quantile(medians, 0.75, method="higher")) if len(medians) > 2 else None


def _two_units(sweep: Sweep, at: int, speeds: Sequence[Any]) -> list[str]:
    """Return in words that two racks (or pods) are slow between each other: there is no third to compare with."""
    cohort = sweep.settings.cohort
    told = ~np.isnan(speeds[at])
    if sweep.typical[at] is not None:
        told &= sweep.between(sweep.typical[at])
    for level in ("rack", "pod"):
        unit = sweep.topology.units[level]
        names = [sweep.topology.names[level][each] for each in sweep.units_met[level]]
        if len(names) != 2 or (level == "rack" and sweep.settings.nvlink_racks):
            continue
        one, other = unit[sweep.exchanges.one], unit[sweep.exchanges.other]
        known = told & (one >= 0) & (other >= 0)
        within, between = speeds[at][known & (one == other)], speeds[at][known & (one != other)]
        if min(len(within), len(between)) < cohort.peers:
            continue
        less = 1 - float(np.median(between) / np.median(within))
        if less > cohort.smallest / 2 and less > cohort.margin:
            return [f"{less:.0%} slower between {level}s {' and '.join(names)} than within them"]
    return []


def _sets(sweep: Sweep, speeds: Any, typical: Any = None) -> list[Any]:
    """Return sets of the nodes that tell what is usual which nothing declares: fast within, slow with each other."""
    kind = int(np.argmax(np.bincount(sweep.distances, minlength=DISTANCES)))
    rows = (sweep.distances == kind) & ~np.isnan(speeds)
    if typical is not None:
        rows &= sweep.between(typical)
    return sets_apart(sweep.exchanges, rows, speeds, sweep.settings.cohort.smallest / 2)


def _sets_apart(sweep: Sweep, speeds: Any, at: int) -> tuple[list[str], bool]:
    """Return in words which sets of nodes are slow with each other though nothing declares them apart.

    Of two sets at the largest size nothing tells which is at fault: that speaks against the fabric. Else they are racks
    or pods which somebody ought to declare.
    """
    if are_alike(sweep.distances, speeds, sweep.usual[at].take(sweep.distances), sweep.settings.cohort.smallest / 2):
        return [], False
    sizes, nodes = sweep.settings.pairs.sizes_bytes, sweep.topology.nodes
    found = _sets(sweep, speeds, sweep.typical[at])
    if not found:
        return [], False
    names, size = [some_of(nodes, each) for each in found], size_text(sizes[at])
    if len(found) == 2 and sizes[at] == max(sizes):
        sides = f"{names[0]} on one side and {names[1]} on the other"
        return [f"{sides} are fast among themselves and slow with each other at {size}"], True
    said = f"nodes are fast at {size} with {names[0]}, or with {names[1]}, and slow with the rest"
    return [f"{said}: declare their racks or pods"], False


def _few_fast(sweep: Sweep, channel: Channel) -> list[str]:
    """Return in words how many nodes are faster with each other than everybody else, and by how much.

    Then the many are slow, not the few fast. Several sets of such nodes are racks that are not declared, and no fault.
    """
    known = channel.x[~np.isnan(channel.x)]
    least = LEAST_OF_ALL * sweep.settings.cohort.smallest
    if not (known < -least).any():
        return []
    rows = np.flatnonzero(~np.isnan(channel.x))
    pairs = sweep.exchanges.pairs[rows]
    keys, inverse = np.unique(pairs, return_inverse=True)
    counts = np.bincount(inverse, minlength=len(keys))
    gain = -np.bincount(inverse, weights=channel.x[rows], minlength=len(keys)) / np.maximum(counts, 1)
    fast = gain > np.maximum(least, STRONG_SIGMAS * channel.sigma / np.sqrt(counts))
    if not fast.any():
        return []
    size = sweep.exchanges.count
    one, other = keys // size, keys % size
    among = np.zeros(size, dtype=bool)
    among[one[fast]] = among[other[fast]] = True
    both = among[one] & among[other]
    if among.sum() < 3 or among.sum() == sweep.peers or fast[both].mean() < 0.8:
        return []
    where = "" if channel.rail is None else f"rail {channel.rail}: "
    return [
        f"{where}{among.sum()} of {sweep.peers} nodes are {np.median(gain[fast]):.0%} faster with each other than all "
        f"other nodes at {size_text(channel.size)}: the others may be slow, or hardware of two kinds wants two classes"
    ]


def partners_by_node(sweep: Sweep, rows: Any) -> Any:
    """Return by node with how many others it was in these rows."""
    size = sweep.exchanges.count
    if not sweep.repeated:
        return sweep.exchanges.of_nodes(rows)
    keys = np.unique(sweep.exchanges.pairs[rows])
    return np.bincount(keys // size, minlength=size) + np.bincount(keys % size, minlength=size)
