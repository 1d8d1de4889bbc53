"""What lies between many nodes and many others: before a rack or pod, between two, or where nothing declared tells.

Nobody is confirmed bad for it: who is slow only through it is fast with others on its own side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BEFORE,
    BOUNDARY,
    STRONG_SIGMAS,
    Channel,
    Rows,
    Suspect,
    Sweep,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.typical_nodes import some_of

# What lies between two racks is suspected by so many exchanges at the least, of which so many are slow.
LEAST_BETWEEN, SHARE_BETWEEN = 4, 0.8
# Where no rack or pod tells, so many nodes are looked at; each that is slow now and then is one in vain.
MOST_BETWEEN = 16


def boundaries(level: str, rows: Rows, slow: Any) -> list[tuple[list[int], str]]:
    """Return the units that are slow with everybody outside and fast within, each with its name.

    The worst first; what lies before it is then left out for the others. ``slow`` are the numbers of the slow rows.
    """
    sweep, unit = rows.sweep, rows.sweep.topology.units[level]
    names, outwards = sweep.topology.names[level], rows.outwards(level)
    late = outwards.of(slow)
    every, bad = outwards.by_node, sweep.exchanges.of_nodes(late)
    if len(sweep.units_met[level]) < 3 or not (2 * bad > every).any():
        return []
    inside = _mostly_slow_inside(level, rows, slow)
    if inside.any():
        # What is slow in itself is slow with everybody: nothing shows there what lies before others.
        outwards = outwards.without(sweep.exchanges.touching(np.flatnonzero(inside[unit] & (unit >= 0))))
        late = outwards.of(slow)
        every, bad = outwards.by_node, sweep.exchanges.of_nodes(late)
    between = _BetweenUnits(level, outwards, late)
    every, bad = every.copy(), bad.copy()
    there, is_slow = outwards.mask.copy(), np.zeros(len(outwards.mask), dtype=bool)
    is_slow[late] = True
    found: list[tuple[list[int], str]] = []
    taken: set[int] = set()
    hosts = [np.flatnonzero(unit == each) for each in range(len(names))]
    while True:
        share, met = bad / np.maximum(every, 1), (every > 0) & (unit >= 0)
        several = np.bincount(unit[met], minlength=len(names))
        mostly = np.bincount(unit[met & (share > 0.5)], minlength=len(names))
        # Only units of which most nodes are slow outwards can be it, with most other units: not with most nodes, which
        # may all be in a single large one.
        likely = (several > 1) & (mostly / np.maximum(several, 1) >= 0.8) & between.slow_with_most() & ~inside
        if not likely.any():
            # Where all but one are slow outwards, the last is slow with everybody as well.
            left = sorted(set(sweep.units_met[level]) - taken)
            found += [_named(level, rows, hosts, each) for each in left if found and len(left) == 1]
            return found
        shares = np.bincount(unit[met], weights=share[met], minlength=len(names)) / np.maximum(several, 1)
        best = int(np.argmax(np.where(likely, shares, -1)))
        found.append(_named(level, rows, hosts, best))
        taken.add(best)
        gone = np.concatenate([sweep.exchanges.rows_of(node) for node in hosts[best].tolist()])
        gone = gone[there[gone]]
        there[gone] = False
        every -= sweep.exchanges.of_nodes(gone)
        bad -= sweep.exchanges.of_nodes(gone[is_slow[gone]])
        between.leave_out(best)


def _named(level: str, rows: Rows, hosts: Sequence[Any], unit: int) -> tuple[list[int], str]:
    """Return those of a unit that were measured, and its name."""
    members = hosts[unit][rows.by_node[hosts[unit]] > 0].tolist()
    return members, f"{level} {rows.sweep.topology.names[level][unit]}"


class _BetweenUnits:
    """With how many others each unit met, and was mostly slow, as what lies before one after the other is left out."""

    def __init__(self, level: str, outwards: Rows, slow: Any) -> None:
        every = _between_units(outwards.sweep, level, outwards.mask)
        self.met, self.slow = every > 0, 2 * _between_units(outwards.sweep, level, slow) > every
        self.counts = self.met.sum(axis=1), self.slow.sum(axis=1)

    def slow_with_most(self) -> Any:
        """Return by unit whether it is slow with most of the units that it met."""
        met, slow = self.counts
        return 2 * slow > met

    def leave_out(self, unit: int) -> None:
        for table, by_unit in zip((self.met, self.slow), self.counts, strict=True):
            np.subtract(by_unit, table[:, unit], out=by_unit)
            table[unit, :] = table[:, unit] = False
            by_unit[unit] = 0


def _between_units(sweep: Sweep, level: str, rows: Any) -> Any:
    count = len(sweep.topology.names[level])
    table = np.bincount(sweep.blocks[level][rows], minlength=count * count).reshape(count, count)
    return table + table.T


def _mostly_slow_inside(level: str, rows: Rows, slow: Any) -> Any:
    """Return by unit whether half of the exchanges within it are slow."""
    sweep, unit = rows.sweep, rows.sweep.topology.units[level]
    count = len(sweep.topology.names[level])
    one, other = unit[sweep.exchanges.one], unit[sweep.exchanges.other]
    within = rows.mask & (one == other) & (one >= 0)
    every = np.bincount(one[within], minlength=count)
    return (every > 0) & (np.bincount(one[slow[within[slow]]], minlength=count) >= every / 2)


def between_two(level: str, at: int, rows: Rows, slow: Any) -> tuple[list[Suspect], Any]:
    """Return every two units that are slow with each other and not with others, and the rows between them."""
    sweep, channel = rows.sweep, rows.sweep.channels[at]
    unit, names = sweep.topology.units[level], sweep.topology.names[level]
    outwards = rows.outwards(level)
    late = outwards.of(slow)
    if len(sweep.units_met[level]) < 3 or len(late) < SHARE_BETWEEN * LEAST_BETWEEN:
        return [], late[:0]
    bad = _between_units(sweep, level, late)
    if bad.max() < SHARE_BETWEEN * LEAST_BETWEEN:
        return [], late[:0]
    every = _between_units(sweep, level, outwards.mask)
    with_others, bad_with_others = every.sum(axis=1)[:, None] - every, bad.sum(axis=1)[:, None] - bad
    good = (with_others > 0) & (bad_with_others <= with_others / 2)
    # A single node beside another unit is no unit.
    several = np.bincount(unit[unit >= 0], minlength=len(names)) > 1
    tell = np.triu(
        (every >= LEAST_BETWEEN) & (bad >= SHARE_BETWEEN * every) & good & good.T & several & several[:, None]
    )
    explained = np.flatnonzero(outwards.mask & tell.reshape(-1)[np.where(outwards.mask, sweep.blocks[level], 0)])
    blocks, x = sweep.blocks[level][explained], channel.x[explained]
    ordered, ends = x[np.lexsort((x, blocks))], np.cumsum(every[tell])
    counts = every[tell]
    medians = (ordered[ends - counts + (counts - 1) // 2] + ordered[ends - counts + counts // 2]) / 2
    certain = medians > STRONG_SIGMAS * channel.sigma / np.sqrt(counts)
    hosts = [tuple(np.flatnonzero(unit == each).tolist()) for each in range(len(names))] if certain.any() else []
    found = []
    for (one, other), slowdown in zip(np.argwhere(tell)[certain].tolist(), medians[certain].tolist(), strict=True):
        share, count = float(bad[one, other] / every[one, other]), int(every[one, other])
        text = f"{level}s {names[one]} and {names[other]}"
        found.append(Suspect(BOUNDARY, hosts[one], at, slowdown, share, count, unit=text, beyond=hosts[other]))
    tell[tell] = certain
    return found, explained[tell.reshape(-1)[blocks]]


def undeclared(channel: Channel, rows: Rows, nodes: Sequence[int]) -> list[int]:
    """Return those of the slow nodes that are fast with another of them.

    What is slow in itself is slow with everybody: these lie behind a boundary that no rack or pod tells.
    """
    if len(nodes) < 2:
        return []
    exchanges = rows.sweep.exchanges
    size = exchanges.count
    chosen = np.zeros(size, dtype=bool)
    chosen[list(nodes)] = True
    mutual = rows.mask & chosen[exchanges.one] & chosen[exchanges.other]
    keys, inverse = np.unique(exchanges.pairs[mutual], return_inverse=True)
    fast = np.bincount(inverse, weights=channel.x[mutual] < channel.threshold / 2, minlength=len(keys))
    keys = keys[2 * fast >= np.bincount(inverse, minlength=len(keys))]
    apart = {*(keys // size).tolist(), *(keys % size).tolist()}
    return [node for node in nodes if node in apart]


def undeclared_boundary(at: int, rows: Rows, slow: Any, members: Sequence[int], names: Sequence[str]) -> Suspect:
    """Return the boundary before these nodes, or between them and those with whom alone they are slow."""
    inside = np.zeros(rows.sweep.exchanges.count, dtype=bool)
    inside[list(members)] = True
    beyond = _slow_with(rows, slow, inside)
    if not _leaves_others(rows, inside | beyond):
        return Suspect(BOUNDARY, tuple(members), at, 0, 0, 0, unit=f"{BEFORE} {some_of(names, inside)}")
    return _two_sides(names, at, inside, beyond)


def undeclared_between(at: int, channel: Channel, rows: Rows, slow: Any, names: Sequence[str]) -> list[Suspect]:
    """Return what lies between two sets of nodes that no rack or pod tells: slow with each other, fast with others.

    Of a node that is slow now and then no other node shares the partners; here all of one side do.
    """
    exchanges = rows.sweep.exchanges
    found: list[Suspect] = []
    left = rows
    clear = slow[channel.x[slow] > channel.beyond_noise]
    for _each in range(MOST_BETWEEN):
        seeds = left.of(clear)
        node = _most_entangled(rows.sweep, seeds)
        if node is None:
            break
        mine = seeds[(exchanges.one[seeds] == node) | (exchanges.other[seeds] == node)]
        beyond = np.zeros(exchanges.count, dtype=bool)
        beyond[exchanges.one[mine]] = beyond[exchanges.other[mine]] = True
        beyond[node] = False
        inside = _slow_with(left, slow, beyond)
        beyond = _slow_with(left, slow, inside)
        if _are_sides(channel, left, (inside, beyond)):
            suspect = _two_sides(names, at, inside, beyond)
            found.append(suspect)
            left = left.without(exchanges.across(suspect.members, suspect.beyond))
        else:
            left = left.without(exchanges.rows_of(node))
    return found


def _two_sides(names: Sequence[str], at: int, inside: Any, beyond: Any) -> Suspect:
    unit = f"{some_of(names, inside)} on one side and {some_of(names, beyond)} on the other"
    sides = tuple(np.flatnonzero(inside).tolist()), tuple(np.flatnonzero(beyond).tolist())
    return Suspect(BOUNDARY, sides[0], at, 0, 0, 0, unit=unit, beyond=sides[1])


def _slow_with(rows: Rows, slow: Any, chosen: Any) -> Any:
    """Return which other nodes are slow in most of their exchanges with the chosen ones."""
    exchanges = rows.sweep.exchanges
    with_them = Rows(rows.sweep, rows.mask & (chosen[exchanges.one] ^ chosen[exchanges.other]))
    return (with_them.slow_shares(slow) > 0.5) & ~chosen


def _leaves_others(rows: Rows, chosen: Any) -> bool:
    """Return whether there are enough others to tell two sides from a boundary towards everybody."""
    met = rows.by_node > 0
    return bool((met & ~chosen).sum() >= max(2, 0.1 * met.sum()))


def _most_entangled(sweep: Sweep, rows: Any) -> int | None:
    """Return the node with most partners in these rows, where each has two that have two themselves; else None."""
    size = sweep.exchanges.count
    keys = np.unique(sweep.exchanges.pairs[rows])
    while len(keys):
        one, other = keys // size, keys % size
        partners = np.bincount(one, minlength=size) + np.bincount(other, minlength=size)
        kept = (partners[one] > 1) & (partners[other] > 1)
        if kept.all():
            return int(np.argmax(partners))
        keys = keys[kept]
    return None


def _are_sides(channel: Channel, rows: Rows, sides: tuple[Any, Any]) -> bool:
    """Return whether two sets of nodes are slow with each other for certain, and either fast with most others."""
    inside, beyond = sides
    one, other = rows.sweep.exchanges.one, rows.sweep.exchanges.other
    if min(inside.sum(), beyond.sum()) < 2 or not _leaves_others(rows, inside | beyond):
        return False
    between = rows.mask & ((inside[one] & beyond[other]) | (beyond[one] & inside[other]))
    x = channel.x[between]
    if len(x) < LEAST_BETWEEN or (x > channel.threshold).mean() < SHARE_BETWEEN:
        return False
    for side in sides:
        others = channel.x[rows.mask & ~between & (side[one] ^ side[other])]
        if not len(others) or (others > channel.threshold).mean() > 0.5:
            return False
    return bool(np.median(x) > STRONG_SIGMAS * channel.sigma / np.sqrt(len(x)))
