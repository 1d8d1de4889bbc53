"""What lies between many nodes and many others: before a rack or pod, between two, or where nothing declared tells.

Nobody is convicted for it: who is slow only through it is fast with others on its own side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.view import (
    BEFORE,
    BOUNDARY,
    STRONG_SIGMAS,
    Channel,
    Suspect,
    View,
    across,
    rows_by_node,
    slow_shares,
)

# What lies between two racks is suspected by so many exchanges at the least, of which so many are slow.
LEAST_BETWEEN, SHARE_BETWEEN = 4, 0.8
# Where no rack or pod tells, so many nodes are looked at; each that is slow now and then is one in vain.
MOST_BETWEEN = 16


def boundaries(view: View, level: str, rows: Any, slow: Any) -> list[tuple[list[int], str]]:
    """Return the units that are slow with everybody outside and fast within, each with its name."""
    unit = view.units[level]
    if len(view.names[level]) < 3:
        return []
    found: list[tuple[list[int], str]] = []
    left = rows & (unit[view.one] >= 0) & (unit[view.other] >= 0)
    within = left & ~view.outwards[level]
    while True:
        outwards = left & view.outwards[level]
        share, count = slow_shares(view, outwards, slow), rows_by_node(view, outwards)
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
        hosts = np.flatnonzero((unit == best[1]) & (rows_by_node(view, rows) > 0))
        found.append((hosts.tolist(), f"{level} {view.names[level][best[1]]}"))
        left &= (unit[view.one] != best[1]) & (unit[view.other] != best[1])


def _between_units(view: View, level: str, rows: Any) -> Any:
    """Return how many of these rows lie between every two units, as a square table."""
    count = len(view.names[level])
    table = np.bincount(view.blocks[level][rows], minlength=count * count).reshape(count, count)
    return table + table.T


def between_two(view: View, level: str, channel: Channel, rows: Any) -> list[tuple[list[int], list[int], str]]:
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


def undeclared(view: View, channel: Channel, rows: Any, nodes: Sequence[int]) -> list[int]:
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


def undeclared_boundary(view: View, at: int, rows: Any, members: Sequence[int]) -> Suspect:
    """Return the boundary before these nodes, or between them and those with whom alone they are slow."""
    channel = view.channels[at]
    inside = np.zeros(len(view.matrix.nodes), dtype=bool)
    inside[list(members)] = True
    beyond = _slow_with(view, rows, channel.x > channel.threshold, inside)
    if not _leaves_others(view, rows, inside | beyond):
        return Suspect(BOUNDARY, tuple(members), at, 0, 0, 0, unit=f"{BEFORE} {_some(view, inside)}")
    return _two_sides(view, at, inside, beyond)


def undeclared_between(view: View, at: int, rows: Any) -> list[Suspect]:
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


def _two_sides(view: View, at: int, inside: Any, beyond: Any) -> Suspect:
    unit = f"{_some(view, inside)} on one side and {_some(view, beyond)} on the other"
    sides = tuple(np.flatnonzero(inside).tolist()), tuple(np.flatnonzero(beyond).tolist())
    return Suspect(BOUNDARY, sides[0], at, 0, 0, 0, unit=unit, beyond=sides[1])


def _some(view: View, chosen: Any) -> str:
    names = [view.matrix.nodes[each] for each in np.flatnonzero(chosen)]
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _slow_with(view: View, rows: Any, slow: Any, chosen: Any) -> Any:
    """Return which other nodes are slow in most of their exchanges with the chosen ones."""
    share = slow_shares(view, rows & (chosen[view.one] ^ chosen[view.other]), slow)
    return (share > 0.5) & ~chosen


def _leaves_others(view: View, rows: Any, chosen: Any) -> bool:
    """Return whether there are enough others to tell two sides from a boundary towards everybody."""
    met = rows_by_node(view, rows) > 0
    return bool((met & ~chosen).sum() >= max(2, 0.1 * met.sum()))


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
