from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import LatencyBudget
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import (
    LatencyProfile,
    disjoint_groups,
    latency_phases,
    latency_rows,
    with_mini_clusters,
)

from tests.fleets import fleet_of
from tests.typed import typed

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
    policy = fleet_of({}).policy
    policy = replace(policy, latency_profiles={name: read(LatencyBudget, each) for name, each in profiles.items()})
    assert policy.latency is None
    found = replace(policy, stages=("preflight", "acceptance"), latency_profile="mini_cluster").latency
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
    groups = ((("a", "b"), ("c", "d")), (("b", "c"),))
    phases = latency_phases(["d", "c", "b", "a"], {16: groups, 32: [(("a", "b", "c", "d"),)]}, PROFILE)
    assert [(phase["name"], phase["groups"]) for phase in phases] == [
        ("mini_cluster:16:1", [[3, 2], [1, 0]]),
        ("mini_cluster:16:2", [[2, 1]]),
        ("mini_cluster:32:1", [[3, 2, 1, 0]]),
    ]
    assert all(phase["kind"] == "groups" and phase["sizes"] == list(SIZES) for phase in phases)
    assert {phase["collective"] for phase in phases} == {"all_reduce"}


def expect(ranks: int, driver: Any = "torch") -> Expectations:
    lab = typed(expectations_of("lab_h100", {}, "test"))
    return replace(lab, class_="x", collective=replace(lab.collective, ranks_per_node=ranks, driver=driver, latency=()))


def test_class_expects_what_the_profile_asks_and_nothing_without_one() -> None:
    asked = with_mini_clusters(expect(8), PROFILE, 4, "f")
    assert LatencyProfile.of(asked.mini_clusters) == PROFILE
    assert with_mini_clusters(expect(8), None, 4, "f").mini_clusters is None
    assert with_mini_clusters(expect(8), PROFILE, 0, "f").mini_clusters is None
    assert LatencyProfile.of(None) is None


@pytest.mark.parametrize(
    ("ranks", "nodes", "driver", "says"),
    [
        (8, 3, "torch", r'found "mini_cluster" with 32 GPUs, expected at most 24, as there are 3 nodes of class x'),
        (12, 9, "torch", r'found "mini_cluster" with 16 GPUs, expected multiples of 12'),
        (8, 4, "nccl_tests", r"driver nccl_tests, expected driver torch, which times every iteration"),
    ],
)
def test_profile_that_nodes_of_the_class_cannot_measure_is_refused(
    ranks: int, nodes: int, driver: str, says: str
) -> None:
    with pytest.raises(FleetError, match=f"^f: policy.latency_profile: .*{says}"):
        with_mini_clusters(expect(ranks, driver), PROFILE, nodes, "f")


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
