"""NCCL's variables by kind of fabric, routing and topology; a site's settings cannot contradict the declaration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, GpuStack, Package
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.nccl import DEBUGGING_AIDS, nccl_variables
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import Fabric, Nccl
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import Rail

from .examples import INFINIBAND, ROCE, fleet

ALL = "=" + ",".join(f"rail{number}" for number in range(8))
PATIENCE = {"NCCL_IB_TIMEOUT": "22", "NCCL_IB_RETRY_CNT": "7"}
ON_ROCE = {
    "NCCL_SOCKET_IFNAME": "=bond0",
    "NCCL_IB_HCA": ALL,
    "NCCL_IB_QPS_PER_CONNECTION": "16",
    "NCCL_IB_SPLIT_DATA_ON_QPS": "0",
    "NCCL_IB_ROCE_VERSION_NUM": "2",
    "NCCL_IB_TC": "104",
    "NCCL_IB_FIFO_TC": "184",
    **PATIENCE,
    "NCCL_IB_ADAPTIVE_ROUTING": "0",
    "NCCL_CROSS_NIC": "2",
}
ON_INFINIBAND = {
    "NCCL_SOCKET_IFNAME": "=bond0",
    "NCCL_IB_HCA": ALL,
    "NCCL_IB_QPS_PER_CONNECTION": "1",
    **PATIENCE,
    "NCCL_IB_ADAPTIVE_ROUTING": "1",
    "NCCL_CROSS_NIC": "0",
}
ETHERNET = Fabric(kind="ethernet", socket_interface="eth0")


def node_of(whole: Fleet) -> tuple[Fabric, tuple[Rail, ...], Expectations]:
    node = next(node for node in whole.nodes if node.rails)
    return whole.fabric, node.rails, whole.classes[str(node.hardware_class)]


def given(fabric: Fabric, rails: tuple[Rail, ...], expect: Expectations) -> dict[str, str]:
    found = nccl_variables(fabric, rails, expect)
    assert len({each.name for each in found}) == len(found)
    for each in found:
        assert each.reason
        # Versions that know no comments take what has an equals sign for a setting.
        assert not set("=\n\r") & set(each.reason), each
    return {each.name: each.value for each in found}


def on(path: Any, nccl: Nccl | None = None, **fabric: Any) -> dict[str, str]:
    declared, rails, expect = node_of(fleet(path))
    return given(replace(declared, **({"nccl": nccl} if nccl else {}), **fabric), rails, expect)


def test_both_examples_in_full() -> None:
    assert on(ROCE) == ON_ROCE
    assert list(on(ROCE)) == list(ON_ROCE)
    assert on(INFINIBAND) == ON_INFINIBAND


def test_ethernet_disables_rdma_and_needs_no_rails() -> None:
    expect = node_of(fleet(ROCE))[2]
    assert given(ETHERNET, (), expect) == {"NCCL_SOCKET_IFNAME": "=eth0", "NCCL_IB_DISABLE": "1"}
    assert given(replace(ETHERNET, socket_interface=None), (), expect) == {"NCCL_IB_DISABLE": "1"}


@pytest.mark.parametrize(
    ("path", "routing", "queue_pairs", "split", "adaptive"),
    [
        (ROCE, "ecmp", "16", "0", "0"),
        (ROCE, "e_ecmp", "16", "0", "0"),
        (ROCE, "packet_spray", "1", None, "1"),
        (INFINIBAND, "adaptive", "1", None, "1"),
        (INFINIBAND, "static", "1", None, "0"),
    ],
)
def test_routing_decides_queue_pairs_and_order(path, routing, queue_pairs, split, adaptive) -> None:
    found = on(path, routing=routing)
    assert found["NCCL_IB_QPS_PER_CONNECTION"] == queue_pairs
    assert found.get("NCCL_IB_SPLIT_DATA_ON_QPS") == split
    assert found["NCCL_IB_ADAPTIVE_ROUTING"] == adaptive


@pytest.mark.parametrize(
    ("nccl", "queue_pairs", "split"),
    [
        (Nccl(qps_per_connection=8), "8", "0"),
        (Nccl(qps_per_connection=1), "1", None),
        (Nccl(split_data_on_qps=True), "16", "1"),
        (Nccl(qps_per_connection=128, split_data_on_qps=False), "128", "0"),
    ],
)
def test_declared_queue_pairs_win(nccl: Nccl, queue_pairs: str, split: str | None) -> None:
    found = on(ROCE, nccl)
    assert (found["NCCL_IB_QPS_PER_CONNECTION"], found.get("NCCL_IB_SPLIT_DATA_ON_QPS")) == (queue_pairs, split)


def test_undeclared_switches_give_four_queue_pairs_to_start_with_and_no_word_on_crossing() -> None:
    fabric, rails, expect = node_of(fleet(ROCE))
    found = given(replace(fabric, switches=()), tuple(Rail(rail.rail) for rail in rails), expect)
    assert found["NCCL_IB_QPS_PER_CONNECTION"] == "4"
    assert "NCCL_CROSS_NIC" not in found


@pytest.mark.parametrize(("path", "shared", "cross"), [(ROCE, True, "2"), (INFINIBAND, True, "1"), (ROCE, False, "0")])
def test_crossing_rails_follows_the_leaves(path: Any, shared: bool, cross: str) -> None:
    fabric, rails, expect = node_of(fleet(path))
    moved = tuple(replace(rail, switch=rails[0].switch if shared else f"leaf-{rail.rail}") for rail in rails)
    assert given(fabric, moved, expect)["NCCL_CROSS_NIC"] == cross


def test_rails_are_named_in_their_order() -> None:
    fabric, rails, expect = node_of(fleet(ROCE))
    assert given(fabric, rails[::-1], expect)["NCCL_IB_HCA"] == ALL


def test_marks_follow_qos() -> None:
    fabric = node_of(fleet(ROCE))[0]
    assert fabric.qos
    alike = replace(fabric.qos, control=fabric.qos.data)
    assert "NCCL_IB_FIFO_TC" not in on(ROCE, qos=alike)
    with_ect = on(ROCE, dcqcn=True)
    assert (with_ect["NCCL_IB_TC"], with_ect["NCCL_IB_FIFO_TC"]) == ("106", "186")
    best_effort = on(ROCE, qos=None)
    assert not {"NCCL_IB_TC", "NCCL_IB_FIFO_TC"} & set(best_effort)


def test_site_overrides_adds_and_takes_out() -> None:
    settings = {"NCCL_IB_TIMEOUT": 23, "NCCL_CROSS_NIC": None, "NCCL_CUMEM_ENABLE": 0, "NCCL_IB_SL": 1}
    found = on(ROCE, Nccl(settings=settings))
    assert found == {
        **{name: value for name, value in ON_ROCE.items() if name != "NCCL_CROSS_NIC"},
        "NCCL_IB_TIMEOUT": "23",
        "NCCL_CUMEM_ENABLE": "0",
        "NCCL_IB_SL": "1",
    }


def test_saying_the_same_twice_is_no_contradiction() -> None:
    assert on(ROCE, Nccl(settings={"NCCL_IB_TC": 104, "NCCL_IB_HCA": ALL})) == ON_ROCE


def test_topology_file_is_named_where_it_is_installed() -> None:
    assert on(ROCE, Nccl(topology_file="/srv/topo.xml"))["NCCL_TOPO_FILE"] == "/etc/nccl_topo.xml"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"NCCL_IB_HCA": "mlx5"}, f'NCCL_IB_HCA: found "mlx5", expected {ALL}, as nodes.rails says'),
        ({"NCCL_IB_HCA": None}, f"found nothing, expected {ALL}, as nodes.rails says"),
        ({"NCCL_IB_DISABLE": 1}, "found 1, expected nothing, as fabric.kind decides it"),
        ({"NCCL_NET": "Socket"}, "expected nothing, as fabric.kind decides it"),
        ({"NCCL_IB_TC": 106}, "found 106, expected 104, as fabric.qos.data says"),
        ({"NCCL_IB_FIFO_TC": None}, "expected 184, as fabric.qos.control says"),
        ({"NCCL_IB_QPS_PER_CONNECTION": 2}, "expected 16, as fabric.nccl.qps_per_connection says"),
        ({"NCCL_IB_SPLIT_DATA_ON_QPS": 1}, "expected 0, as fabric.nccl.split_data_on_qps says"),
        ({"NCCL_IB_ADAPTIVE_ROUTING": 1}, "expected 0, as fabric.routing says"),
        ({"NCCL_SOCKET_IFNAME": "eth"}, "expected =bond0, as fabric.socket_interface says"),
        ({"NCCL_TOPO_FILE": "/x.xml"}, "expected nothing, as fabric.nccl.topology_file decides it"),
        ({"NCCL_NVLS_ENABLE": 0}, "expected anything that allows it, as collective.transport.nvls"),
        ({"NCCL_NET_GDR_LEVEL": "LOC"}, "as collective.transport.gpu_direct of the hardware class"),
        ({"NCCL_X": "1\nNCCL_Y=2"}, "NCCL_X: found .* expected one line"),
    ],
)
def test_contradiction_is_an_error_that_names_both_sides(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        on(ROCE, Nccl(settings=settings))


@pytest.mark.parametrize("name", DEBUGGING_AIDS)
@pytest.mark.parametrize("value", ["INFO", None])
def test_debugging_aid_is_an_error_that_names_it(name: str, value: str | None) -> None:
    with pytest.raises(FleetError, match=rf"settings.{name}: found .* it is a debugging aid"):
        on(INFINIBAND, Nccl(settings={name: value}))


def test_more_queue_pairs_than_nccl_makes_are_an_error() -> None:
    with pytest.raises(FleetError, match="qps_per_connection: found 129, expected at most 128"):
        on(ROCE, Nccl(qps_per_connection=129))


def test_rdma_may_not_be_enabled_on_ethernet_nor_go_without_rails() -> None:
    fabric, _, expect = node_of(fleet(ROCE))
    with pytest.raises(FleetError, match=r"NCCL_IB_DISABLE: found 0, expected 1, as fabric.kind says"):
        given(replace(ETHERNET, nccl=Nccl(settings={"NCCL_IB_DISABLE": 0})), (), expect)
    with pytest.raises(FleetError, match="found no rails, expected rails, as the fabric is roce"):
        given(fabric, (), expect)


@pytest.mark.parametrize(("version", "good"), [("2.21.5-1+cuda12.4", False), ("2.22.3-1+cuda12.6", True)])
def test_declared_nccl_too_old_for_control_of_its_own_is_an_error(version: str, good: bool) -> None:
    fabric, rails, expect = node_of(fleet(ROCE))
    assert expect.gpu is not None
    driver = replace(expect.gpu, driver="570.86.15")
    expect = replace(expect, gpu=driver, gpu_stack=GpuStack((Package("libnccl2", version),), ()))
    if good:
        assert given(fabric, rails, expect) == ON_ROCE
    else:
        with pytest.raises(FleetError, match=r"libnccl2 2.21.5-1\+cuda12.4, expected 2.22.3 or later, as fabric.qos"):
            given(fabric, rails, expect)
