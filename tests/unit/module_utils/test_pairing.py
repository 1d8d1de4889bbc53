from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.pairing import pairs, partner, rounds_of


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9, 31, 32, 232])
def test_everybody_meets_everybody_once(count: int) -> None:
    met = [pair for shift in range(rounds_of(count)) for pair in pairs(count, shift)]

    assert len(met) == len(set(met)) == count * (count - 1) // 2


@pytest.mark.parametrize("count", [2, 3, 8, 9, 31, 32, 232])
def test_pairs_of_a_permutation_are_disjoint_and_mutual(count: int) -> None:
    for shift in range(rounds_of(count)):
        used = [index for pair in pairs(count, shift) for index in pair]

        assert len(used) == len(set(used)) == count - count % 2
        for low, high in pairs(count, shift):
            assert partner(count, shift, low) == high
            assert partner(count, shift, high) == low


def test_of_an_odd_number_another_sits_out_each_time() -> None:
    out = [index for shift in range(5) for index in range(5) if partner(5, shift, index) is None]

    assert sorted(out) == [0, 1, 2, 3, 4]


def test_two_positions_meet_in_the_one_shift() -> None:
    assert rounds_of(2) == 1
    assert pairs(2, 0) == [(0, 1)]


@pytest.mark.parametrize("count", [0, 1])
def test_one_position_has_nobody_to_meet(count: int) -> None:
    assert rounds_of(count) == 0


@pytest.mark.parametrize(("shift", "index"), [(3, 0), (-1, 0), (0, 4), (0, -1)])
def test_what_does_not_exist_is_refused(shift: int, index: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        partner(4, shift, index)
