"""What slows exchanges down: a group's boundary, a node, one rail of it, or one pair; fewest causes first.

An exchange is as fast as the slowest part in its way, so effects do not add up and no sum is fitted. Every exchange is
held against what its peers of the same size, rail and distance reach. Those that are slow are then explained by the
fewest causes: what lies between a rack (or pod) and the rest where it is fast within, or between it and one other; a
node that is slow with nearly everybody; one rail of it alone; a node that is slow now and then, with many; what is left
are pairs. Each cause takes the exchanges it explains with it before the next is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.view import (
    BOUNDARY,
    INTERMITTENT,
    LINK,
    NODE,
    PAIR,
    STRONG_SIGMAS,
    Channel,
    Suspect,
    View,
    across,
    partners_by_node,
    rows_by_node,
    slow_shares,
)

# A node that is slow now and then: so often at the least, with so many others, and by chance in less than one fleet of
# these.
INTERMITTENT_SHOWN, INTERMITTENT_PARTNERS = 5, 3
INTERMITTENT_CHANCE = 1e-3


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


def _explain(view: View, at: int, rows: Any) -> list[Suspect]:
    channel = view.channels[at]
    slow = rows & (channel.x > channel.threshold)
    if not slow.any():
        return _pairs(view, at, rows)
    found: list[Suspect] = []
    left = rows.copy()
    for level in ("pod", "rack"):
        for members, unit in boundaries(view, level, left, slow):
            suspect = replace(_suspect(view, at, BOUNDARY, members, left), unit=unit)
            left &= ~across(view, suspect)
            found.append(suspect)
        for members, beyond, unit in between_two(view, level, channel, left):
            between = Suspect(BOUNDARY, tuple(members), at, 0, 0, 0, unit=unit, beyond=tuple(beyond))
            suspect = _measured(view, between, left)
            left &= ~across(view, suspect)
            found.append(suspect)
    nodes = _peel(view, left, slow)
    apart = undeclared(view, channel, left, nodes)
    if len(apart) > 1:
        found.append(_measured(view, undeclared_boundary(view, at, left, apart), left))
    kind = NODE if channel.rail is None else LINK
    found += [_suspect(view, at, kind, [node], left) for node in nodes if node not in apart]
    left &= ~view.touching(nodes)
    for suspect in undeclared_between(view, at, left):
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


def _peel(view: View, rows: Any, slow: Any) -> list[int]:
    """Return the nodes that are slow with most others, beginning with those that are with nearly all.

    Nodes in service are doubted only where no node under test explains as much.
    """
    left = rows.copy()
    found: list[int] = []
    while True:
        share = slow_shares(view, left, slow)
        top = float(share.max(initial=0))
        if top <= 0.5:
            return found
        chosen = (share > 0.5) & (share >= top - 0.1)
        if (chosen & view.members).any():
            chosen &= view.members
        nodes = np.flatnonzero(chosen).tolist()
        found += nodes
        left &= ~view.touching(nodes)


def _intermittent(view: View, at: int, rows: Any) -> list[int]:
    """Return the nodes that were slow more often than the rest makes likely, each time with another partner."""
    channel = view.channels[at]
    slow = rows & (channel.x > max(channel.threshold, 3 * channel.sigma))
    steady = _steady_pairs(view, channel, rows)
    rows, slow = rows & ~steady, slow & ~steady
    found: list[int] = []
    size = len(view.matrix.nodes)
    while True:
        every, bad = rows_by_node(view, rows), rows_by_node(view, slow)
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
            likely &= partners_by_node(view, slow) >= np.minimum(
                INTERMITTENT_PARTNERS, partners_by_node(view, rows) // 2 + 1
            )
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
