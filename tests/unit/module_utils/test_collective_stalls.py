"""What was lost between and in timed iterations: told by each rank, and counted where all that met lost it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives import collective_stalls
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import read_program
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_stalls import RankStalls, Stalls

GROUP = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
MS = 1_000_000
MEASURED = {"sizes": [64, 128], "iterations": 5, "warmup": 1, "seconds": 10}
# In permutation 0 the first meets the last, in the second the second.
WALK = {"name": "walk", "kind": "pairs", "collective": "sendrecv", **MEASURED, "pairs": [[[0, 3], [1, 2]], [[0, 1]]]}
RACKS = {"name": "racks", "kind": "groups", "collective": "all_reduce", **MEASURED, "groups": [[0, 1, 2], [3]]}
INSIDE = {"name": "inside", "kind": "inside", "collective": "all_reduce", **MEASURED}
TRAIN = {"name": "train", "kind": "train", "hidden": 8, "layers": 2, "steps": 3, "warmup": 1, "seconds": 10}
PHASES = read_program({"moves": [INSIDE, WALK, RACKS, TRAIN]}, len(GROUP))


def lost(told: dict[int, dict[str, Any]], each: int = 1) -> list[tuple[str, list[str], int, list[int]]]:
    """Return what ranks by number saw, told together, as (move, nodes, meetings, ms)."""
    stalls = Stalls(GROUP, PHASES, each)
    for rank, kinds in told.items():
        assert stalls.take(GROUP[rank // each], rank % each, kinds) == ""
    found = stalls.all()
    return [
        (one["move"], one["nodes"], one["meetings"], [value // MS for value in one["lost_ns"]])
        for one in sorted(found, key=lambda one: (one["move"], one["nodes"]))
    ]


def test_rank_tells_long_waits_and_what_took_longer_than_usual() -> None:
    stalls = RankStalls()
    stalls.note("walk", 3, 64, [1, 120 * MS, 9 * MS, 10 * MS, 2], [5 * MS, 5 * MS, 6 * MS, 5 * MS, 40 * MS])
    stalls.note("walk", 4, 64, [1, 2, 3, 4, 5], [5 * MS] * 5)
    assert stalls.told == {
        "walk": {"waited": [[3, 64, 1, 120 * MS], [3, 64, 3, 10 * MS]], "late": [[3, 64, 4, 35 * MS]]}
    }


def test_rank_tells_the_longest_alone_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collective_stalls, "MOST_TOLD", 2)
    stalls = RankStalls()
    stalls.note("walk", 0, 64, [20 * MS, 40 * MS, 30 * MS, 11 * MS])
    assert sorted(each[3] for each in stalls.told["walk"]["waited"]) == [30 * MS, 40 * MS]


def test_what_both_of_a_pair_waited_is_lost_between_them() -> None:
    both = [[0, 64, 2, 120 * MS]]
    # The second waits for its partner alone, who is busy with itself.
    alone = [[0, 64, 2, 300 * MS]]
    told = {
        0: {"walk": {"waited": both}},
        3: {"walk": {"waited": [[0, 64, 2, 110 * MS]]}},
        1: {"walk": {"waited": alone}},
    }
    assert lost(told) == [("walk", ["gpu-01", "gpu-04"], 10, [110])]


def test_exchange_that_took_longer_is_late_whoever_saw_it() -> None:
    assert lost({1: {"walk": {"late": [[0, 128, 4, 70 * MS]]}}}) == [("walk", ["gpu-02", "gpu-03"], 10, [70])]
    # What groups take is judged as it is timed.
    assert lost({1: {"racks": {"late": [[0, 128, 4, 70 * MS]]}}}) == []


def test_ranks_of_a_node_meet_those_of_the_same_number_and_the_longest_counts() -> None:
    waits = {
        0: {"walk": {"waited": [[1, 64, 0, 50 * MS], [1, 64, 1, 30 * MS]]}},
        1: {"walk": {"waited": [[1, 64, 1, 40 * MS]]}},
        2: {"walk": {"waited": [[1, 64, 1, 20 * MS]]}},
        3: {"walk": {"waited": [[1, 64, 0, 60 * MS], [1, 64, 1, 40 * MS]]}},
    }
    assert lost(waits, each=2) == [("walk", ["gpu-01", "gpu-02"], 10, [40])]


def test_what_all_of_a_group_waited_is_lost_in_it() -> None:
    wait = {"racks": {"waited": [[0, 64, 0, 80 * MS]]}}
    assert lost(dict.fromkeys((0, 1), wait)) == []
    assert lost(dict.fromkeys((0, 1, 2), wait)) == [("racks", ["gpu-01", "gpu-02", "gpu-03"], 10, [80])]
    assert lost({2: {"inside": {"waited": [[0, 64, 0, 80 * MS]]}}}) == [("inside", ["gpu-03"], 10, [80])]
    trained = {"train": {"waited": [[0, 4096, 1, 80 * MS]]}}
    assert lost(dict.fromkeys(range(4), trained)) == [("train", list(GROUP), 4, [80])]


def test_what_everybody_waited_before_a_permutation_is_lost_in_their_meeting() -> None:
    told = {rank: {"walk": {"waited": [[1, 0, 0, (80 + rank) * MS]]}} for rank in range(4)}
    assert lost(told) == [("walk", list(GROUP), 2, [80])]
    # One that came late waited for nobody.
    del told[2]
    assert lost(told) == []


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        (None, "unreadable stalls None"),
        ([], "unreadable stalls []"),
        ({"walk": []}, "unreadable stalls"),
        ({"other": {"waited": []}}, "stalls of 'other'"),
        ({"walk": {"slept": []}}, "'slept' that nobody asked for"),
        ({"walk": {"waited": {}}}, "that nobody asked for"),
        ({"walk": {"waited": [[0, 64, 1]]}}, "an unreadable stall [0, 64, 1]"),
        ({"walk": {"waited": [[0, 64, 1, 1.5]]}}, "an unreadable stall"),
        ({"walk": {"waited": [[0, 64, 1, -5]]}}, "an unreadable stall"),
        ({"walk": {"waited": [[0, 64, 1, True]]}}, "an unreadable stall"),
    ],
)
def test_what_cannot_be_read_says_so(told: Any, fault: str) -> None:
    assert fault in Stalls(GROUP, PHASES, 1).take("gpu-01", 0, told)


def test_permutation_that_does_not_exist_tells_nothing() -> None:
    assert lost({0: {"walk": {"late": [[7, 64, 0, 90 * MS]]}}}) == []
