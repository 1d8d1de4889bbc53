"""Who is measured again meets different proven nodes, and nobody is in two places at once."""

from __future__ import annotations

from collections import Counter

from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import STEADY_REPEATS
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.retests import (
    MOST_PERMUTATIONS,
    Retest,
    permutations_of,
)


def test_confirmations_are_disjoint_and_meet_different_trusted_nodes() -> None:
    trusted = [f"t{number:02}" for number in range(30)]
    places = {name: f"r{index % 4}" for index, name in enumerate([*trusted, "s1", "s2"])}
    retests = [Retest("s1", None, 8), Retest("s2", None, 8), Retest("a", "b", 6), Retest("b", "c", 6)]
    steps = permutations_of(retests, trusted, places)
    for step in steps:
        used = [node for pair in step for node in pair]
        assert len(set(used)) == len(used)
    met = Counter(frozenset(pair) for step in steps for pair in step)
    assert met[frozenset("ab")] == met[frozenset("bc")] == 6
    for suspect in ("s1", "s2"):
        partners = [other for pair in met for other in pair - {suspect} if suspect in pair]
        assert len(partners) == 8
        assert set(partners) <= set(trusted)
        assert all(places[other] != places[suspect] for other in partners)
    # Sound pairs beside them tell what slowed down everybody.
    assert sum(pair <= set(trusted) for pair in met) >= 8


def test_what_noise_makes_costs_little_time() -> None:
    nodes = [f"n{number:03}" for number in range(232)]
    weak = [Retest(nodes[index % 232], nodes[(index * 7 + 1 + index // 232) % 232], 4, True) for index in range(900)]
    weak = [each for each in weak if each.node != each.other]
    assert len(permutations_of(weak, nodes, {})) == STEADY_REPEATS + 1
    strong = [Retest(each.node, each.other, 12) for each in weak]
    assert len(permutations_of(strong, nodes, {})) == MOST_PERMUTATIONS


def test_nobody_to_meet_is_no_permutation() -> None:
    assert permutations_of([Retest("s1", None, 8)], [], {}) == []
    assert permutations_of([Retest("s1", None, 8)], ["s1"], {}) == []


def test_who_was_slow_with_some_meets_these_first_and_then_others() -> None:
    nodes = [f"t{number:02}" for number in range(12)]
    steps = permutations_of([Retest("s1", None, 8, partners=frozenset(nodes[:2]))], nodes, {})
    met = [other for step in steps for pair in step for other in pair if "s1" in pair and other != "s1"]
    assert Counter(met[:4]) == {"t00": 2, "t01": 2}
    assert len(set(met[4:]) - {"t00", "t01"}) == 4
    only = permutations_of([Retest("s1", None, 4, partners=frozenset(nodes[:2]))], nodes[:2], {})
    assert len(only) == 4, "where there are no others, it meets these again"
