from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import StoredRound
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import measured

NODES = ["a", "b", "c"]
WALK = {"name": "walk", "kind": "pairs", "collective": "sendrecv", "sizes": [1000], "iterations": 20}
FIRST, BOTH = {**WALK, "shifts": [0]}, {**WALK, "shifts": [0, 1]}
REDUCE = {"name": "all", "kind": "groups", "collective": "all_reduce", "sizes": [800], "iterations": 10}


def stored(phases: list[Any], results: list[Any], nodes: list[str] | None = None, number: int = 1) -> StoredRound:
    group = nodes or NODES
    item = {"group": group, "started": True, "ok": True, "results": results}
    return StoredRound("c", number, {"kind": "walk", "groups": [group], "program": {"moves": phases}}, [item], 0.0, 9.0)


def walked(step: int, rows: list[Any], tails: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"move": "walk", "step": step, "bytes": 1000, "ns": rows, "ns_p99": tails or rows, "wrong": {}, **more}


def test_a_pair_is_as_fast_as_its_slower_end_on_each_rail() -> None:
    # In shift 0 of three positions 1 and 2 meet and 0 sits out.
    found = measured([stored([FIRST], [walked(0, [None, [10, 20], [12, 18]], [None, [11, 30], [40, 19]])])])
    (pairs,) = found.pairs
    assert [found.nodes[index] for index in (pairs.one[0], pairs.other[0])] == ["b", "c"]
    # Of the 99 % the median over the rails is kept.
    assert pairs.ns[0] == pytest.approx([12, 20]) and pairs.p99[0] == pytest.approx(35)
    assert found.notes == ()


def test_explicit_pairs_are_positions_in_the_job() -> None:
    phase = {**WALK, "pairs": [[[0, 2]]]}
    found = measured([stored([phase], [walked(0, [[10], None, [30]])])])
    assert (found.pairs[0].one[0], found.pairs[0].other[0]) == (0, 2) and found.pairs[0].ns[0] == pytest.approx([30])


def test_a_pair_of_which_one_end_did_not_finish_has_no_time() -> None:
    found = measured([stored([BOTH], [walked(0, [None, [10], None]), walked(1, [[7], None, [8]])])])
    (pairs,) = found.pairs
    assert len(pairs.ns) == 1 and {int(pairs.one[0]), int(pairs.other[0])} == {0, 2}


def test_a_group_is_as_fast_as_its_slowest_rank() -> None:
    phase = {**REDUCE, "groups": [[0, 1], [2]]}
    result = {
        "move": "all",
        "step": 0,
        "bytes": 800,
        "ns": [[5, 6], [7, 8], [1, 1]],
        "ns_p99": [[9, 6], [7, 8], [2, 1]],
    }
    result["last"] = {"b": 9, "c": 10}
    found = measured([stored([phase], [result])])
    first, second = found.groups
    assert (first.nodes, first.ranks, first.ns, first.p99) == (("a", "b"), 4, pytest.approx(8.0), pytest.approx(9.0))
    assert (second.nodes, second.ranks, second.ns) == (("c",), 2, pytest.approx(1.0))
    assert {each.node: (each.last, each.iterations) for each in found.spread} == {
        "a": (0, 10),
        "b": (9, 10),
        "c": (10, 10),
    }


def test_a_group_with_a_member_that_did_not_finish_has_no_time() -> None:
    phase = {**REDUCE, "groups": [[0, 1, 2]]}
    result = {"move": "all", "step": 0, "bytes": 800, "ns": [[5], None, [6]], "ns_p99": [[5], None, [6]], "wrong": {}}
    found = measured([stored([phase], [result])])
    assert found.groups == () and "ns has nothing of it (b)" in found.notes[0]


def test_inside_is_a_group_of_one_node_each_and_training_one_of_all() -> None:
    inside = {"name": "in", "kind": "inside", "collective": "all_reduce", "sizes": [800], "iterations": 5}
    train = {"name": "step", "kind": "train", "sizes": [], "iterations": 5}
    times = [[5, 4], [7, 7], [1, 2]]
    results: list[Any] = [
        {"move": "in", "step": 0, "bytes": 800, "ns": times, "ns_p99": times, "wrong": {}},
        {"move": "step", "step": 0, "bytes": 0, "wrong": {}, "ns": times, "ns_p99": times},
    ]
    found = measured([stored([inside, train], results)])
    assert [(group.collective, group.nodes, group.size, round(group.ns, 6)) for group in found.groups] == [
        ("all_reduce", ("a",), 800, 5.0),
        ("all_reduce", ("b",), 800, 7.0),
        ("all_reduce", ("c",), 800, 2.0),
        ("train", ("a", "b", "c"), 0, 7.0),
    ]


def test_few_nodes_are_held_against_the_fastest_exchange_each_at_its_best() -> None:
    result = walked(0, [None, [100], [100]], [None, [110], [150]])
    slow = walked(1, [[300], None, [300]], [[330], None, [600]])
    spread = {each.node: each for each in measured([stored([BOTH], [result, slow])]).spread}
    assert (spread["b"].typical, spread["b"].tail) == pytest.approx((1.0, 1.5))
    assert (spread["c"].typical, spread["c"].tail) == pytest.approx((1.0, 1.5))
    assert (spread["a"].typical, spread["a"].tail) == pytest.approx((3.0, 6.0))


def test_wrong_data_is_kept_by_receiver() -> None:
    found = measured(
        [stored([BOTH], [walked(0, [None, [1], [1]], wrong={"b": [0]}), walked(1, [[1], None, [1]], wrong={"b": [3]})])]
    )
    assert found.wrong == {"b": (0, 3)}


@pytest.mark.parametrize(
    "change",
    [
        {"move": "swim"},
        {"ns": [[1], [2]]},
        {"ns": "fast"},
        {"ns": [None, [1], [2, 3]]},
        {"ns": [None, [0], [2]]},
        {"ns": [None, [-4], [2]]},
        {"ns": [None, ["x"], [2]]},
        {"ns": [None, None, None]},
        {"ns_p99": [None, [1, 2], [2, 3]]},
        {"step": 7},
        {"step": None},
        {"bytes": "1M"},
        {"wrong": {"z": [0]}},
        *({key: None} for key in ("move", "step", "bytes", "ns", "ns_p99", "wrong")),
    ],
)
def test_a_garbled_result_is_named_and_the_rest_is_read(change: dict[str, Any]) -> None:
    good = walked(1, [[7], None, [8]])
    bad = {**walked(0, [None, [10], [12]]), **change}
    found = measured([stored([BOTH], [bad, good])])
    assert found.notes and all(note.startswith("round 1: ") and ("b" in note or "c" in note) for note in found.notes)
    assert any(times[0] == pytest.approx(8) for times in found.pairs[0].ns)


@pytest.mark.parametrize("item", [None, "text", {}, {"group": 7}, {"group": []}])
def test_a_garbled_job_is_named(item: Any) -> None:
    found = measured([replace(stored([FIRST], []), observations=[item])])
    assert found.empty and len(found.notes) == 1


@pytest.mark.parametrize("phases", [None, [{}], [{"name": "walk"}], "walk", 7])
def test_a_garbled_plan_is_named(phases: Any) -> None:
    found = measured([stored(phases, [walked(0, [None, [10], [12]])])])
    assert found.empty and found.notes


def test_many_places_that_cannot_be_read_are_counted() -> None:
    found = measured([replace(stored([FIRST], []), observations=[None] * 40)])
    assert len(found.notes) == 13 and found.notes[-1] == "and 28 more places that cannot be read"


def test_rounds_without_a_program_or_an_end_are_left_out() -> None:
    whole = stored([FIRST], [walked(0, [None, [10], [12]])])
    plain = copy.deepcopy(whole.plan)
    del plain["program"]
    found = measured([replace(whole, plan=plain), replace(whole, finished=None, observations=None)])
    assert found.empty and found.notes == ()


def test_a_job_that_never_started_is_no_fault_of_the_record() -> None:
    item = {"group": NODES, "started": False, "ok": False, "error": "no allocation"}
    assert measured([replace(stored([FIRST], []), observations=[item])]).notes == ()
