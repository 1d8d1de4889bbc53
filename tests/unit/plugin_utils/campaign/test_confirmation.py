"""Suspects meet nodes that are proven, each in one pair at a time, and one witness confirms nobody."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import (
    best_of,
    confirmed,
    reference_nodes,
    with_reference_nodes,
)


@pytest.mark.parametrize(("bad", "good", "expected"), [(0, 0, False), (1, 0, False), (2, 0, True), (3, 1, False)])
def test_two_bad_measurements_and_no_good_one_confirm(bad: int, good: int, expected: bool) -> None:
    assert confirmed(bad, good) is expected


def test_who_was_good_in_the_campaign_comes_before_who_is_in_service() -> None:
    assert reference_nodes(["b", "a"], ["c", "a"]) == ["b", "a", "c"]


def test_best_has_the_least_rank_and_the_first_good_enough_ends_the_search() -> None:
    rank = {"a": (1, 2), "b": (0, 3), "c": (0, 1)}
    assert best_of("abc", lambda each: rank[each]) == "c"
    assert best_of("abc", lambda each: rank[each], best=(0,)) == "b"
    assert best_of("", lambda each: rank[each]) is None


def test_each_suspect_gets_its_best_reference_node_and_nobody_is_in_two_pairs() -> None:
    choices = {"s1": ["r1", "r2"], "s2": ["r1"], "s3": ["r1", "r2", "r3"], "s4": ["s1"]}
    pairs = with_reference_nodes(choices, lambda node: choices[node], lambda _node, other: (other,), taken=["r3"])
    assert pairs == [("s1", "r1"), ("s3", "r2")]
