"""Programs: everybody meets everybody, who is asked again meets trusted ones, and nobody is in two places at once."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.pairing import pairs, rounds_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import (
    least_exchanges,
    sweep_phases,
    sweep_shifts,
    within_racks,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import permutation_pairs

from tests.fleets import collectives
from tests.isolation.fleet import Spec, expectations


def settings(hosts: int, **other: object) -> Settings:
    return Settings.of(collectives(expectations(Spec.usual(hosts, "clean", 0.01), **other)))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 8, 31, 32])
def test_pairs_of_all_positions_are_those_of_the_circle_method(count: int) -> None:
    step, one, other = permutation_pairs(count, range(rounds_of(count)))
    found = sorted(zip(step.tolist(), one.tolist(), other.tolist(), strict=True))
    expected = sorted((shift, *pair) for shift in range(rounds_of(count)) for pair in pairs(count, shift))
    assert found == expected


def test_few_nodes_meet_often_enough_for_an_intermittent_fault() -> None:
    least = least_exchanges()
    # More than a single showing asks for: ln(1 - 0.999) / ln(1 - 0.3) = 19.4.
    assert least > math.log(0.001) / math.log(0.7)
    for count in range(2, 40):
        shifts = sweep_shifts(count, settings(count))
        met = Counter(position for shift in shifts for pair in pairs(count, shift) for position in pair)
        assert min(met.values()) >= least - len(shifts) // rounds_of(count)
        assert set(shifts) == set(range(rounds_of(count)))


@pytest.mark.parametrize("hosts", [232, 512])
def test_every_pair_meets_once_where_there_are_many(hosts: int) -> None:
    rails = 8 if hosts == 232 else 4
    chosen = Settings.of(collectives(expectations(Spec(hosts, "clean", 0.01, rails=rails))))
    assert sweep_shifts(hosts, chosen) == list(range(hosts - 1))


@pytest.mark.parametrize(("minutes", "permutations"), [(9.5, 21), (10, 51), (60, 1023), (1, 1)])
def test_budget_chooses_permutations(minutes: float, permutations: int) -> None:
    shifts = sweep_shifts(1024, settings(1024, budget_minutes=minutes))
    assert len(shifts) == permutations
    assert len(set(shifts)) == permutations


def test_most_pairs_of_a_chosen_permutation_lie_across_racks() -> None:
    shifts = sweep_shifts(4096, settings(4096))
    assert 50 < len(shifts) < 100
    _step, one, other = permutation_pairs(4096, shifts)
    assert (one // 16 != other // 16).mean() > 0.98


@pytest.mark.parametrize("racks", [[18] * 3, [17, 18, 1], [1, 1], [5, 4], [2], []])
def test_within_racks_everybody_meets_everybody_once(racks: list[int]) -> None:
    places = [f"r{rack}" for rack, count in enumerate(racks) for _each in range(count)]
    # Whose rack nobody declares is in none, wherever it stands.
    places = [None, *places, None]
    steps = within_racks(places)
    assert all(steps)
    assert all(len({*sum(step, ())}) == 2 * len(step) for step in steps)
    met = [pair for step in steps for pair in step]
    wanted = [(a, b) for a, b in combinations(range(len(places)), 2) if places[a] == places[b] is not None]
    assert sorted(met) == wanted
    assert len(steps) == max(map(rounds_of, racks), default=0)


def test_sweep_cut_short_has_permutations_within_racks_that_nvlink_joins() -> None:
    racks, cut = [f"r{at // 18}" for at in range(648)], settings(648, budget_minutes=10)
    (plain,) = sweep_phases(racks, cut)
    assert (plain["name"], len(plain["shifts"])) == ("walk", 51)
    joined = replace(cut, nvlink_racks=True)
    walk, inside = sweep_phases(racks, joined)
    # They are counted against the budget, of which some is left for all others.
    assert (walk["name"], len(walk["shifts"]), inside["name"], len(inside["pairs"])) == ("walk", 34, "racks", 17)
    assert len(sweep_phases(racks, replace(joined, budget_minutes=1))[0]["shifts"]) == 1
    # All pairs are all within racks too.
    for few in (racks[:36], racks[:41]):
        assert sweep_phases(few, replace(joined, budget_minutes=None)) == sweep_phases(
            few, replace(cut, budget_minutes=None)
        )
    assert [phase["name"] for phase in sweep_phases([f"r{at}" for at in range(648)], joined)] == ["walk"]
