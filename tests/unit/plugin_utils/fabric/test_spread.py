"""The estimate of how evenly flows spread: exact in small cases, right by trial in large ones, shown in the guide."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.spread import (
    LIMIT,
    fullest_over_mean,
    recommended_queue_pairs,
    table_of,
    uplinks_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import Fabric

from .examples import INFINIBAND, ROCE, ROOT, fleet


@pytest.mark.parametrize(("flows", "uplinks"), [(1, 1), (1, 5), (2, 2), (3, 2), (5, 3), (6, 4), (4, 6)])
def test_small_cases_equal_the_count_of_all_placements(flows: int, uplinks: int) -> None:
    fullest = [max(map(placed.count, range(uplinks))) for placed in product(range(uplinks), repeat=flows)]
    expected = Fraction(sum(fullest), len(fullest)) * uplinks / flows
    assert fullest_over_mean("e_ecmp", flows, uplinks, 1) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize(("rails", "uplinks", "queue_pairs"), [(16, 18, 1), (16, 18, 4), (32, 32, 8), (16, 18, 32)])
def test_large_cases_agree_with_trials(rails: int, uplinks: int, queue_pairs: int) -> None:
    rng, trials, flows = random.Random(4), 1500, rails * queue_pairs
    total = 0
    for _ in range(trials):
        loads = [0] * uplinks
        for _ in range(flows):
            loads[rng.randrange(uplinks)] += 1
        total += max(loads)
    assert fullest_over_mean("ecmp", rails, uplinks, queue_pairs) == pytest.approx(
        total / trials * uplinks / flows, rel=0.03
    )


def test_more_queue_pairs_spread_better_and_never_below_even() -> None:
    spread = [fullest_over_mean("e_ecmp", 16, 18, number) for number in (1, 2, 4, 8, 16, 32, 64, 128)]
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] > 1


def test_queue_pairs_change_nothing_where_packets_or_destinations_are_placed() -> None:
    for routing in ("packet_spray", "adaptive"):
        assert fullest_over_mean(routing, 32, 32, 1) == fullest_over_mean(routing, 32, 32, 16) == 1
    assert fullest_over_mean("static", 32, 32, 16) == fullest_over_mean("ecmp", 32, 32, 1)


@pytest.mark.parametrize("numbers", [(0, 18, 1), (16, 0, 1), (16, 18, 0)])
def test_nothing_to_spread_is_an_error(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="each is at least 1"):
        fullest_over_mean("ecmp", *numbers)


@pytest.mark.parametrize(
    ("routing", "uplinks", "number"),
    [
        ("ecmp", None, 4),
        ("ecmp", 0, 1),
        ("ecmp", 1, 1),
        ("ecmp", 2, 4),
        ("e_ecmp", 4, 8),
        ("e_ecmp", 18, 16),
        ("e_ecmp", 64, 16),
        ("packet_spray", 18, 1),
        ("adaptive", 32, 1),
        ("static", 32, 1),
    ],
)
def test_fewest_queue_pairs_below_the_limit_are_recommended(routing: str, uplinks: int | None, number: int) -> None:
    assert recommended_queue_pairs(routing, uplinks) == number


def test_recommended_for_four_uplinks_is_the_first_below_the_limit() -> None:
    assert fullest_over_mean("ecmp", 4, 4, 4) >= LIMIT > fullest_over_mean("ecmp", 4, 4, 8)


def test_uplinks_are_those_of_the_declared_leaf() -> None:
    assert uplinks_of("tor-0007", fleet(ROCE).fabric) == 18
    assert uplinks_of("agg-01", fleet(ROCE).fabric) == 0
    assert uplinks_of("unknown", fleet(ROCE).fabric) is None
    assert uplinks_of(None, fleet(ROCE).fabric) is None


@pytest.mark.parametrize("path", [ROCE, INFINIBAND], ids=["roce", "infiniband"])
def test_guide_shows_the_table_as_it_is(path: Path) -> None:
    lines = table_of(fleet(path).fabric, fleet(path).nodes)
    assert len(lines) > 2
    assert "\n".join(lines) in (ROOT / "docs/fabric.md").read_text(encoding="utf-8")


def test_no_table_without_switches() -> None:
    assert table_of(Fabric(kind="ethernet"), fleet(ROCE).nodes[:3]) == []
