from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.latency import (
    LatencyProfile,
    disjoint_groups,
    latency_findings,
    latency_moves,
    latency_rows,
)

SIZES = (65536, 1048576)
PROFILE = LatencyProfile("mini_cluster", "all_reduce", SIZES, {16: 60.0, 32: 60.0})


@dataclass(frozen=True)
class One:
    nodes: tuple[str, ...]
    ranks: int
    size: int
    p99: float
    collective: str = "all_reduce"


def places(racks: dict[str, str], pods: dict[str, str] | None = None) -> dict[str, dict[str, str]]:
    return {node: {"rack": rack, "pod": (pods or {}).get(node, "p")} for node, rack in racks.items()}


def measured(nodes: tuple[str, ...], microseconds: float, size: int | None = None) -> list[One]:
    return [One(nodes, 8 * len(nodes), each, microseconds * 1e3) for each in SIZES if size in (None, each)]


def test_profile_comes_from_the_policy_or_there_is_none() -> None:
    profiles = {
        "mini_cluster": {
            "collective": "all_reduce",
            "sizes_bytes": [8],
            "limits": [{"gpus": 32, "microseconds": 70}, {"gpus": 16, "microseconds": 60}],
        }
    }
    assert LatencyProfile.from_policy({"latency_profile": None, "latency_profiles": profiles}) is None
    assert LatencyProfile.from_policy({}) is None
    found = LatencyProfile.from_policy({"latency_profile": "mini_cluster", "latency_profiles": profiles})
    assert found == LatencyProfile("mini_cluster", "all_reduce", (8,), {16: 60.0, 32: 70.0})


def test_groups_stay_within_racks_then_within_pods() -> None:
    racks = {f"n{index}": f"r{index // 3}" for index in range(9)}
    pods = {node: "p0" if rack != "r2" else "p1" for node, rack in racks.items()}
    first, *more = disjoint_groups(racks, places(racks, pods), 2)
    assert first == (("n0", "n1"), ("n3", "n4"), ("n6", "n7"), ("n2", "n5"))
    # Who is left over is filled up with a neighbour of its rack.
    assert more == [(("n6", "n8"),)]


@pytest.mark.parametrize(("count", "each"), [(8, 2), (8, 4), (9, 4), (11, 8), (7, 2), (64, 8), (5, 5)])
def test_every_node_is_in_a_group_and_groups_of_one_permutation_are_disjoint(count: int, each: int) -> None:
    racks = {f"n{index:02}": f"r{index // 4}" for index in range(count)}
    found = disjoint_groups(racks, places(racks), each)
    assert {node for groups in found for group in groups for node in group} == set(racks)
    for groups in found:
        used = [node for group in groups for node in group]
        assert len(used) == len(set(used)) and all(len(group) == each for group in groups)


@pytest.mark.parametrize(("count", "each"), [(3, 4), (0, 2), (4, 0)])
def test_too_few_nodes_make_no_group(count: int, each: int) -> None:
    assert disjoint_groups([f"n{index}" for index in range(count)], {}, each) == ()


def test_moves_name_positions_of_the_job() -> None:
    moves = latency_moves(["d", "c", "b", "a"], {}, PROFILE, 8)
    assert [(move["name"], move["groups"]) for move in moves] == [
        ("mini_cluster_16_1", [[3, 2], [1, 0]]),
        ("mini_cluster_32_1", [[3, 2, 1, 0]]),
    ]
    assert moves[0]["kind"] == "groups" and moves[0]["sizes"] == list(SIZES)


def test_sizes_that_are_no_whole_number_of_nodes_have_no_move() -> None:
    assert [move["name"] for move in latency_moves(["a", "b", "c"], {}, PROFILE, 16)] == [
        "mini_cluster_16_1",
        "mini_cluster_32_1",
        "mini_cluster_32_2",
    ]
    assert latency_moves(["a", "b", "c"], {}, PROFILE, 12) == []


@pytest.mark.parametrize(("microseconds", "verdict"), [(60.0, "pass"), (60.1, "incomplete"), (20.0, "pass")])
def test_a_group_is_judged_by_its_worst_size(microseconds: float, verdict: str) -> None:
    groups = [
        *measured(("a", "b"), 20, SIZES[0]),
        *measured(("a", "b"), microseconds, SIZES[1]),
        *measured(("a", "b", "c", "d"), 30),
    ]
    findings = latency_findings(["a"], groups, PROFILE)["a"]
    assert [finding.subject for finding in findings] == ["mini-cluster of 16 GPUs", "mini-cluster of 32 GPUs"]
    assert (findings[0].verdict, findings[0].measured, findings[0].expected) == (verdict, max(20.0, microseconds), 60.0)
    assert findings[1].verdict == "pass"
    if verdict != "pass":
        assert "with b" in findings[0].reason and "nobody in it" in findings[0].reason


def test_a_slow_group_convicts_nobody_and_a_good_one_clears() -> None:
    profile = LatencyProfile("mini_cluster", "all_reduce", SIZES, {16: 60.0})
    groups = [*measured(("a", "b"), 90), *measured(("b", "c"), 30)]
    found = {node: finding.verdict for node, (finding,) in latency_findings("abc", groups, profile).items()}
    assert found == {"a": "incomplete", "b": "pass", "c": "pass"}


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([], "all-reduce of 65536 B in 16 GPUs was not measured"),
        (measured(("a", "b"), 20, SIZES[0]), "all-reduce of 1048576 B in 16 GPUs was not measured"),
        (measured(("b", "c"), 20), "was not measured with it"),
        (measured(("a", "b"), math.nan), "with b did not finish"),
        ([One(("a", "b"), 16, size, 1.0, "all_gather") for size in SIZES], "was not measured"),
    ],
)
def test_what_was_not_measured_never_passes(groups: list[One], says: str) -> None:
    finding = latency_findings(["a"], groups, PROFILE)["a"][0]
    assert finding.verdict == "incomplete" and says in finding.reason and finding.measured is None


def test_rows_tell_the_worst_group() -> None:
    rows = latency_rows(
        [*measured(("a", "b"), 20), *measured(("c", "d"), 80), *measured(("e", "f"), math.nan)], PROFILE
    )
    assert len(rows) == 4
    first = rows[0]
    assert (first.groups, first.median_microseconds, first.worst_microseconds, first.said) == (
        3,
        50.0,
        None,
        "not in 2 of 3",
    )
    assert first.worst_nodes == ("e", "f") and rows[2].said == "not measured"
