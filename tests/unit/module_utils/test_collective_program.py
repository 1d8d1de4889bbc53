"""A program is read as a whole or not at all: whoever walks it must do what all others do."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import (
    ProgramError,
    pack_spec,
    read_program,
    unpack_spec,
)

TIMES = {"sizes": [8, 64], "iterations": 5, "warmup": 1, "seconds": 10}
WALK: dict[str, Any] = {"name": "walk", "kind": "pairs", "collective": "sendrecv", **TIMES, "shifts": [0, 2]}
NAMED: dict[str, Any] = {**{key: value for key, value in WALK.items() if key != "shifts"}, "pairs": [[[0, 1], [3, 2]]]}
GROUPS: dict[str, Any] = {"name": "all", "kind": "groups", "collective": "all_gather", **TIMES, "groups": [[2, 0], [3]]}
TRAIN: dict[str, Any] = {"name": "train", "kind": "train", "hidden": 8, "layers": 2, "steps": 3, "seconds": 10}


def test_shifts_are_those_of_the_circle_method() -> None:
    (phase,) = read_program({"moves": [WALK]}, 4)
    assert phase.steps == 2
    assert [phase.partner(1, 4, position) for position in range(4)] == [1, 0, 3, 2]
    assert phase.taking_part(0, 4) == {0, 1, 2, 3}


def test_of_an_odd_number_one_sits_out() -> None:
    (phase,) = read_program({"moves": [WALK]}, 3)
    for step in range(2):
        met = {position for position in range(3) if phase.partner(step, 3, position) is not None}
        assert phase.taking_part(step, 3) == met
        assert len(met) == 2


def test_pairs_and_groups_name_positions() -> None:
    named, groups = read_program({"moves": [NAMED, GROUPS]}, 5)
    assert [named.partner(0, 5, position) for position in range(5)] == [1, 0, 3, 2, None]
    assert named.taking_part(0, 5) == {0, 1, 2, 3}
    assert [groups.group_of(5, position) for position in range(5)] == [(2, 0), None, (2, 0), (3,), None]
    assert groups.taking_part(0, 5) == {0, 2, 3}


def test_training_is_of_all() -> None:
    (phase,) = read_program({"moves": [{**TRAIN, "sizes": [], "iterations": 3}]}, 3)
    assert (phase.iterations, phase.warmup, phase.steps, phase.group_of(3, 1)) == (3, 0, 1, (0, 1, 2))


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ({**WALK, "name": ""}, 'moves[0].name: found "", expected text'),
        ({**WALK, "kind": "ring"}, 'kind: found "ring", expected one of inside, pairs, groups, train'),
        ({**WALK, "collective": "all_reduce"}, "collective is 'all_reduce', which pairs cannot do"),
        ({**GROUPS, "collective": "sendrecv"}, "collective is 'sendrecv', which groups cannot do"),
        ({**WALK, "sizes": [6]}, "phase walk.sizes[0]: found 6, expected a multiple of 4"),
        ({**WALK, "sizes": [8, 8]}, "expected each size once"),
        ({**WALK, "sizes": []}, "sizes: found an empty list"),
        ({**WALK, "iterations": 0}, "iterations: found 0, expected a whole number of at least 1"),
        ({**WALK, "iterations": True}, "iterations: found true"),
        ({**WALK, "seconds": 0}, "seconds: found 0"),
        ({**WALK, "seconds": "10"}, 'seconds: found "10"'),
        ({**WALK, "shifts": [3]}, "shift 3, expected less than 3"),
        ({**WALK, "pairs": [[[0, 1]]]}, "expected either shifts or pairs"),
        ({**NAMED, "pairs": [[[0, 1], [1, 2]]]}, "expected disjoint ones below 4"),
        ({**NAMED, "pairs": [[[0, 4]]]}, "expected disjoint ones below 4"),
        ({**NAMED, "pairs": [[[0, 1, 2]]]}, "pairs[0][0]: found a list, expected a list of 2"),
        ({**GROUPS, "groups": [[0, 1], [1]]}, "expected disjoint ones below 4"),
        ({**GROUPS, "groups": [[]]}, "groups[0]: found an empty list"),
        ({**TRAIN, "hidden": None}, "hidden: found nothing"),
    ],
)
def test_what_cannot_be_walked_is_refused(phase: dict[str, Any], message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        read_program({"moves": [phase]}, 4)
    assert message in str(caught.value)


@pytest.mark.parametrize("program", [None, {}, {"moves": []}, {"moves": [WALK, {**NAMED}]}, {"moves": ["walk"]}])
def test_program_that_is_none_is_refused(program: Any) -> None:
    with pytest.raises(ProgramError):
        read_program(program, 4)


def test_spec_comes_back_from_its_arguments() -> None:
    spec = {"nodes": [[f"gpu-{(number * 7919) % 100_003:06d}", ""] for number in range(40_000)], "program": {}}
    parts = pack_spec(spec)
    assert len(parts) > 1
    assert max(map(len, parts)) < 128 * 1024
    assert unpack_spec(parts) == spec
    with pytest.raises(ProgramError):
        unpack_spec(parts[:-1])
