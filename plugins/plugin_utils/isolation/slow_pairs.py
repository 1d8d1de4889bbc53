"""What becomes of two nodes that are slow with each other alone: both are held, as each is good with others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import (
    CLEARED,
    HELD,
    LEAST_CONFIRMED,
    OPEN,
    Blame,
    blame_of,
    both,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import Facts
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.chances import (
    MEDIAN_ERROR,
    chance_of,
    usual_share,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import INTERMITTENT, PAIR, Suspect
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.medians import median

# A pair is confirmed so many standard errors from its peers, a node NODE_SIGMAS; of pairs there are thousands.
PAIR_SIGMAS = 4.5
# A pair that is slow in some of its later exchanges is so by less than this chance, among all that were asked.
PAIR_CHANCE = 1e-3


def slow_pairs(facts: Facts, rejected: frozenset[str] = frozenset()) -> list[Blame]:
    """Return what becomes of members that are slow with one other: both held, as each is good with others."""
    sweep, margin = facts.sweep, facts.settings.cohort.margin
    pairs = list(facts.pairs)
    for suspect in facts.single:
        if suspect.kind == INTERMITTENT and facts.matrix.nodes[suspect.members[0]] not in rejected:
            pairs += _alone_slow(facts, suspect)
    strong = {each for suspect in pairs if suspect.strong for each in suspect.members}
    # So many pairs that stand out are a network with hiccups: until they are asked, nobody is kept from the groups.
    crowd = len(strong) > facts.settings.hold.share * max(sweep.peers, 10) and not facts.confirming_jobs
    bases: dict[int, float] = {}
    found: list[Blame] = []
    cleared: set[str] = set()
    for suspect, late, usually in _pairs_again(facts, pairs):
        channel, names = facts.channels[suspect.channel], facts.names(suspect.members)
        if late < LEAST_CONFIRMED and not (suspect.strong and not crowd):
            continue
        if late < LEAST_CONFIRMED:
            values = _values_of_pair(facts, suspect)
            text = "could not be measured again, so no node is blamed"
            found += both(facts, blame_of(facts, suspect, OPEN, values, text), names)
            continue
        least = channel.beyond_noise
        sigmas, slowdown = usually * math.sqrt(late) / (MEDIAN_ERROR * channel.sigma), usually
        certain = slowdown > margin and (channel.limit or sigmas > PAIR_SIGMAS)
        rows = facts.measured_again[suspect.members]
        x = channel.again[rows]
        slow = x[x > least]
        if not certain and len(slow) > 1:
            if suspect.channel not in bases:
                bases[suspect.channel] = usual_share(facts, channel, least)
            certain = len(pairs) * chance_of(len(slow), late, bases[suspect.channel]) < PAIR_CHANCE
            slowdown = float(median(slow))
        if certain and slowdown - _of_themselves(facts, suspect) > margin:
            text = f"again in {len(slow)} of {late} exchanges: suspect what lies between them, no node is blamed"
            found += both(facts, blame_of(facts, suspect, HELD, channel.again_value[rows], text), names)
        else:
            cleared.update(names)
    return found + [Blame(name, CLEARED, kind=PAIR) for name in sorted(cleared)]


def _pairs_again(facts: Facts, pairs: Sequence[Suspect]) -> Iterator[tuple[Suspect, int, float]]:
    """Yield each pair with how often it was measured again, and how slow nearly all of these were.

    An exchange that could not be read is none in which the pair was sound.
    """
    again, nothing = facts.measured_again, len(facts.again.one)
    most = max((len(again.get(each.members, ())) for each in pairs), default=0)
    by_channel: dict[int, list[Suspect]] = {}
    for suspect in pairs:
        by_channel.setdefault(suspect.channel, []).append(suspect)
    for at, mine in by_channel.items():
        rows = [again.get(each.members, []) for each in mine]
        places = np.array([[*each, *[nothing] * (most - len(each))] for each in rows], dtype=np.int64)
        x = np.append(facts.channels[at].again, np.nan)[places]
        counts, slowdowns = (~np.isnan(x)).sum(axis=1), _nearly_all(x)
        yield from zip(mine, counts.tolist(), slowdowns.tolist(), strict=True)


def _values_of_pair(facts: Facts, suspect: Suspect) -> Any:
    """Return what all exchanges of a pair showed, of the sweep and after it."""
    (one, other), channel = suspect.members, facts.channels[suspect.channel]
    values = []
    for exchanges, value in ((facts.sweep.exchanges, channel.value), (facts.again, channel.again_value)):
        rows = exchanges.rows_of(one)
        values.append(value[rows[exchanges.other[rows] == other]])
    return np.concatenate(values)


def _nearly_all(x: Any) -> Any:
    """Return by row what two thirds of what is known in it and one more are at least: all of three, five of six.

    Of a bad pair nearly all exchanges are slow; where many are, now and then, some of six are so by chance.
    """
    ordered, known = np.sort(x, axis=-1), (~np.isnan(x)).sum(axis=-1, keepdims=True)
    if not x.shape[-1]:
        return np.full(x.shape[:-1], np.nan)
    return np.take_along_axis(ordered, np.maximum(known - 1, 0) // 3, axis=-1)[..., 0]


def _alone_slow(facts: Facts, suspect: Suspect) -> list[Suspect]:
    """Return the pair that a node was taken for that is slow again with one of its partners only, if it is."""
    found = []
    for other in suspect.partners:
        pair = min(*suspect.members, other), max(*suspect.members, other)
        x = facts.channels[suspect.channel].again[facts.measured_again.get(pair, [])]
        if len(x) >= LEAST_CONFIRMED and _nearly_all(x) > facts.channels[suspect.channel].threshold:
            found.append(suspect._replace(kind=PAIR, members=pair, strong=False, partners=()))
    return found if len(found) == 1 else []


def weak_pairs(facts: Facts) -> list[str]:
    """Return in words how many pairs were slow once and not measured again, after a round that asked some."""
    if not facts.confirming_jobs:
        return []
    again = facts.measured_again
    weak = sum(len(again.get(each.members, ())) < LEAST_CONFIRMED for each in facts.pairs)
    if not weak:
        return []
    return [f"{weak} pairs were slow once, as noise makes them, and not measured again"]


def _of_themselves(facts: Facts, suspect: Suspect) -> float:
    """Return how slow the slower one of a pair is with all others."""
    exchanges, channel = facts.sweep.exchanges, facts.channels[suspect.channel]
    found = 0.0
    # What it showed with those who are slow by themselves says nothing about it.
    left_out = [*suspect.members, *(each.members[0] for each in facts.single)]
    for node in suspect.members:
        mine = exchanges.rows_of(node)
        x = channel.x[mine[~np.isin(exchanges.one[mine] + exchanges.other[mine] - node, left_out)]]
        x = x[~np.isnan(x)]
        found = max(found, float(np.median(x)) if len(x) else 0.0)
    return found
