"""Nodes and pairs beside each other: how a bandwidth compares to what is usual, and how far apart two nodes are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation import collective_settings
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import (
    Group,
    Measured,
    Pairs,
    usual,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import counting_order

Array = Any
Places = Mapping[str, Mapping[str, Any]]

# Below this share of what is usual something is worth a line; practical margin of numbers.md's statistics (3 to 5 %).
SLOW = 0.95
DISTANCES = ("same rack", "same pod", "across pods")


def usual_gb_per_s(measured: Measured, pairs: Pairs) -> float:
    """Return the bandwidth that stands for 100 %: the median over all pairs, of few nodes that of the fastest pair."""
    return pairs.size / usual(nan_median(pairs.ns), measured.few)


def usual_said(measured: Measured) -> str:
    """Return what stands for 100 %, as a person reads it."""
    return "the fastest pair" if measured.few else "the median of all pairs"


def shares(measured: Measured, pairs: Pairs) -> Array:
    """Return (p,) each pair's bandwidth, the median over its rails, as a share of the usual one."""
    return pairs.size / nan_median(pairs.ns) / usual_gb_per_s(measured, pairs)


def distances(measured: Measured, places: Places) -> Mapping[int, Array]:
    """Return by size (p,) which of ``DISTANCES`` lies between the two nodes of each pair, as its position."""
    pods, racks = (
        _place_numbers(measured.nodes, places, ("pod",)),
        _place_numbers(measured.nodes, places, ("pod", "rack")),
    )
    return {
        pairs.size: numpy.where(
            (racks[pairs.one] == racks[pairs.other]) & (racks[pairs.one] >= 0),
            0,
            numpy.where((pods[pairs.one] == pods[pairs.other]) & (pods[pairs.one] >= 0), 1, 2),
        )
        for pairs in measured.pairs
    }


def _place_numbers(nodes: Sequence[str], places: Places, keys: tuple[str, ...]) -> Array:
    """Return (n,) a number for each node's place, -1 where none is declared."""
    known: dict[tuple[Any, ...], int] = {}
    found = []
    for node in nodes:
        place = tuple(places.get(node, {}).get(key) for key in keys)
        found.append(known.setdefault(place, len(known)) if place[-1] is not None else -1)
    return numpy.array(found, dtype=numpy.int64)


def node_shares(measured: Measured, pairs: Pairs) -> Array:
    """Return (nodes, rails) the median of a node's rail over its pairs, as a share of that rail's median over all.

    Of few nodes the fastest pair instead of the median, in both.
    """
    middle = numpy.nanmax if measured.few else numpy.nanmedian
    speed = pairs.size / pairs.ns
    share = speed / middle(speed, axis=0, keepdims=True)
    ends, both = numpy.concatenate((pairs.one, pairs.other)), numpy.concatenate((share, share))
    order = numpy.argsort(ends, kind="stable")
    ends, both = ends[order], both[order]
    counts = numpy.bincount(ends, minlength=len(measured.nodes))
    # A line for each node, as long as that of who has most pairs.
    table = numpy.full((len(counts), counts.max(), both.shape[1]), numpy.nan)
    table[ends, numpy.arange(len(ends)) - (numpy.cumsum(counts) - counts)[ends]] = both
    found = numpy.full((len(counts), both.shape[1]), numpy.nan)
    known = numpy.all(numpy.isfinite(table).any(axis=1), axis=1)
    found[known] = middle(table[known], axis=1)
    return found


def slow_only_together(measured: Measured, pairs: Pairs) -> Array:
    """Return which pairs are slow though both nodes are good with others, as positions in ``pairs``, slowest first.

    Whoever is slow with everybody would be here once for each of its partners.
    """
    own = numpy.nan_to_num(nan_median(node_shares(measured, pairs)), nan=0.0)
    share = shares(measured, pairs)
    low = numpy.nan_to_num(share, nan=2.0) < SLOW
    chosen = numpy.flatnonzero(low & (own[pairs.one] >= SLOW) & (own[pairs.other] >= SLOW))
    return chosen[numpy.argsort(share[chosen], kind="stable")]


def bus_bandwidth(group: Group) -> float:
    """Return a group's bus bandwidth in GB/s."""
    return collective_settings.bus_bandwidth(group.collective, group.ranks, group.size, group.ns / 1e9)


def slowest(measured: Measured) -> list[Any]:
    """Return the spread of nodes, the slowest first: by the tail of its iterations, then by what is typical of it."""
    return sorted(measured.spread, key=lambda each: (-each.tail, -each.typical, counting_order(each.node)))


def nan_median(values: Array) -> Array:
    """Return the median of each line's numbers, NaN where it has none."""
    known = numpy.isfinite(values).any(axis=1)
    found = numpy.full(len(values), numpy.nan)
    found[known] = numpy.nanmedian(values[known], axis=1)
    return found
