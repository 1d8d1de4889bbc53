"""The declared road: over every rail and no other device, by GPUDirect, never by sockets; silence is no proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import required
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_log import NcclLog
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.transport import (
    ranks_by_node,
    transport_findings,
)

from tests.placed import PLACED
from tests.typed import RAILS_FABRIC, typed

# As a host calls them that has a card more, mlx5_0.
DEVICES = [f"mlx5_{number + 1}" for number in range(8)]
RAILS = {f"rail{number}": name for number, name in enumerate(DEVICES)}
GOOD = NcclLog(dict.fromkeys(DEVICES, "RoCE"), ("IB",), {"IB": 4}, {}, (), True, True, None, RAILS)
FABRIC = {**RAILS_FABRIC, "nccl_least": "2.22.3"}
CLASS = expectations_of("hgx_h100", PLACED, "test")
EXPECT = {**CLASS, "fabric": FABRIC}

LAST = f"rail 7 ({EXPECT['nic']['rails'][7]['address']})"


def expecting(**transport: Any) -> dict[str, Any]:
    return {**EXPECT, "collective": {**EXPECT["collective"], "transport": transport}}


def observation(*logs: Any, phase: str = "end") -> dict[str, Any]:
    ranks = [
        {
            "node": "gpu-1",
            "phase": phase,
            "transport": log.to_dict() if isinstance(log, NcclLog) else log,
            "versions": {"nccl": "2.26.2"},
        }
        for log in logs
    ]
    return {"group": ["gpu-1", "gpu-2"], "ranks": ranks}


def verdict(
    *observations: dict[str, Any],
    expect: dict[str, Any] = EXPECT,
    racks: dict[str, str | None] | None = None,
    domains: dict[str, str | None] | None = None,
) -> tuple[str, str]:
    (finding,) = transport_findings("gpu-1", observations, typed(expect), racks, domains)
    assert (finding.check, finding.subject) == ("transport", "network")
    return finding.verdict, finding.reason


def test_each_node_is_judged_by_its_own_ranks_of_every_job() -> None:
    other = {**observation(GOOD)["ranks"][0], "node": "gpu-2"}
    jobs = [{**job, "ranks": [*job["ranks"], other]} for job in (observation(GOOD), observation(GOOD, phase="walk"))]
    found = ranks_by_node([*jobs, {"group": ["gpu-1"]}])
    assert {node: [len(job["ranks"]) for job in mine] for node, mine in found.items()} == {
        "gpu-1": [1, 1],
        "gpu-2": [1, 1],
    }
    for node in ("gpu-1", "gpu-2"):
        assert transport_findings(node, found[node], typed(EXPECT)) == transport_findings(node, jobs, typed(EXPECT))


def test_declared_road_passes_and_one_rank_without_channels_is_no_fault() -> None:
    assert verdict(observation(GOOD, replace(GOOD, direct={}))) == (PASS, "")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"devices": {**GOOD.devices, "mlx5_bond_0": "RoCE"}}, "NCCL used mlx5_bond_0, which is no rail of the class"),
        ({"devices": {**GOOD.devices, "mlx5_0": "RoCE"}}, "NCCL used mlx5_0, which is no rail of the class"),
        ({"devices": dict.fromkeys(DEVICES[:-1], "RoCE")}, "NCCL left out rail 7 (mlx5_8)"),
        ({"devices": dict.fromkeys(DEVICES[:-1], "RoCE"), "rails": {**RAILS, "rail7": None}}, f"left out {LAST}"),
        ({"rails": {**RAILS, "rail7": None}}, f"NCCL used mlx5_8, which is no rail of the class; NCCL left out {LAST}"),
        ({"devices": {**GOOD.devices, "mlx5_3": "IB"}}, "rail 2 (mlx5_3) with link layer IB, expected RoCE"),
        ({"networks": ("Socket",), "direct": {}, "staged": {"Socket": 8}}, "NCCL went over Socket, expected RDMA"),
        ({"networks": ("AWS Libfabric",)}, "NCCL went over AWS Libfabric"),
        ({"staged": {"IB": 2}}, "2 channels through host memory, expected GPUDirect RDMA on all"),
        ({"without_gpu_direct": ("mlx5_2", "mlx5_9")}, "GPUDirect RDMA is off for rail 1 (mlx5_2)"),
        ({"nvls": False}, "NVLS is not available, the class says otherwise"),
        ({"version": "2.21.5"}, "NCCL 2.21.5 does not know NCCL_IB_FIFO_TC, expected 2.22.3 or later"),
    ],
)
def test_wrong_road_fails_by_the_worst_rank(change: dict[str, Any], said: str) -> None:
    assert verdict(observation(GOOD, replace(GOOD, **change)))[0] == FAIL
    assert said in verdict(observation(replace(GOOD, **change), GOOD), observation(GOOD))[1]


def test_rails_may_be_called_differently_on_every_host() -> None:
    names = {rail: f"rocep{26 + number}s0" for number, rail in enumerate(RAILS)}
    renamed = replace(GOOD, devices=dict.fromkeys(names.values(), "RoCE"), rails=names)
    assert verdict(observation(renamed)) == (PASS, "")
    assert verdict(observation(replace(renamed, rails=RAILS)))[0] == FAIL


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"devices": {}}, "names no RDMA device"),
        ({"networks": ()}, "names no network"),
        ({"nvls": None}, "says nothing of NVLS"),
        ({"complete": False}, "ends before its communicator is up"),
        ({"direct": {}}, "names no channel over the network"),
    ],
)
def test_silence_is_incomplete(change: dict[str, Any], said: str) -> None:
    found = verdict(observation(replace(GOOD, **change)))
    assert found[0] == INCOMPLETE
    assert said in found[1]


@pytest.mark.parametrize("log", [None, "log", {}, {"error": "NCCL wrote nothing"}])
def test_log_that_is_missing_for_one_rank_is_incomplete(log: Any) -> None:
    assert verdict(observation(GOOD, log))[0] == INCOMPLETE


def test_only_finished_collectives_count_and_without_one_nothing_is_proven() -> None:
    bad = observation(replace(GOOD, networks=("Socket",)), phase="walk")
    assert verdict(bad, observation(GOOD)) == (PASS, "")
    assert verdict(bad) == (INCOMPLETE, "no collective with this node was finished")


@pytest.mark.parametrize(
    ("asked", "change", "expected"),
    [
        ({"gpu_direct": False, "nvls": None}, {"staged": {"IB": 4}, "direct": {}, "nvls": None}, PASS),
        ({"gpu_direct": False, "nvls": False}, {"nvls": None}, PASS),
        ({"gpu_direct": False, "nvls": False}, {"nvls": True}, FAIL),
        ({"gpu_direct": True, "nvls": None}, {"nvls": False}, PASS),
    ],
)
def test_gpu_direct_and_nvls_as_the_class_says(asked: dict[str, Any], change: dict[str, Any], expected: str) -> None:
    assert verdict(observation(replace(GOOD, **change)), expect=expecting(**asked))[0] == expected


@pytest.mark.parametrize("name", ["IB", "IBext", "IBext_v8", "NCCL RDMA Plugin v8"])
def test_plugins_of_the_same_devices_are_the_same_road(name: str) -> None:
    assert verdict(observation(replace(GOOD, networks=(name,), direct={name: 4})))[0] == PASS


def test_owed_on_an_rdma_fabric_with_nccl_and_nowhere_else() -> None:
    gloo = {**EXPECT, "collective": {**EXPECT["collective"], "backend": "gloo"}}
    for expect, owed in ((EXPECT, True), (gloo, False), ({**EXPECT, "fabric": None}, False)):
        assert (("transport", "network") in required("acceptance", typed(expect))) is owed
        assert bool(transport_findings("gpu-1", [], typed(expect))) is owed


NVLINK = {**CLASS["nvlink"], "fabric_manager": False, "fabric_manager_log": None}
IN_DOMAINS = {**EXPECT, "nvlink": {**NVLINK, "domain": {"hosts": 18, "imex": None}}}
QUIET = replace(GOOD, direct={})


def test_inside_a_rack_that_is_a_domain_no_channel_over_the_network_is_the_right_road() -> None:
    one, two = {"gpu-1": "r1", "gpu-2": "r1"}, {"gpu-1": "r1", "gpu-2": "r2"}
    assert verdict(observation(QUIET), expect=IN_DOMAINS, racks=one) == (PASS, "")
    found = verdict(observation(GOOD, QUIET), expect=IN_DOMAINS, racks=one)
    assert found == (FAIL, "4 channels over the network inside rack r1, expected NVLink")
    # Between racks, and where nobody says which, channels over the network are owed as of any class.
    for racks in (two, {}, {"gpu-1": None, "gpu-2": None}):
        assert verdict(observation(GOOD), expect=IN_DOMAINS, racks=racks) == (PASS, "")
        said = (INCOMPLETE, "NCCL's log names no channel over the network")
        assert verdict(observation(QUIET), expect=IN_DOMAINS, racks=racks) == said
    assert verdict(observation(QUIET), racks=one)[0] == INCOMPLETE
    assert verdict(observation(GOOD), racks=one)[0] == PASS
    (finding,) = transport_findings("gpu-1", [observation(QUIET)], typed(IN_DOMAINS), one)
    assert finding.expected == "8 rails over RoCE, GPUDirect RDMA, NVLS, NVLink alone inside a rack"


def test_channels_over_the_network_to_a_node_of_another_domain_are_no_fault_of_this_one() -> None:
    def judged(log: NcclLog, **domains: str | None) -> tuple[str, str]:
        named = {name.replace("_", "-"): domain for name, domain in domains.items()}
        return verdict(observation(log), expect=IN_DOMAINS, racks={"gpu-1": "r1", "gpu-2": "r1"}, domains=named)

    # Whose fault it is, nvlink_rack tells.
    for other in ("u/2", "u/1,u/2", "00000000-0000-0000-0000-000000000000/0"):
        for log in (GOOD, QUIET):
            assert judged(log, gpu_1="u/1", gpu_2=other) == (PASS, "")
    assert judged(GOOD, gpu_1="u/1", gpu_2="u/1")[0] == FAIL
    for unknown in (None, "none"):
        answer, why = judged(GOOD, gpu_1="u/1", gpu_2=unknown)
        assert answer == INCOMPLETE and why.endswith("inside rack r1, and the NVLink domain of gpu-2 is unknown")
        assert judged(QUIET, gpu_1="u/1", gpu_2=unknown) == (PASS, "")
