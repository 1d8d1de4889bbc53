"""What slows exchanges down: a group's boundary, a node, one rail of it, or one pair; fewest causes first.

An exchange is as fast as the slowest part in its way, so effects do not add up and no sum is fitted. Every exchange is
held against what its peers of the same size, rail and distance reach. Those that are slow are then explained by the
fewest causes: what lies between a rack (or pod) and the rest where it is fast within, or between it and one other; a
node that is slow with nearly everybody; one rail of it alone; a node that is slow now and then, with many; what is left
are pairs. Each cause takes the exchanges it explains with it before the next is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.boundaries import (
    SHARE_BETWEEN,
    between_two,
    boundaries,
    undeclared,
    undeclared_between,
    undeclared_boundary,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BOUNDARY,
    INTERMITTENT,
    LINK,
    NODE,
    PAIR,
    STRONG_SIGMAS,
    Rows,
    Suspect,
    Sweep,
    partners_by_node,
)

# A node that is slow now and then, or with some: with so many others at the least, and by chance in less than one fleet
# of these.
INTERMITTENT_PARTNERS, INTERMITTENT_CHANCE = 3, 1e-3
# From this share of slow exchanges on it is not a few nodes that make them: a fifth of all, slow in 30 %, make 11 %.
OFTEN = 0.08
# Pairs that are slow each of so many times, with so many others: no chance, they have a node in common.
STEADY = ((3, 2), (2, 3))
# Two sides of a boundary are slow with each other: who is so with more than this part of the others is so by itself.
BY_ITSELF = 0.2


def explain(sweep: Sweep, names: Sequence[str]) -> tuple[Suspect, ...]:
    """Return what explains the slow exchanges of a sweep between nodes of these names, over all channels; pairs last.

    No pair of a suspected node is: behind slow racks nearly all pairs are slow in every channel.
    """
    found: list[Suspect] = []
    explained: list[_Explained] = []
    chosen: dict[int, Rows] = {}
    for at, channel in enumerate(sweep.channels):
        rows = sweep.measured(channel)
        if channel.rail is not None:
            if channel.size not in chosen or sweep.complete is None:
                by_all_rails = _explained_by_all_rails(sweep, channel.size, found)
                chosen[channel.size] = rows.without(by_all_rails) if by_all_rails.any() else rows
            rows = chosen[channel.size]
        explained.append(_Explained(sweep, at, rows, names))
        found += explained[-1].suspects()
    blamed = [each.members[0] for each in found if each.kind in (NODE, LINK, INTERMITTENT)]
    theirs = sweep.exchanges.touching(blamed)
    return (*_with_rails_together(sweep, found), *(pair for each in explained for pair in each.pairs(theirs)))


def _explained_by_all_rails(sweep: Sweep, size: int, found: Sequence[Suspect]) -> Any:
    """Return the rows that need no slow rail to explain them: whatever is slow there is so on all rails together."""
    exchanges = sweep.exchanges
    rows = np.zeros(len(exchanges.one), dtype=bool)
    for suspect in found:
        channel = sweep.channels[suspect.channel]
        if channel.rail is not None or channel.size != size or channel.check == "straggler":
            continue
        if suspect.kind == BOUNDARY:
            rows[exchanges.across(suspect.members, suspect.beyond)] = True
        elif suspect.kind in (NODE, INTERMITTENT):
            rows[exchanges.rows_of(suspect.members[0])] = True
    return rows


def _with_rails_together(sweep: Sweep, found: Sequence[Suspect]) -> list[Suspect]:
    """Return the suspects with several slow rails of one node taken together."""
    rails: dict[tuple[int, int], list[Suspect]] = {}
    for suspect in found:
        if suspect.kind == LINK:
            rails.setdefault((suspect.members[0], sweep.channels[suspect.channel].size), []).append(suspect)
    whole = {key for key, links in rails.items() if len(links) > sweep.exchanges.gb.shape[2] / 2}
    kept = []
    for suspect in found:
        key = suspect.members[0], sweep.channels[suspect.channel].size
        if suspect.kind == LINK and key in whole:
            worst = max(rails[key], key=lambda each: each.slowdown)
            if suspect is worst:
                kept.append(suspect._replace(kind=NODE))
            continue
        kept.append(suspect)
    return kept


class _Explained:
    """What explains the slow rows of one channel."""

    def __init__(self, sweep: Sweep, at: int, rows: Rows, names: Sequence[str]) -> None:
        self.sweep, self.exchanges, self.names = sweep, sweep.exchanges, names
        self.at, self.channel = at, sweep.channels[at]
        self.left = rows
        self.slow = rows.of(np.flatnonzero(self.channel.x > self.channel.threshold))
        self.found: list[Suspect] = []

    def suspects(self) -> list[Suspect]:
        """Return all suspects but pairs; each takes what it explains with it before the next is looked for."""
        if len(self.slow):
            for level in ("pod", "rack"):
                self._boundaries(level)
            self._nodes()
            for suspect in undeclared_between(self.at, self.channel, self.left, self.slow, self.names):
                self._take(suspect)
            for node, partners, strong in self._intermittent():
                self._add(Suspect(INTERMITTENT, (node,), self.at, 0, 0, 0, strong, partners=partners))
            for suspect in self.found:
                if suspect.kind == INTERMITTENT:
                    self.left = self.left.without(self.exchanges.rows_of(suspect.members[0]))
        return self.found

    def _add(self, suspect: Suspect) -> None:
        """Add a suspect with what those of the rows left that it explains showed."""
        if suspect.kind == BOUNDARY:
            rows = self.exchanges.across(suspect.members, suspect.beyond)
        else:
            rows = self.exchanges.rows_of(suspect.members[0])
        values = self.channel.x[self.left.of(rows)]
        slowdown = float(np.median(values)) if len(values) else 0.0
        share = float((values > self.channel.threshold).mean()) if len(values) else 0.0
        self.found.append(suspect._replace(slowdown=slowdown, share=share, rows=len(values)))

    def _take(self, boundary: Suspect) -> None:
        self._add(boundary)
        self.left = self.left.without(self.exchanges.across(boundary.members, boundary.beyond))

    def _boundaries(self, level: str) -> None:
        for members, unit in boundaries(level, self.left, self.slow):
            self._take(Suspect(BOUNDARY, tuple(members), self.at, 0, 0, 0, unit=unit))
        between, rows = between_two(level, self.at, self.left, self.slow)
        if between:
            self.found += between
            self.left = self.left.without(rows)

    def _nodes(self) -> None:
        nodes = self._peel()
        apart = undeclared(self.channel, self.left, nodes)
        if len(apart) > 1:
            boundary = undeclared_boundary(self.at, self.left, self.slow, apart, self.names)
            if self._slow_by_themselves(boundary):
                apart = []
            else:
                self._add(boundary)
        kind = NODE if self.channel.rail is None else LINK
        for node in nodes:
            if node not in apart:
                self._add(Suspect(kind, (node,), self.at, 0, 0, 0))
        if nodes:
            self.left = self.left.without(self.exchanges.touching(nodes))

    def _slow_by_themselves(self, boundary: Suspect) -> bool:
        """Return whether those on one side are slow with others as well: each is slow with many, by chance the same."""
        if not boundary.beyond:
            return False
        rows = self.left.of(self.exchanges.across(boundary.members))
        rows = rows[~self.exchanges.touching(boundary.beyond)[rows]]
        return bool(len(rows)) and float((self.channel.x[rows] > self.channel.threshold).mean()) > BY_ITSELF

    def _peel(self) -> list[int]:
        """Return the nodes that are slow with most others, beginning with those that are with nearly all.

        Nodes in service are doubted only where no node under test explains as much.
        """
        left = self.left
        found: list[int] = []
        while True:
            share = left.slow_shares(self.slow)
            top = float(share.max(initial=0))
            if top <= 0.5:
                return found
            chosen = (share > 0.5) & (share >= top - 0.1)
            if (chosen & self.sweep.members).any():
                chosen &= self.sweep.members
            nodes = np.flatnonzero(chosen).tolist()
            found += nodes
            left = left.without(self.exchanges.touching(nodes))

    def _intermittent(self) -> list[tuple[int, tuple[int, ...], bool]]:
        """Return the nodes that were slow more often than the rest makes likely, with whom, and whether for certain.

        It is certain where even all slow exchanges, dealt out by chance, would not give it so many. Pairs that are slow
        each time are no matter of chance.
        """
        sweep, channel, exchanges = self.sweep, self.channel, self.exchanges
        clear = self.left.of(self.slow)
        clear = clear[channel.x[clear] > channel.beyond_noise]
        if exchanges.of_nodes(clear).max(initial=0) < INTERMITTENT_PARTNERS:
            return []
        found = [each for least, needed in STEADY for each in self._hubs(least, needed)] if sweep.repeated else []
        rows = self.left.mask & ~self._steady_pairs() & ~exchanges.touching([node for node, *_others in found])
        slow = np.zeros(len(rows), dtype=bool)
        slow[clear] = True
        slow &= rows
        # Of a single rail there are so many channels in which somebody may stand out.
        most = INTERMITTENT_CHANCE / exchanges.count / (1 if channel.rail is None else exchanges.gb.shape[2])
        others = partners_by_node(sweep, rows) // 2 + 1
        many = slow.sum() > OFTEN * rows.sum()
        while True:
            every, bad = exchanges.of_nodes(rows), exchanges.of_nodes(slow)
            # The rest: exchanges in which the node took no part.
            base = (slow.sum() - bad + 0.5) / (rows.sum() - every + 1.0)
            share = bad / np.maximum(every, 1)
            if many:
                # The better half tells how often those are slow that are not so by themselves.
                better = share <= np.median(share[every > 0])
                among = rows & better[exchanges.one] & better[exchanges.other]
                base = np.minimum(base, (slow[among].sum() + 0.5) / (among.sum() + 1.0))
            chance = _chance_at_most(every, share, base)
            likely = (chance < most) & sweep.members
            if likely.any():
                # With one partner alone it is the pair.
                likely &= partners_by_node(sweep, slow) >= np.minimum(INTERMITTENT_PARTNERS, others)
            if not likely.any():
                return found
            node = int(np.argmin(np.where(likely, chance, 2.0)))
            mine = exchanges.rows_of(node)
            usual = float(np.median(channel.x[mine[rows[mine]]]))
            # A little slow all the time is not very slow now and then. Whoever met an intermittent node looks a little
            # so: take the clearest first.
            if usual <= channel.threshold / 2 + channel.sigma / 2:
                total = slow.sum()
                dealt = _chance_at_most(total, bad[node] / total, every[node] / rows.sum())
                found.append((node, self._partners(node, mine[slow[mine]]), bool(dealt < most)))
            rows[mine] = slow[mine] = False

    def _hubs(self, least: int, needed: int) -> list[tuple[int, tuple[int, ...], bool]]:
        """Return the nodes that several pairs have in common which are slow each time, with whom, and that it is so."""
        found: list[tuple[int, tuple[int, ...], bool]] = []
        left = np.flatnonzero(self._steady_pairs(least))
        while len(left):
            partners = np.where(self.sweep.members, partners_by_node(self.sweep, left), 0)
            node = int(np.argmax(partners))
            if partners[node] < needed:
                break
            mine = (self.exchanges.one[left] == node) | (self.exchanges.other[left] == node)
            found.append((node, self._partners(node, left[mine]), True))
            left = left[~mine]
        return found

    def _partners(self, node: int, rows: Any) -> tuple[int, ...]:
        return tuple(np.unique(self.exchanges.one[rows] + self.exchanges.other[rows] - node).tolist())

    def _steady_pairs(self, least: int = 3) -> Any:
        """Return the rows of pairs that were measured several times and nearly always slow: no matter of chance."""
        rows, pairs = self.left.mask, self.exchanges.pairs
        if not self.sweep.repeated:
            return np.zeros(len(rows), dtype=bool)
        keys, inverse = np.unique(pairs[rows], return_inverse=True)
        slow = np.bincount(inverse, weights=self.channel.x[rows] > self.channel.threshold, minlength=len(keys))
        counts = np.bincount(inverse, minlength=len(keys))
        return rows & np.isin(pairs, keys[(counts >= least) & (slow >= SHARE_BETWEEN * counts)])

    def _pair_medians(self, rows: Rows, least: float) -> tuple[Any, Any, Any]:
        """Return the pairs that were ever slower than ``least`` in these rows (one number each), the lower median of
        each over its repeats, and how many these are.
        """
        slow = rows.of(np.flatnonzero(self.channel.x > least))
        keys = self.exchanges.pairs[slow]
        if not self.sweep.repeated:
            return keys, self.channel.x[slow], np.ones(len(slow), dtype=np.int64)
        chosen = rows.of(np.flatnonzero(np.isin(self.exchanges.pairs, keys)))
        values = self.channel.x[chosen]
        keys, inverse = np.unique(self.exchanges.pairs[chosen], return_inverse=True)
        counts = np.bincount(inverse, minlength=len(keys))
        order = np.lexsort((values, inverse))
        starts = np.cumsum(counts) - counts
        return keys, values[order][starts + (counts - 1) // 2], counts

    def pairs(self, theirs: Any) -> list[Suspect]:
        """Return the slow pairs of what nothing else explains, worst first; ``theirs`` are rows of suspected nodes."""
        channel, cohort = self.channel, self.sweep.settings.cohort
        if channel.check == "straggler":
            return []
        # A single exchange has all its noise: look lower where there is more, to see again what must be found.
        floor = max(min(channel.threshold, cohort.smallest - 2.5 * channel.sigma), 1.5 * channel.sigma)
        if channel.rail is not None:
            floor = max(channel.threshold, 4 * channel.sigma)
        if channel.limit:
            floor = channel.threshold
        keys, medians, counts = self._pair_medians(self.left.without(theirs), min(floor, channel.threshold))
        least = np.where(counts >= 3, channel.threshold, floor)
        found = np.flatnonzero(medians > least)
        found = found[np.argsort(-medians[found], kind="stable")]
        # One wild measurement of a single rail is not certain, however wild.
        robust = channel.rail is None
        sure = np.maximum(STRONG_SIGMAS * channel.sigma / np.sqrt(counts), channel.threshold)
        strong = (medians > sure) & (robust | (counts > 2))
        columns = (keys // self.exchanges.count, keys % self.exchanges.count, medians, counts, strong)
        return [
            Suspect(PAIR, (one, other), self.at, slowdown, 1.0, count, certain)
            for one, other, slowdown, count, certain in zip(*(each[found].tolist() for each in columns), strict=True)
        ]


def _chance_at_most(count: Any, share: Any, base: Any) -> Any:
    """Return how likely so large a share of so many is at the most, where each has this likelihood (Chernoff)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = share * np.log(np.where(share > 0, share, 1) / base) + (1 - share) * np.log(
            np.where(share < 1, 1 - share, 1) / np.maximum(1 - base, 1e-9)
        )
    return np.exp(-count * np.where(share > base, spread, 0))
