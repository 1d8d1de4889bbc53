from __future__ import annotations

from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_data import (
    INDEX_PERIOD,
    contribution,
    total_contribution,
)


def test_sum_of_contributions_is_that_of_the_ranks_named() -> None:
    assert total_contribution(range(13)) == 91
    assert total_contribution([3, 16, 40]) == contribution(3) + contribution(16) + contribution(40) == 4 + 4 + 2


def test_sums_of_the_largest_fleet_are_exact_in_float32() -> None:
    assert total_contribution(range(100_000)) * INDEX_PERIOD < 2**24
