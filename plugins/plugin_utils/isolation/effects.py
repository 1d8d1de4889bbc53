"""What slows exchanges down: a group's boundary, a node, one rail of it, or one pair; fewest causes first.

An exchange is as fast as the slowest part in its way, so effects do not add up and no sum is fitted. Every exchange is
held against what its peers of the same size, rail and distance reach. Those that are slow are then explained by the
fewest causes: what lies between a rack (or pod) and the rest where it is fast within, or between it and one other; a
node that is slow with nearly everybody; one rail of it alone; a node that is slow now and then, with many; what is left
are pairs. Each cause takes the exchanges it explains with it before the next is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
# A node that is slow now and then: so often at the least, with so many others, and by chance in less than one fleet of
# these.
INTERMITTENT_SHOWN, INTERMITTENT_PARTNERS = 5, 3
INTERMITTENT_CHANCE = 1e-3
# A pair stands out so far that noise makes less than one such in thousands of fleets of 232 nodes.
STRONG_SIGMAS = 5.6
# What lies between two racks is suspected by so many exchanges at the least, of which so many are slow.
LEAST_BETWEEN, SHARE_BETWEEN = 4, 0.8
# Where no rack or pod tells, so many nodes are looked at; each that is slow now and then is one in vain.
MOST_BETWEEN = 16
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
    plain = _shares(view, first, x > view.settings.cohort.smallest / 2) <= 0.5
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


def explain(view: View) -> list[Suspect]:
    """Return what explains the slow exchanges of the walk, over all channels; pairs last."""
    found: list[Suspect] = []
    by_node: dict[int, set[int]] = {}
    for at, channel in enumerate(view.channels):
        rows = view.first & ~np.isnan(channel.x)
        if channel.rail is not None:
            rows &= ~view.touching(by_node.get(channel.size, ()))
            for suspect in found:
                mate = view.channels[suspect.channel]
                same = mate.rail is None and mate.size == channel.size and mate.check != "straggler"
                if same and suspect.kind == BOUNDARY:
                    rows &= ~across(view, suspect)
        suspects = _explain(view, at, rows)
        if channel.rail is None and channel.check in ("pair_bandwidth", "pair_latency"):
            nodes = {suspect.members[0] for suspect in suspects if suspect.kind in (NODE, INTERMITTENT)}
            by_node.setdefault(channel.size, set()).update(nodes)
        found += suspects
    view.bounded = np.zeros(len(view.one), dtype=bool)
    for suspect in found:
        if suspect.kind == BOUNDARY:
            view.bounded |= across(view, suspect)
    return _without_shadows(view, found)


def _without_shadows(view: View, found: Sequence[Suspect]) -> list[Suspect]:
    """Return the suspects with several slow rails of one node taken together, and no pair of a suspected node."""
    rails: dict[tuple[int, int], list[Suspect]] = {}
    for suspect in found:
        if suspect.kind == LINK:
            rails.setdefault((suspect.members[0], view.channels[suspect.channel].size), []).append(suspect)
    whole = {key for key, links in rails.items() if len(links) > view.matrix.rails / 2}
    kept = []
    blamed = {suspect.members[0] for suspect in found if suspect.kind in (NODE, LINK, INTERMITTENT)}
    for suspect in found:
        key = (suspect.members[0], view.channels[suspect.channel].size)
        if suspect.kind == LINK and key in whole:
            worst = max(rails[key], key=lambda each: each.slowdown)
            if suspect is worst:
                kept.append(Suspect(NODE, *_rest(suspect)))
            continue
        if suspect.kind == PAIR and set(suspect.members) & blamed:
            continue
        kept.append(suspect)
    return kept


def _rest(suspect: Suspect) -> tuple[Any, ...]:
    return suspect.members, suspect.channel, suspect.slowdown, suspect.share, suspect.rows


def _explained(view: View, suspect: Suspect) -> Any:
    if suspect.kind == PAIR:
        return (view.one == suspect.members[0]) & (view.other == suspect.members[1])
    if suspect.kind == BOUNDARY:
        return across(view, suspect)
    return view.touching(suspect.members)


def across(view: View, suspect: Suspect) -> Any:
    """Return the rows of the exchanges across a boundary."""
    inside = np.zeros(len(view.matrix.nodes), dtype=bool)
    inside[list(suspect.members)] = True
    outside = ~inside
    if suspect.beyond:
        outside[:] = False
        outside[list(suspect.beyond)] = True
    return (inside[view.one] & outside[view.other]) | (outside[view.one] & inside[view.other])


def _explain(view: View, at: int, rows: Any) -> list[Suspect]:
    channel = view.channels[at]
    slow = rows & (channel.x > channel.threshold)
    if not slow.any():
        return _pairs(view, at, rows)
    found: list[Suspect] = []
    left = rows.copy()
    for level in ("pod", "rack"):
        for members, unit in _boundaries(view, level, left, slow):
            suspect = replace(_suspect(view, at, BOUNDARY, members, left), unit=unit)
            left &= ~across(view, suspect)
            found.append(suspect)
        for members, beyond, unit in _between(view, level, channel, left):
            between = Suspect(BOUNDARY, tuple(members), at, 0, 0, 0, unit=unit, beyond=tuple(beyond))
            suspect = _measured(view, between, left)
            left &= ~across(view, suspect)
            found.append(suspect)
    nodes = _peel(view, left, slow)
    apart = _undeclared(view, channel, left, nodes)
    if len(apart) > 1:
        found.append(_measured(view, _undeclared_boundary(view, at, left, apart), left))
    kind = NODE if channel.rail is None else LINK
    found += [_suspect(view, at, kind, [node], left) for node in nodes if node not in apart]
    left &= ~view.touching(nodes)
    for suspect in _undeclared_between(view, at, left):
        found.append(_measured(view, suspect, left))
        left &= ~across(view, suspect)
    sometimes = _intermittent(view, at, left)
    found += [_suspect(view, at, INTERMITTENT, [node], left) for node in sometimes]
    left &= ~view.touching(sometimes)
    return [*found, *_pairs(view, at, left)]


def _suspect(view: View, at: int, kind: str, members: Sequence[int], rows: Any) -> Suspect:
    return _measured(view, Suspect(kind, tuple(members), at, 0, 0, 0), rows)


def _measured(view: View, suspect: Suspect, rows: Any) -> Suspect:
    """Return the suspect with what these of the rows that it explains showed."""
    channel = view.channels[suspect.channel]
    if suspect.kind in (NODE, LINK, INTERMITTENT):
        mine = view.rows_of(suspect.members[0])
        values = channel.x[mine[rows[mine]]]
    else:
        values = channel.x[rows & _explained(view, suspect)]
    slowdown = float(np.median(values)) if len(values) else 0.0
    share = float((values > channel.threshold).mean()) if len(values) else 0.0
    return replace(suspect, slowdown=slowdown, share=share, rows=len(values))


def _counts(view: View, rows: Any) -> Any:
    size = len(view.matrix.nodes)
    return np.bincount(view.one[rows], minlength=size) + np.bincount(view.other[rows], minlength=size)


def _partners(view: View, rows: Any) -> Any:
    """Return by node with how many others it was in these rows."""
    size = len(view.matrix.nodes)
    keys = np.unique(view.pairs[rows])
    return np.bincount(keys // size, minlength=size) + np.bincount(keys % size, minlength=size)


def _shares(view: View, rows: Any, slow: Any) -> Any:
    """Return by node how many of its exchanges were slow, as a part of them."""
    return _counts(view, rows & slow) / np.maximum(_counts(view, rows), 1)


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


def _boundaries(view: View, level: str, rows: Any, slow: Any) -> list[tuple[list[int], str]]:
    """Return the units that are slow with everybody outside and fast within, each with its name."""
    unit = view.units[level]
    if len(view.names[level]) < 3:
        return []
    found: list[tuple[list[int], str]] = []
    left = rows & (unit[view.one] >= 0) & (unit[view.other] >= 0)
    within = left & ~view.outwards[level]
    while True:
        outwards = left & view.outwards[level]
        share, count = _shares(view, outwards, slow), _counts(view, outwards)
        best: tuple[float, int] | None = None
        # Only units of which most nodes are slow outwards can be it, so that few are looked at.
        for each in np.unique(unit[(share > 0.5) & (count > 0)]):
            hosts = np.flatnonzero((unit == each) & (count > 0))
            if each < 0 or len(hosts) < 2 or (share[hosts] > 0.5).mean() < 0.8:
                continue
            every, bad = _between_units(view, level, outwards), _between_units(view, level, outwards & slow)
            # Slow with most other units, not with most nodes, which may all be in a single large one.
            if (2 * bad[each] > every[each]).sum() <= (every[each] > 0).sum() / 2:
                continue
            mine = within & (unit[view.one] == each)
            if mine.any() and (slow & mine).sum() >= mine.sum() / 2:
                continue
            value = float(share[hosts].mean())
            if best is None or value > best[0]:
                best = (value, int(each))
        if best is None:
            return found
        hosts = np.flatnonzero((unit == best[1]) & (_counts(view, rows) > 0))
        found.append((hosts.tolist(), f"{level} {view.names[level][best[1]]}"))
        left &= (unit[view.one] != best[1]) & (unit[view.other] != best[1])


def _between_units(view: View, level: str, rows: Any) -> Any:
    """Return how many of these rows lie between every two units, as a square table."""
    count = len(view.names[level])
    table = np.bincount(view.blocks[level][rows], minlength=count * count).reshape(count, count)
    return table + table.T


def _between(view: View, level: str, channel: Channel, rows: Any) -> list[tuple[list[int], list[int], str]]:
    """Return every two units that are slow with each other and not with others: the nodes of both, and their names."""
    unit, names = view.units[level], view.names[level]
    outwards = rows & view.outwards[level]
    bad = _between_units(view, level, outwards & (channel.x > channel.threshold))
    if len(names) < 3 or bad.max() < SHARE_BETWEEN * LEAST_BETWEEN:
        return []
    every = _between_units(view, level, outwards)
    with_others, bad_with_others = every.sum(axis=1)[:, None] - every, bad.sum(axis=1)[:, None] - bad
    good = (with_others > 0) & (bad_with_others <= with_others / 2)
    slow = (every >= LEAST_BETWEEN) & (bad >= SHARE_BETWEEN * every) & good & good.T
    found: list[tuple[list[int], list[int], str]] = []
    for one, other in np.argwhere(np.triu(slow)).tolist():
        members, beyond = np.flatnonzero(unit == one).tolist(), np.flatnonzero(unit == other).tolist()
        mine = outwards & np.isin(unit[view.one], (one, other)) & np.isin(unit[view.other], (one, other))
        certain = STRONG_SIGMAS * channel.sigma / np.sqrt(every[one, other])
        if min(len(members), len(beyond)) > 1 and np.median(channel.x[mine]) > certain:
            found.append((members, beyond, f"{level}s {names[one]} and {names[other]}"))
    return found


def _peel(view: View, rows: Any, slow: Any) -> list[int]:
    """Return the nodes that are slow with most others, beginning with those that are with nearly all.

    Nodes in service are doubted only where no node under test explains as much.
    """
    left = rows.copy()
    found: list[int] = []
    while True:
        share = _shares(view, left, slow)
        top = float(share.max(initial=0))
        if top <= 0.5:
            return found
        chosen = (share > 0.5) & (share >= top - 0.1)
        if (chosen & view.members).any():
            chosen &= view.members
        nodes = np.flatnonzero(chosen).tolist()
        found += nodes
        left &= ~view.touching(nodes)


def _undeclared(view: View, channel: Channel, rows: Any, nodes: Sequence[int]) -> list[int]:
    """Return those of the slow nodes that are fast with another of them.

    What is slow in itself is slow with everybody: these lie behind a boundary that no rack or pod tells.
    """
    if len(nodes) < 2:
        return []
    size = len(view.matrix.nodes)
    chosen = np.zeros(size, dtype=bool)
    chosen[list(nodes)] = True
    mutual = rows & chosen[view.one] & chosen[view.other]
    keys, inverse = np.unique(view.pairs[mutual], return_inverse=True)
    fast = np.bincount(inverse, weights=channel.x[mutual] < channel.threshold / 2, minlength=len(keys))
    keys = keys[2 * fast >= np.bincount(inverse, minlength=len(keys))]
    apart = {*(keys // size).tolist(), *(keys % size).tolist()}
    return [node for node in nodes if node in apart]


def _undeclared_boundary(view: View, at: int, rows: Any, members: Sequence[int]) -> Suspect:
    """Return the boundary before these nodes, or between them and those with whom alone they are slow."""
    channel = view.channels[at]
    inside = np.zeros(len(view.matrix.nodes), dtype=bool)
    inside[list(members)] = True
    beyond = _slow_with(view, rows, channel.x > channel.threshold, inside)
    if not _leaves_others(view, rows, inside | beyond):
        return Suspect(BOUNDARY, tuple(members), at, 0, 0, 0, unit=f"{BEFORE} {_some(view, inside)}")
    return _two_sides(view, at, inside, beyond)


def _two_sides(view: View, at: int, inside: Any, beyond: Any) -> Suspect:
    unit = f"{_some(view, inside)} on one side and {_some(view, beyond)} on the other"
    sides = tuple(np.flatnonzero(inside).tolist()), tuple(np.flatnonzero(beyond).tolist())
    return Suspect(BOUNDARY, sides[0], at, 0, 0, 0, unit=unit, beyond=sides[1])


def _some(view: View, chosen: Any) -> str:
    names = [view.matrix.nodes[each] for each in np.flatnonzero(chosen)]
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _slow_with(view: View, rows: Any, slow: Any, chosen: Any) -> Any:
    """Return which other nodes are slow in most of their exchanges with the chosen ones."""
    share = _shares(view, rows & (chosen[view.one] ^ chosen[view.other]), slow)
    return (share > 0.5) & ~chosen


def _leaves_others(view: View, rows: Any, chosen: Any) -> bool:
    """Return whether there are enough others to tell two sides from a boundary towards everybody."""
    met = _counts(view, rows) > 0
    return bool((met & ~chosen).sum() >= max(2, 0.1 * met.sum()))


def _undeclared_between(view: View, at: int, rows: Any) -> list[Suspect]:
    """Return what lies between two sets of nodes that no rack or pod tells: slow with each other, fast with others.

    Of a node that is slow now and then no other node shares the partners; here all of one side do.
    """
    channel = view.channels[at]
    slow = channel.x > channel.threshold
    found: list[Suspect] = []
    left = rows.copy()
    for _each in range(MOST_BETWEEN):
        seeds = left & (channel.x > max(channel.threshold, 3 * channel.sigma))
        node = _most_entangled(view, seeds)
        if node is None:
            break
        mine = seeds & view.touching([node])
        beyond = np.zeros(len(view.matrix.nodes), dtype=bool)
        beyond[view.one[mine]] = beyond[view.other[mine]] = True
        beyond[node] = False
        inside = _slow_with(view, left, slow, beyond)
        beyond = _slow_with(view, left, slow, inside)
        if _are_sides(view, channel, left, (inside, beyond)):
            suspect = _two_sides(view, at, inside, beyond)
            found.append(suspect)
            left &= ~across(view, suspect)
        else:
            left &= ~view.touching([node])
    return found


def _most_entangled(view: View, rows: Any) -> int | None:
    """Return the node with most partners in these rows, where each has two that have two themselves; else None."""
    size = len(view.matrix.nodes)
    keys = np.unique(view.pairs[rows])
    while len(keys):
        one, other = keys // size, keys % size
        partners = np.bincount(one, minlength=size) + np.bincount(other, minlength=size)
        kept = (partners[one] > 1) & (partners[other] > 1)
        if kept.all():
            return int(np.argmax(partners))
        keys = keys[kept]
    return None


def _are_sides(view: View, channel: Channel, rows: Any, sides: tuple[Any, Any]) -> bool:
    """Return whether two sets of nodes are slow with each other for certain, and either fast with most others."""
    inside, beyond = sides
    if min(inside.sum(), beyond.sum()) < 2 or not _leaves_others(view, rows, inside | beyond):
        return False
    between = rows & ((inside[view.one] & beyond[view.other]) | (beyond[view.one] & inside[view.other]))
    x = channel.x[between]
    if len(x) < LEAST_BETWEEN or (x > channel.threshold).mean() < SHARE_BETWEEN:
        return False
    for side in sides:
        others = channel.x[rows & ~between & (side[view.one] ^ side[view.other])]
        if not len(others) or (others > channel.threshold).mean() > 0.5:
            return False
    return bool(np.median(x) > STRONG_SIGMAS * channel.sigma / np.sqrt(len(x)))


def _intermittent(view: View, at: int, rows: Any) -> list[int]:
    """Return the nodes that were slow more often than the rest makes likely, each time with another partner."""
    channel = view.channels[at]
    slow = rows & (channel.x > max(channel.threshold, 3 * channel.sigma))
    steady = _steady_pairs(view, channel, rows)
    rows, slow = rows & ~steady, slow & ~steady
    found: list[int] = []
    size = len(view.matrix.nodes)
    while True:
        every, bad = _counts(view, rows), _counts(view, slow)
        # The rest: exchanges in which the node took no part.
        base = (slow.sum() - bad + 0.5) / (rows.sum() - every + 1.0)
        share = bad / np.maximum(every, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = share * np.log(np.where(share > 0, share, 1) / base) + (1 - share) * np.log(
                np.where(share < 1, 1 - share, 1) / np.maximum(1 - base, 1e-9)
            )
        chance = np.exp(-every * np.where(share > base, spread, 0))
        likely = (bad >= INTERMITTENT_SHOWN) & (share > 0.1) & (chance < INTERMITTENT_CHANCE / size) & view.members
        if likely.any():
            # With one partner alone it is the pair.
            likely &= _partners(view, slow) >= np.minimum(INTERMITTENT_PARTNERS, _partners(view, rows) // 2 + 1)
        if not likely.any():
            return found
        node = int(np.argmin(np.where(likely, chance, 2.0)))
        usual = float(np.median(channel.x[rows & view.touching([node])]))
        if usual > channel.threshold / 2 + channel.sigma / 2:
            # A little slow all the time, not very slow now and then.
            rows, slow = rows & ~view.touching([node]), slow & ~view.touching([node])
            continue
        # Whoever met an intermittent node looks a little so: take the clearest first.
        found.append(node)
        mine = view.touching([node])
        rows, slow = rows & ~mine, slow & ~mine


def _pair_medians(view: View, x: Any, rows: Any, least: float) -> tuple[Any, Any, Any]:
    """Return the pairs that were ever slower than ``least`` in these rows (one number each), the lower median of each
    over its repeats, and how many these are.
    """
    keys = view.pairs[rows]
    values = x[rows]
    slow = values > least
    if not view.repeated:
        return keys[slow], values[slow], np.ones(int(slow.sum()), dtype=np.int64)
    chosen = np.isin(keys, keys[slow])
    keys, inverse = np.unique(keys[chosen], return_inverse=True)
    values = values[chosen]
    counts = np.bincount(inverse, minlength=len(keys))
    order = np.lexsort((values, inverse))
    starts = np.cumsum(counts) - counts
    return keys, values[order][starts + (counts - 1) // 2], counts


def _steady_pairs(view: View, channel: Channel, rows: Any) -> Any:
    """Return the rows of pairs that were measured several times and nearly always slow: no matter of chance."""
    if not view.repeated:
        return np.zeros(len(rows), dtype=bool)
    keys, inverse = np.unique(view.pairs[rows], return_inverse=True)
    slow = np.bincount(inverse, weights=channel.x[rows] > channel.threshold, minlength=len(keys))
    counts = np.bincount(inverse, minlength=len(keys))
    return rows & np.isin(view.pairs, keys[(counts >= 3) & (slow >= SHARE_BETWEEN * counts)])


def _pairs(view: View, at: int, rows: Any) -> list[Suspect]:
    """Return the slow pairs of what nothing else explains, worst first."""
    channel, cohort = view.channels[at], view.settings.cohort
    if channel.check == "straggler" or not rows.any():
        return []
    # A single exchange has all its noise: look lower where there is more, so that what must be found is asked again.
    floor = max(min(channel.threshold, cohort.smallest - 2.5 * channel.sigma), 1.5 * channel.sigma)
    if channel.rail is not None:
        floor = max(channel.threshold, 4 * channel.sigma)
    if channel.limit:
        floor = channel.threshold
    keys, medians, counts = _pair_medians(view, channel.x, rows, min(floor, channel.threshold))
    least = np.where(counts >= 3, channel.threshold, floor)
    found = np.flatnonzero(medians > least)
    found = found[np.argsort(-medians[found], kind="stable")]
    size = len(view.matrix.nodes)
    sure = STRONG_SIGMAS * channel.sigma / np.sqrt(counts)
    # One wild measurement of one rank is not certain, however wild.
    robust = channel.rail is None and view.matrix.rails > 2
    return [
        Suspect(
            PAIR,
            (int(keys[each]) // size, int(keys[each]) % size),
            at,
            float(medians[each]),
            1.0,
            int(counts[each]),
            bool(medians[each] > max(sure[each], channel.threshold) and (robust or counts[each] > 2)),
        )
        for each in found
    ]
