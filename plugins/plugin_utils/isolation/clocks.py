"""Whose clock counts otherwise than the others': an exchange is timed on both sides, by two clocks.

Neither side is done much before the other, so both tell about the same time. Of a node that tells more, or less, by the
same factor at every size and with nearly everybody it is the clock, or what it alone sends or receives by: nothing that
it measures is to be believed, and nobody else is blamed for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import MAD_SIGMA
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Exchanges
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.medians import median

# A node stands out so many times farther than others lie apart, and at no size is it by this part more than at another:
# what is slow is so at some sizes. Where a host's way out is slow, its partners count twice the time at 2 MiB and five
# times at 64 KiB (measured with gloo).
OUTLIER, ALIKE = 5.0, 0.25
# A logarithm: what counts a hundred times as much or as little at every size times nothing, however alike.
FAR_OFF = 4.6


def odd_clocks(exchanges: Exchanges, settings: Settings) -> dict[int, float]:
    """Return by node by which factor it counts more than others of the same exchanges (1.1: 10 % more), if it is odd.

    It is so by more than half the margin, and more than others lie apart. One size alone tells nothing.
    """
    lead, sizes, cohort = exchanges.lead, exchanges.lead.shape[1], settings.cohort
    rows = exchanges.known
    met = exchanges.of_nodes(rows)
    if sizes < 2 or (met > 0).sum() < cohort.peers:
        return {}
    least = float(np.log1p(cohort.margin / 2))
    usual = np.maximum(met, 1)[:, None]
    # Means are found in a tenth of the time; what the mean of wild values hides is no clock.
    means = np.clip(np.where(rows[:, None], lead, 0), -0.5, 0.5).T
    sides = exchanges.one, exchanges.other
    one, other = (np.array([np.bincount(side, each, exchanges.count) for each in means]) for side in sides)
    suspected = np.flatnonzero((np.abs((one - other).T / usual) > least / 2).all(axis=1))
    if not len(suspected):
        return {}
    nodes = np.flatnonzero(met > 0)
    medians = np.array([_medians(exchanges, node) for node in nodes.tolist()])
    middle = np.median(medians, axis=0)
    apart = MAD_SIGMA * np.median(np.abs(medians - middle), axis=0)
    found = {}
    for node in suspected.tolist():
        its = medians[np.searchsorted(nodes, node)] - middle
        low, high = np.abs(its).min(), np.abs(its).max()
        alike = len(set(np.sign(its))) == 1 and (high - low <= ALIKE * high or low > FAR_OFF)
        if alike and (np.abs(its) > np.maximum(least, OUTLIER * apart)).all():
            found[node] = float(np.exp(np.median(its)))
    return found


def _medians(exchanges: Exchanges, node: int) -> list[float]:
    """Return by size the logarithm of the node's seconds over its partners', of the exchange in the middle."""
    rows = exchanges.rows_of(node)
    rows = rows[exchanges.known[rows]]
    lead = exchanges.lead[rows] * np.where(exchanges.one[rows] == node, 1, -1)[:, None]
    return [float(median(each)) for each in lead.T]


def by_sound_clocks(exchanges: Exchanges, clocks: Mapping[int, float]) -> Exchanges:
    """Return the exchanges without what a clock that counts more adds: still the slower side, by what it took.

    A clock that counts less hides nothing: the slower side is the other one.
    """
    if not clocks or not len(exchanges.one):
        return exchanges
    more = np.zeros(exchanges.count, dtype=np.float32)
    for node, factor in clocks.items():
        more[node] = max(0.0, np.log(factor))
    lead, one, other = exchanges.lead, more[exchanges.one, None], more[exchanges.other, None]
    faster = np.exp(np.maximum(lead, 0) - np.maximum(lead - one, -other))
    # In the order in which they lie in memory: by size, rail and row.
    gb = (exchanges.gb.transpose(1, 2, 0) * faster.T[:, None, :]).transpose(2, 0, 1)
    return replace(exchanges, gb=gb, p99=exchanges.p99 / faster)
