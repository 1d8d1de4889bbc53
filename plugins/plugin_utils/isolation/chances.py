"""How likely noise alone makes what a node or a pair showed."""

from __future__ import annotations

import math

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import Facts
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import DISTANCES, Channel

# The standard error of a median is so much larger than that of a mean. Of normal noise so much lies beyond 3 sigma.
MEDIAN_ERROR, NORMAL_TAIL = 1.2533, 1.35e-3


def usual_share(facts: Facts, channel: Channel, least: float, alone: int | None = None) -> float:
    """Return in what share of the exchanges of those that are not suspected noise alone goes beyond this slowdown.

    Of all but one node, if it is told, or what it is at the distances of that one's later exchanges, if that is more:
    whoever is in a small pod meets in nearly all it does what lies between pods.
    """
    left_out = {each.members[0] for each in facts.single} if alone is None else {alone}
    swept = ~facts.explained & ~facts.sweep.exchanges.touching(left_out)
    # Of pairs that stood out and were asked again the share would be theirs.
    asked = [one * facts.again.count + other for one, other in {suspect.members for suspect in facts.pairs}]
    again = ~facts.again.touching(left_out) & ~np.isin(facts.again.pairs, asked)
    x = np.concatenate([channel.x[swept], channel.again[again]])
    late, known = x > least, ~np.isnan(x)
    share = max(float(late.sum() + 0.5) / (int(known.sum()) + 1), NORMAL_TAIL)
    if alone is None:
        return share
    far = facts.sweep.topology.distances(facts.again.one, facts.again.other)
    every = np.concatenate([facts.sweep.distances[swept], far[again]])
    slow, met = (np.bincount(every[rows], minlength=DISTANCES) for rows in (late, known))
    at_distance = (slow + 0.5) / (met + 1)
    return max(share, float(at_distance[far[facts.again.rows_of(alone)]].mean()))


def chance_of(shown: int, count: int, share: float) -> float:
    """Return how likely something that shows in this share of them shows in so many of a number of exchanges."""
    return sum(math.comb(count, each) * share**each * (1 - share) ** (count - each) for each in range(shown, count + 1))
