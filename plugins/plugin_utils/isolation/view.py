"""The exchanges of a campaign, each held against its peers, and what might explain those that are slow.

Peers are exchanges of the same size, rail and distance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import (
    SENDRECV,
    SMALL_BYTES,
    UNIT,
    Settings,
    size_text,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Matrix

NODE, LINK, INTERMITTENT, PAIR, BOUNDARY = "node", "link", "intermittent", "pair", "boundary"
# How a boundary is named that nothing declared tells.
BEFORE = "what lies before"
# Of normal noise the median deviation from the median is that part of the standard deviation.
MAD_SIGMA = 1.4826
# GPU fleets are so uniform that their own spread alone would flag noise (numbers.md section 9: 0.5 % of the median).
LEAST_SPREAD = 0.005
# A pair stands out so far that noise makes less than one such in thousands of fleets of 232 nodes.
STRONG_SIGMAS = 5.6
# The units of topology among which a slow boundary can be the greater part of all pairs across: 5 units have 10 pairs.
FEW_UNITS = 8


@dataclass(frozen=True)
class Channel:
    """One thing measured of every exchange: ``x`` is by row by how much it is worse than it should be (0.1: 10 %).

    ``rail`` is None where all rails together are meant. With ``limit`` the class' limit says what should be, and what
    exceeds the margin breaks it; else peers do. ``sigma`` is the noise of one row. ``value`` is what was measured, in
    ``unit``, ``expected`` where the margin ends.
    """

    check: str
    size: int
    rail: int | None
    x: Any
    sigma: float
    threshold: float
    limit: bool
    value: Any
    expected: float
    unit: str


@dataclass(frozen=True)
class _Asked:
    """What a channel is about, and whether the class' limit or the peers say what should be."""

    check: str
    size: int
    rail: int | None
    limit: bool


@dataclass(frozen=True)
class Suspect:
    """What might explain slow exchanges: of which ``members`` (two of a pair, all of a boundary, else one).

    ``slowdown`` is the median of ``rows`` exchanges, ``share`` how many of them were slow. ``strong``: too much for
    noise. A boundary lies between its members and those ``beyond`` it, everybody else if that is empty.
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

    @property
    def declared(self) -> bool:
        """Return whether racks, pods or two sides tell the boundary, so that it cannot be its members after all."""
        return not self.unit.startswith(BEFORE)

    @property
    def behind(self) -> tuple[int, ...]:
        """Return everybody whom it is about: of a boundary between two units the members of both."""
        return (*self.members, *self.beyond)


@dataclass
class View:
    """The exchanges of a campaign as seen by every channel; ``first`` are the rows of the walk, not of confirmation.

    ``units`` and ``names`` are racks and pods, by node and by number; ``outwards`` are the rows between two of them,
    ``blocks`` one number for these two, ``pairs`` one for the two nodes of each row; ``fabric`` says what speaks
    against the fabric as a whole. ``met`` is behind ``rows_of``,
    ``spreads`` what ``spread_of_nodes`` found by channel, ``bounded`` the rows across a boundary that was found slow.
    """

    matrix: Matrix
    settings: Settings
    members: Any
    first: Any
    units: Mapping[str, Any]
    names: Mapping[str, Sequence[str]]
    channels: list[Channel]
    peers: int
    fabric: tuple[str, ...]
    remarks: tuple[str, ...]
    repeated: bool = False
    pairs: Any = None
    met: tuple[Any, Any] = ((), ())
    outwards: dict[str, Any] = field(default_factory=dict)
    blocks: dict[str, Any] = field(default_factory=dict)
    spreads: dict[int, float] = field(default_factory=dict)
    bounded: Any = None

    @property
    def one(self) -> Any:
        return self.matrix.one

    @property
    def other(self) -> Any:
        return self.matrix.other

    def rows_of(self, node: int) -> Any:
        """Return which rows a node took part in."""
        rows, start = self.met
        return rows[start[node] : start[node + 1]]

    def touching(self, nodes: Iterable[int]) -> Any:
        """Return the rows in which one of the nodes took part."""
        chosen = np.zeros(len(self.matrix.nodes), dtype=bool)
        chosen[list(nodes)] = True
        return chosen[self.one] | chosen[self.other]


def view_of(matrix: Matrix, members: Iterable[str], settings: Settings, first: Iterable[int]) -> View:
    """Return what the rounds in ``first`` (walks) and all others look like against what should be."""
    index = matrix.index()
    tested = np.zeros(len(matrix.nodes), dtype=bool)
    tested[[index[node] for node in members]] = True
    walked = np.isin(matrix.number, list(first))
    units, names = _units(matrix.nodes, settings)
    view = View(matrix, settings, tested, walked, units, names, [], 0, (), ())
    valid = ~np.isnan(matrix.gb).any(axis=(1, 2)) & walked
    met = np.zeros(len(matrix.nodes), dtype=bool)
    met[matrix.one[valid]] = met[matrix.other[valid]] = True
    view.peers = int(met.sum())
    view.pairs = matrix.one.astype(np.int64) * len(matrix.nodes) + matrix.other
    both = np.concatenate([matrix.one, matrix.other])
    order = np.argsort(both, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(both, minlength=len(matrix.nodes)))])
    view.met = order % max(1, len(matrix.one)), start
    for level, unit in units.items():
        one, other = unit[matrix.one], unit[matrix.other]
        view.outwards[level] = (one >= 0) & (other >= 0) & (one != other)
        view.blocks[level] = np.minimum(one, other) * len(names[level]) + np.maximum(one, other)
    view.repeated = len(np.unique(view.pairs[valid])) < valid.sum()
    _fill(view)
    return view


def _units(nodes: Sequence[str], settings: Settings) -> tuple[dict[str, Any], dict[str, list[str]]]:
    units: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    for level in ("pod", "rack"):
        places = [(settings.places.get(node) or {}).get(level) for node in nodes]
        names[level] = sorted({place for place in places if place is not None})
        number = {name: at for at, name in enumerate(names[level])}
        units[level] = np.array([-1 if place is None else number[place] for place in places], dtype=np.int64)
    return units, names


def _fill(view: View) -> None:
    """Fill in the channels, and what holds for the fabric as a whole."""
    matrix, settings = view.matrix, view.settings
    cohort = settings.cohort
    enough = view.peers >= cohort.peers
    rails = matrix.rails
    fabric: list[str] = []
    remarks: list[str] = []
    # Of two rails one may be slow alone: the better one tells of the node. Of more the one in the middle.
    speeds = matrix.gb[..., 0] if rails == 1 else matrix.gb.max(axis=2) if rails == 2 else np.median(matrix.gb, axis=2)
    if not len(matrix.one):
        return
    kinds = _distances(view)
    largest = max(matrix.sizes)
    for at, size in enumerate(matrix.sizes):
        healthy = settings.healthy(2, size)
        check = "pair_bandwidth" if size > SMALL_BYTES or size == largest else "pair_latency"
        usual = _usual(view, speeds[:, at], kinds) if enough else None
        if usual is None and healthy is None:
            if settings.ceiling(SENDRECV, 2, size) is None:
                remarks.append(f"pairs at {size_text(size)} are not judged: too few peers, and no limit of the class")
            continue
        limited = usual is None or bool(healthy is not None and healthy > np.nanmedian(usual))
        what = _Asked(check, size, None, limited)
        channel, reference = _of_all_rails(view, what, speeds[:, at], usual, healthy)
        few, more = (0, 0.0) if usual is None else _few_fast(view, channel)
        if usual is not None and few > view.peers / 2:
            # Few nodes are slow, but with everybody: most pairs are, and those that are not show what is usual.
            channel, reference = _of_all_rails(view, what, speeds[:, at], usual * (1 + more), healthy)
        elif few:
            fabric.append(
                f"{few} of {view.peers} nodes are {more:.0%} faster with each other than everybody else at "
                f"{size_text(size)}: the others may be slow"
            )
        view.channels.append(channel)
        if rails > 1:
            slow = _add_rails(view, at, speeds[:, at], reference, limited)
            (fabric if size == largest else remarks).extend(slow if enough else [])
    if enough:
        between, certain = _two_units(view, speeds[:, matrix.sizes.index(largest)])
        (fabric if certain else remarks).extend(between)
    for at, size in enumerate(matrix.sizes):
        ceiling = settings.ceiling(SENDRECV, 2, size)
        if ceiling is not None:
            value = matrix.p99[:, at] * 1e6
            x = 1 - (1 - cohort.margin) * ceiling / value
            view.channels.append(_channel(view, _Asked("pair_latency", size, None, True), x, (value, ceiling, "us")))
        if settings.straggler is not None:
            limit = settings.straggler.p99_over_p50
            value = matrix.ratio[:, at]
            x = 1 - (1 - cohort.margin) * limit / value
            view.channels.append(_channel(view, _Asked("straggler", size, None, True), x, (value, limit, "p99/p50")))
    view.fabric, view.remarks = tuple(fabric), tuple(remarks)


def _add_rails(view: View, at: int, speeds: Any, reference: Any, limited: bool) -> list[str]:
    """Add a channel for each rail at one size, and return which rails are slow with everybody.

    A rail may be a little slower by the way it is wired; what counts is who is slower than that rail is.
    """
    matrix, cohort, size = view.matrix, view.settings.cohort, view.matrix.sizes[at]
    relative = matrix.gb[:, at] / speeds[:, None]
    known = view.first & ~np.isnan(relative).any(axis=1)
    usually = np.median(relative[known], axis=0) if known.any() else np.ones(matrix.rails)
    middle = float(np.median(usually))
    for rail in range(matrix.rails):
        expected = np.where(limited, reference, reference * usually[rail])
        cell = _steadied(view, 1 - matrix.gb[:, at, rail] / expected)
        bar = float(np.median(expected)) * (1 - cohort.margin)
        asked = _Asked("rail_bandwidth", size, rail, limited)
        view.channels.append(_speed(view, asked, cell, matrix.gb[:, at, rail], bar))
    return [
        f"rail {rail} is {1 - usually[rail] / middle:.0%} slower than the others with everybody at {size_text(size)}"
        for rail in range(matrix.rails)
        if usually[rail] < middle * (1 - cohort.smallest)
    ]


def _of_all_rails(view: View, asked: _Asked, speeds: Any, usual: Any, healthy: float | None) -> tuple[Channel, Any]:
    """Return the channel of a size, and by row the speed that it is held against."""
    reference = np.full(len(speeds), healthy) if usual is None else np.maximum(usual, healthy or 0)
    bar = float(np.median(reference)) * (1 - view.settings.cohort.margin)
    return _speed(view, asked, _steadied(view, 1 - speeds / reference), speeds, bar), reference


def _speed(view: View, asked: _Asked, x: Any, speeds: Any, bar: float) -> Channel:
    """Return the channel of a bandwidth, told as time where the message is small."""
    if asked.check != "pair_latency":
        return _channel(view, asked, x, (speeds, bar, UNIT))
    return _channel(view, asked, x, (asked.size / speeds / 1e3, asked.size / bar / 1e3, "us"))


def _channel(view: View, asked: _Asked, x: Any, told: tuple[Any, float, str]) -> Channel:
    cohort = view.settings.cohort
    known = x[view.first & ~np.isnan(x)]
    middle = np.median(known) if len(known) else 0.0
    sigma = max(MAD_SIGMA * float(np.median(np.abs(known - middle))) if len(known) else 0.0, LEAST_SPREAD)
    threshold = cohort.margin if asked.limit else cohort.smallest / 2
    return Channel(asked.check, asked.size, asked.rail, x, sigma, threshold, asked.limit, *told)


def _steadied(view: View, x: Any) -> Any:
    """Return the slowdowns with what a later round as a whole was slower than the walk taken out.

    Rounds of confirmation have sound pairs beside those they confirm, to tell by.
    """
    known = ~np.isnan(x)
    late = known & ~view.first
    if not late.any():
        return x
    first = known & view.first
    plain = slow_shares(view, first, x > view.settings.cohort.smallest / 2) <= 0.5
    late &= plain[view.one] & plain[view.other]
    for number in np.unique(view.matrix.number[late]):
        rows = late & (view.matrix.number == number)
        if rows.sum() >= view.settings.cohort.peers:
            common = max(0.0, float(np.median(x[rows])))
            x = np.where(view.matrix.number == number, 1 - (1 - x) / (1 - common), x)
    return x


def _distances(view: View) -> Any:
    """Return by row how far apart its two nodes are: 0 same rack, 1 same pod, 2 farther, or unknown."""
    far = np.full(len(view.one), 2)
    for level, near in (("pod", 1), ("rack", 0)):
        unit = view.units[level]
        same = (unit[view.one] == unit[view.other]) & (unit[view.one] >= 0)
        far[same] = near
    return far


def _usual(view: View, speeds: Any, kinds: Any) -> Any:
    """Return by row what peers at the same distance reach."""
    usual = np.full(len(speeds), np.nan)
    known = view.first & ~np.isnan(speeds)
    everywhere = float(np.median(speeds[known]))
    for kind in (0, 1, 2):
        here = known & (kinds == kind)
        value = everywhere
        if here.sum() >= view.settings.cohort.peers:
            value = _undivided(view, speeds, here, kind) or float(np.median(speeds[here]))
        usual[kinds == kind] = value
    return usual


def _undivided(view: View, speeds: Any, rows: Any, kind: int) -> float | None:
    """Return what the better pairs of units reach among each other, where a bad unit could be in most of them."""
    if kind == 0:
        return None
    unit = view.units["rack"] if len(view.names["rack"]) > 1 else view.units["pod"]
    count = int(unit.max(initial=-1)) + 1
    if not 3 <= count <= FEW_UNITS:
        return None
    a, b = unit[view.one[rows]], unit[view.other[rows]]
    block = np.where(a < b, a * count + b, b * count + a)
    values = speeds[rows]
    medians = [
        float(np.median(values[block == each])) for each in np.unique(block) if (block == each).sum() >= 4 and each >= 0
    ]
    return float(np.quantile(medians, 0.75, method="higher")) if len(medians) > 2 else None


def _two_units(view: View, speeds: Any) -> tuple[list[str], bool]:
    """Return whether two racks (or pods) are slow between each other: with two there is no third to compare with."""
    for level in ("rack", "pod"):
        unit = view.units[level]
        if len(view.names[level]) != 2:
            continue
        known = view.first & ~np.isnan(speeds) & (unit[view.one] >= 0) & (unit[view.other] >= 0)
        same = unit[view.one] == unit[view.other]
        within, between = speeds[known & same], speeds[known & ~same]
        if min(len(within), len(between)) < view.settings.cohort.peers:
            continue
        less = 1 - float(np.median(between) / np.median(within))
        if less > view.settings.cohort.smallest / 2 and less > view.settings.cohort.margin:
            names = " and ".join(view.names[level])
            said = f"{less:.0%} slower between {level}s {names} than within them"
            return [said], level == "rack"
    return [], False


def _few_fast(view: View, channel: Channel) -> tuple[int, float]:
    """Return how many nodes are faster with each other than everybody else, and by how much; 0 if there are none such.

    Then the many are slow, not the few fast. Several sets of such nodes are racks that are not declared, and no fault.
    """
    rows = np.flatnonzero(view.first & ~np.isnan(channel.x))
    keys, inverse = np.unique(view.pairs[rows], return_inverse=True)
    counts = np.bincount(inverse, minlength=len(keys))
    gain = -np.bincount(inverse, weights=channel.x[rows], minlength=len(keys)) / np.maximum(counts, 1)
    smallest = view.settings.cohort.smallest
    fast = gain > np.maximum(0.75 * smallest, STRONG_SIGMAS * channel.sigma / np.sqrt(counts))
    if not fast.any():
        return 0, 0.0
    size = len(view.matrix.nodes)
    one, other = keys // size, keys % size
    among = np.zeros(size, dtype=bool)
    among[one[fast]] = among[other[fast]] = True
    both = among[one] & among[other]
    if among.sum() < 3 or among.sum() == view.peers or fast[both].mean() < 0.8:
        return 0, 0.0
    return int(among.sum()), float(np.median(gain[fast]))


def across(view: View, suspect: Suspect) -> Any:
    """Return the rows of the exchanges across a boundary."""
    inside = np.zeros(len(view.matrix.nodes), dtype=bool)
    inside[list(suspect.members)] = True
    outside = ~inside
    if suspect.beyond:
        outside[:] = False
        outside[list(suspect.beyond)] = True
    return (inside[view.one] & outside[view.other]) | (outside[view.one] & inside[view.other])


def rows_by_node(view: View, rows: Any) -> Any:
    size = len(view.matrix.nodes)
    return np.bincount(view.one[rows], minlength=size) + np.bincount(view.other[rows], minlength=size)


def partners_by_node(view: View, rows: Any) -> Any:
    """Return by node with how many others it was in these rows."""
    size = len(view.matrix.nodes)
    keys = np.unique(view.pairs[rows])
    return np.bincount(keys // size, minlength=size) + np.bincount(keys % size, minlength=size)


def slow_shares(view: View, rows: Any, slow: Any) -> Any:
    """Return by node how many of its exchanges were slow, as a part of them."""
    return rows_by_node(view, rows & slow) / np.maximum(rows_by_node(view, rows), 1)


def spread_of_nodes(view: View, at: int) -> float:
    """Return how far apart sound nodes lie by themselves in a channel: one is an outlier only beyond a multiple."""
    if at not in view.spreads:
        view.spreads[at] = _spread_of_nodes(view, view.channels[at])
    return view.spreads[at]


def _spread_of_nodes(view: View, channel: Channel) -> float:
    rows = np.flatnonzero(view.first & ~view.bounded & ~np.isnan(channel.x))
    values = np.clip(channel.x[rows], -0.2, 0.2)
    size = len(view.matrix.nodes)
    total = np.bincount(view.one[rows], values, size) + np.bincount(view.other[rows], values, size)
    counts = np.bincount(view.one[rows], minlength=size) + np.bincount(view.other[rows], minlength=size)
    means = total[counts > 0] / counts[counts > 0]
    if not len(means):
        return LEAST_SPREAD
    return max(MAD_SIGMA * float(np.median(np.abs(means - np.median(means)))), LEAST_SPREAD)
