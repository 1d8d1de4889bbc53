"""Which nodes tell what is usual: the better half of all, and whoever is as good as that.

A pair is as slow as the slower of its two nodes. With 30 % bad nodes more than half of all pairs are slow, and a median
over pairs calls that usual. Here a node counts by the better quarter of its exchanges. A good node has these with good
nodes as long as there are some: that holds up to half of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Exchanges

# Up to this part of exchanges that are not as expected moves no median by more than a tenth of the noise.
ALIKE = 0.05
# Of a single exchange nothing tells whose doing it is.
LEAST_MET = 2
# Nodes lie in sets of their own if so many of all exchanges are slower than the best quarter of them.
PARTED = 0.3
# What a few nodes show, so many of all, may be chance.
FEW = 0.1
# Two sets are a boundary between them, three are racks or pods that nobody declared: more need no finding.
MOST_SETS = 3
# So often those who belong to a set are asked again who does.
TURNS = 5


class Met:
    """By distance which exchanges each node took part in, as tables; the distance of most exchanges is first."""

    def __init__(self, exchanges: Exchanges, distances: Any) -> None:
        self.exchanges = exchanges
        counts = np.bincount(distances)
        kinds = [kind for kind in np.argsort(-counts, kind="stable").tolist() if counts[kind]]
        self._places = [self._of(np.flatnonzero(distances == kind)) for kind in kinds]

    def _of(self, rows: Any) -> tuple[Any, Any]:
        """Return the nodes that met anybody in these rows, and a line of rows for each, filled up with one too high."""
        exchanges = self.exchanges
        both = np.concatenate([exchanges.one[rows], exchanges.other[rows]])
        # Numbers of 16 bits are sorted by their digits, in a fiftieth of the time.
        order = np.argsort(both.astype(np.int16) if exchanges.count < 2**15 else both, kind="stable")
        met = np.bincount(both, minlength=exchanges.count)
        places = np.full((exchanges.count, int(met.max())), len(exchanges.one))
        column = np.arange(len(both)) - np.repeat(np.cumsum(met) - met, met)
        places[both[order], column] = rows[order % len(rows)]
        nodes = np.flatnonzero(met >= LEAST_MET)
        return nodes, places[nodes]

    def typical(self, speeds: Any, less: float, among: Any = None) -> Any:
        """Return by node whether it is as good as the better half, less this part, at every distance.

        ``speeds`` are by row, NaN where nothing was measured. Only nodes ``among`` these are looked at.
        """
        chosen = np.ones(self.exchanges.count, dtype=bool) if among is None else among.copy()
        padded = np.append(np.where(np.isnan(speeds), -np.inf, speeds), -np.inf)
        for nodes, places in self._places:
            kept = chosen[nodes]
            table = padded.take(places[kept])
            table.sort(axis=1)
            known = (table > -np.inf).sum(axis=1)
            better = table[np.arange(len(table)), table.shape[1] - 1 - known // 4]
            judged = known >= LEAST_MET
            if judged.any():
                # With as many bad nodes as good ones it is the better of both that counts.
                best = np.sort(better[judged])[int(judged.sum()) // 2]
                chosen[nodes[kept][judged & (better < best * (1 - less))]] = False
        return chosen


def are_alike(distances: Any, speeds: Any, expected: Any, less: float) -> bool:
    """Return whether nearly all exchanges are as expected at each distance: then it does not matter who tells."""
    off = np.flatnonzero(np.abs(speeds / expected - 1) > less / 2)
    every = np.bincount(distances)
    return bool((np.bincount(distances[off], minlength=len(every)) <= ALIKE * every).all())


def sets_apart(exchanges: Exchanges, rows: Any, speeds: Any, less: float) -> list[Any]:
    """Return sets of nodes that are fast with each other and slow with others, by node; none if there are no such sets.

    ``rows`` (a mask) are the exchanges that are looked at, ``less`` is by what part slow ones are slower.
    """
    values = speeds[rows]
    if not len(values):
        return []
    best = float(np.partition(values, 3 * len(values) // 4)[3 * len(values) // 4])
    if (values < best * (1 - less)).mean() < PARTED:
        return []
    one, other = exchanges.one[rows], exchanges.other[rows]
    fast = values >= best * (1 - less / 2)
    there = np.bincount(np.concatenate([one, other]), minlength=exchanges.count) > 0
    close = _Close(one, other, fast)
    left = there.copy()
    found: list[Any] = []
    while left.any() and len(found) < MOST_SETS:
        inside = close.to_the_closest(left)
        if inside.sum() < 2:
            break
        found.append(inside)
        left &= ~inside
    if len(found) < 2:
        return []
    # Who is fast with two sets belongs to neither: something lies between these two, and the rest shows it.
    near = np.array([close.to(each) for each in found]).sum(axis=0)
    return found if (near > 1).sum() < max(2, FEW * there.sum()) else []


class _Close:
    """Who is fast with whom: by exchange both nodes, and whether it was fast."""

    def __init__(self, one: Any, other: Any, fast: Any) -> None:
        self.sides, self.fast = ((one, other), (other, one)), fast

    def to(self, chosen: Any) -> Any:
        """Return by node whether it is fast with most of the chosen ones that it met; with itself it is."""
        size = len(chosen)
        every, fast = (
            sum(np.bincount(mine[rows], chosen[mate[rows]], size) for mine, mate in self.sides) + chosen
            for rows in (slice(None), self.fast)
        )
        return 2 * fast > every

    def to_the_closest(self, left: Any) -> Any:
        """Return by node whether it is in the set of the one that is fast with most of those left."""
        one, other = self.sides[0]
        among = self.fast & left[one] & left[other]
        counts = np.bincount(np.concatenate([one[among], other[among]]), minlength=len(left))
        inside = np.zeros(len(left), dtype=bool)
        if counts.any():
            inside[int(np.argmax(counts))] = True
        # Of a few permutations hardly anybody met the first one: those that did find the rest.
        for _each in range(TURNS):
            before, inside = inside, left & self.to(inside)
            if (before == inside).all():
                break
        return inside


def some_of(nodes: Sequence[str], chosen: Any) -> str:
    """Return in words which nodes are chosen: the first two, and how many more."""
    names = [nodes[each] for each in np.flatnonzero(chosen).tolist()]
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
