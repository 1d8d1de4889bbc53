import copy
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.roce.settings import PortSettings
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import stated
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError, plain
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import (
    cables_of,
    switches_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import read_fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fabric_of_host import port_settings
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import Rail

from .examples import INFINIBAND, ROCE, fleet, small_roce

FILE = "site.fleet.yml"


def test_example_has_24576_rails_and_every_link_of_the_published_fabric() -> None:
    roce = fleet(ROCE)
    cables = cables_of(roce.nodes, roce.fabric)
    tiers = Counter(switch.tier for switch in switches_of(roce.fabric).values())
    assert tiers == {"leaf": 1536, "spine": 144, "core": 27}
    assert len(cables) == 24576 + 1536 * 18 + 144 * 27
    ends = [end for cable in cables for end in cable]
    assert len(set(ends)) == len(ends)


def test_rack_switch_has_both_hosts_of_its_rack_and_one_uplink_to_each_cluster_switch_of_its_pod() -> None:
    roce = fleet(ROCE)
    nodes = {node.name: node for node in roce.nodes}
    assert nodes["gpu-0002"].rails[7] == Rail(7, "172.23.0.3/31", "172.23.0.2", "tor-0001", "Ethernet16/1")
    assert len({rail.switch for rail in nodes["gpu-0002"].rails}) == 1
    cables = [cable for cable in cables_of(roce.nodes, roce.fabric) if "tor-0193" in (cable[0].name, cable[1].name)]
    assert {cable.below.name for cable in cables[:16]} == {"gpu-0385", "gpu-0386"}
    assert [str(cable) for cable in cables[16:18]] == [
        "tor-0193 Ethernet17/1 - p2-ctsw-01 Ethernet1/1",
        "tor-0193 Ethernet18/1 - p2-ctsw-02 Ethernet1/1",
    ]
    assert len(cables) == 16 + 18


def test_rail_optimised_unit_has_one_leaf_for_each_rail_and_two_links_to_each_spine() -> None:
    west = fleet(INFINIBAND)
    nodes = {node.name: node for node in west.nodes}
    assert {nodes[f"dgx-{number:03d}"].rails[3].switch for number in range(33, 65)} == {"su2-leaf4"}
    assert nodes["dgx-064"].rails[3].port == "32"
    assert len({rail.switch for rail in nodes["dgx-064"].rails}) > 1
    between = Counter(
        (cable.below.name, cable.above.name)
        for cable in cables_of(west.nodes, west.fabric)
        if cable.above.name.startswith("spine")
    )
    assert len(between) == 32 * 16
    assert set(between.values()) == {2}


def test_adaptive_routing_needs_an_adaptive_engine():
    declared = fleet(INFINIBAND).fabric.to_dict()
    declared["subnet_manager"]["routing_engine"] = "updn"
    with pytest.raises(FleetError, match=r"routing_engine: found updn, expected an adaptive engine such as ar_updn"):
        read_fabric(declared, "test")
    assert read_fabric({**declared, "routing": "static"}, "test").routing == "static"


@pytest.mark.parametrize("path", [ROCE, INFINIBAND], ids=["roce", "infiniband"])
def test_variables_read_back_the_same(path: Any) -> None:
    whole = fleet(path)
    variables = json.loads(json.dumps({**whole.variables(), "nodes": whole.node_variables()}))
    assert Fleet.from_variables(variables) == whole


def test_class_gets_link_layer_and_mtu_of_the_fabric() -> None:
    roce = fleet(ROCE).classes["xe9680_h100"]
    roce_nic, roce_fabric = stated(roce.nic), stated(roce.fabric)
    assert (roce_nic.link_layer, roce_nic.mtu_bytes, roce_fabric.kind) == ("Ethernet", 9000, "roce")
    infiniband = fleet(INFINIBAND).classes["dgx_h100"]
    assert stated(infiniband.nic).link_layer == "InfiniBand"
    assert plain(infiniband.fabric) == {
        "kind": "infiniband",
        "routing": "adaptive",
        "peer_memory": "dmabuf",
        "port": None,
        "nccl_least": None,
        "verify_cabling": True,
        "ipoib": "datagram",
    }
    assert stated(infiniband.fabric).has_interfaces and roce_fabric.has_interfaces


def test_port_is_set_to_what_the_declaration_says() -> None:
    roce = fleet(ROCE)
    node = next(node for node in roce.nodes if node.name == "gpu-0001")
    ports = port_settings(roce.fabric, node.rails, roce.classes["xe9680_h100"])
    port = PortSettings.from_dict(ports[0])
    assert (port.name, port.address, port.ip) == ("rail0", "0000:1a:00.0", "172.16.0.1/31")
    assert port.mtu_bytes == 9000
    assert port.priorities == {26: 3, 46: 5, 48: 6}
    assert port.lossless_priorities == (3, 5)
    # DSCP 26 without ECT, as DCQCN is off; no device-wide class, since control differs from data.
    assert (port.cm_tos, port.traffic_class, port.dcqcn) == (104, None, False)
    assert port.to_dict() == ports[0]


def test_dcqcn_marks_packets_as_taking_part() -> None:
    declared = small_roce()
    declared["fabric"]["dcqcn"] = True
    roce = Fleet.from_data(declared, FILE)
    port = stated(stated(roce.classes["xe9680_h100"].fabric).port)
    assert (port.cm_tos, port.dcqcn) == (106, True)


def test_best_effort_leaves_priorities_alone_and_reads_back() -> None:
    declared = small_roce()
    for key in ("dcqcn", "buffers"):
        declared["fabric"].pop(key, None)
    declared["fabric"] |= {"backend": "inbox", "qos": "best_effort"}
    roce = Fleet.from_data(declared, FILE)
    port = PortSettings.from_dict(port_settings(roce.fabric, roce.nodes[1].rails, roce.classes["xe9680_h100"])[0])
    assert (roce.fabric.qos, port.priorities, port.lossless_priorities, port.cm_tos) == (None, {}, (), 0)
    assert roce.fabric.to_dict()["qos"] == "best_effort"
    assert read_fabric(roce.fabric.to_dict(), "muster_fleet") == roce.fabric


@pytest.mark.parametrize(("backend", "dcqcn"), [("doca", False), ("inbox", None)])
def test_dcqcn_is_by_default_what_the_backend_can_do(backend: str, dcqcn: bool | None) -> None:
    declared = small_roce()
    declared["fabric"].pop("dcqcn", None)
    declared["fabric"]["backend"] = backend
    assert Fleet.from_data(declared, FILE).fabric.dcqcn is dcqcn


def test_notifications_are_marked_only_where_there_are_some() -> None:
    declared = small_roce()
    for dcqcn, marks in ((False, (None, None)), (True, (48, 6))):
        declared["fabric"]["dcqcn"] = dcqcn
        port = stated(stated(Fleet.from_data(declared, FILE).classes["xe9680_h100"].fabric).port)
        assert (port.cnp_dscp, port.cnp_priority) == marks


def test_device_wide_class_only_where_control_is_marked_like_data() -> None:
    declared = small_roce()
    declared["fabric"]["qos"]["control"] = declared["fabric"]["qos"]["data"]
    port = stated(stated(Fleet.from_data(declared, FILE).classes["xe9680_h100"].fabric).port)
    assert port.traffic_class == 104


def test_control_marked_unlike_data_needs_an_nccl_that_can_do_it() -> None:
    declared = small_roce()
    assert stated(Fleet.from_data(declared, FILE).classes["xe9680_h100"].fabric).nccl_least == "2.22.3"
    declared["fabric"]["qos"]["control"] = declared["fabric"]["qos"]["data"]
    assert stated(Fleet.from_data(declared, FILE).classes["xe9680_h100"].fabric).nccl_least is None


def test_port_file_with_a_wrong_value_names_it() -> None:
    port = port_settings(fleet(ROCE).fabric, fleet(ROCE).nodes[1].rails, fleet(ROCE).classes["xe9680_h100"])[0]
    with pytest.raises(ReadError, match='mtu_bytes: found "9000", expected a whole number of at least 1'):
        PortSettings.from_dict({**port, "mtu_bytes": "9000"})


def spoil(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def spoiled(whole: Any) -> None:
        for key in path[:-1]:
            whole = whole[key]
        whole[path[-1]] = to

    return spoiled


FABRIC, RAILS, SWITCH = ("fabric",), ("nodes", 0, "rails"), ("fabric", "switches", 0)
BAD = [
    (spoil(*FABRIC, "qos", "data", "dscp", to=64), r"qos.data.dscp: found 64, expected a number from 0 to 63"),
    (spoil(*FABRIC, "qos", "data", "priority", to=8), r"qos.data.priority: found 8, expected a number from 0 to 7"),
    (spoil(*FABRIC, "qos", "cnp", "dscp", to=46), r"qos.cnp.priority: found 6, expected 5, as DSCP 46 is that of con"),
    (spoil(*FABRIC, "qos", "cnp", "priority", to=5), r"qos.cnp.lossless: found false, expected true, as priority 5"),
    (
        spoil(*FABRIC, "qos", "data", "lossless", to=False),
        r"data.lossless: found false, expected true, as dcqcn is off",
    ),
    (spoil(*FABRIC, "qos", "data", to=None), r"fabric.qos.data: found nothing, expected a mapping"),
    (spoil(*FABRIC, "qos", to="lossy"), r"fabric.qos: found \"lossy\", expected a mapping"),
    (
        lambda whole: whole["fabric"].update(qos="best_effort", dcqcn=True),
        r"dcqcn: found true, expected false, as qos is best_effort",
    ),
    (
        lambda whole: whole["fabric"].update(
            qos="best_effort", dcqcn=False, buffers={"sizes_bytes": [8] * 8, "of_priority": [0] * 8}
        ),
        r"buffers: found buffers, expected nothing, as qos is best_effort",
    ),
    (spoil(*FABRIC, "mtu_bytes", to=1500), r"mtu_bytes: found 1500, expected a whole number of at least 4220"),
    (
        spoil(*FABRIC, "routing", to="adaptive"),
        r"routing: found \"adaptive\", expected one of ecmp, e_ecmp, packet_spray",
    ),
    (spoil(*FABRIC, "backend", to="auto"), r"backend: found \"auto\", expected one of doca, inbox"),
    (spoil(*FABRIC, "ipoib", to="datagram"), r"ipoib: found \"datagram\", expected nothing, as only a .* infiniband"),
    (
        spoil(*FABRIC, "speed_gbps", to=200),
        r"fabric.speed_gbps: found 200 there and 400 as hardware_classes.xe9680_h100",
    ),
    (spoil(*FABRIC, "nccl", to={"settings": {"NCCL_X": True}}), r"settings.NCCL_X: found true, expected a number, a"),
    (spoil(*FABRIC, "nccl", to={"topology_file": "topo.xml"}), r"topology_file: found .* expected an absolute path"),
    (spoil(*FABRIC, "buffers", to={"sizes_bytes": [1], "of_priority": []}), r"sizes_bytes: found 1 numbers, expected"),
    (spoil(*RAILS, "ports", to="Ethernet[1-15]/1"), r"rails.ports: found 15 ports, expected 16 ports, 2 nodes with 8"),
    (spoil(*RAILS, "switches", "rails_each", to=3), r"rails_each: found 3, expected a number that divides the 8 rails"),
    (spoil(*RAILS, "switches", "name", to="tor-[1-3]"), r"name: found \"tor-\[1-3\]\" \(3 switches\), expected 4"),
    (
        spoil(*RAILS, "switches", "name", to="t-[1-4]"),
        r'rail 0 of gpu-1 at "t-1", expected a switch of fabric.switches',
    ),
    (spoil(*RAILS, "gateways", to="172.[16-23].9.9"), r"gateways: found .* expected nothing, as the other address of"),
    (spoil(*SWITCH, "tier", to="rack"), r"switches\[0\].tier: found \"rack\", expected one of leaf, spine, core"),
    (spoil(*SWITCH, "system", to="ios"), r"system: found \"ios\", expected one of sonic, cumulus, eos"),
    (spoil(*SWITCH, "uplinks", "to", to="x-[1-4]"), r'uplinks.to: found "x-1", expected switches of .* tier spine'),
    (
        spoil(*SWITCH, "uplinks", "groups", to=3),
        r"uplinks.groups: found 3, expected a number that divides the 4 switch",
    ),
    (
        spoil(*SWITCH, "uplinks", "ports", to="e[1-6]"),
        r"uplinks.ports: found 6 ports, expected as many to each of the 4",
    ),
    (spoil(*SWITCH, "uplinks", "at", to="e[1-9]"), r"uplinks.at: found 9 ports, expected 8 ports, 2 for each of the 4"),
    (spoil(*SWITCH, "uplinks", "ports", to="Ethernet[1-8]/1"), r"Ethernet1/1 with two cables, to gpu-1 rail0 and to"),
    (spoil(*FABRIC, "switches", 1, "name", to="tor-[1-4]"), r'switches\[1\].name: found switch "tor-1" again'),
    (spoil("hosts", 0, "role", to="subnet_manager"), r"ctl with role subnet_manager, expected none, as fabric.subnet"),
]


@pytest.mark.parametrize(("fault", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_fault_is_named_by_key_found_and_expected(fault: Callable[[Any], None], message: str) -> None:
    declared = copy.deepcopy(small_roce())
    Fleet.from_data(declared, FILE)
    fault(declared)
    with pytest.raises(FleetError, match=message):
        Fleet.from_data(declared, FILE)


def test_cables_are_verified_where_switches_are_declared_unless_somebody_says_no() -> None:
    data = small_roce()
    assert Fleet.from_data(data, FILE).fabric.verify_cabling is True
    data["fabric"]["verify_cabling"] = False
    unverified = Fleet.from_data(data, FILE)
    assert unverified.fabric.verify_cabling is False
    assert [stated(expect.fabric).verify_cabling for expect in unverified.classes.values()] == [False]


def test_rail_without_a_declared_port_cannot_be_verified() -> None:
    data = small_roce()
    for key in ("switches", "ports"):
        del data["nodes"][0]["rails"][key]
    with pytest.raises(FleetError, match=r"verify_cabling: found true, and no switch for rail 0 of gpu-1, expected"):
        Fleet.from_data(data, FILE)
    data["fabric"]["verify_cabling"] = False
    Fleet.from_data(data, FILE)


@pytest.mark.parametrize("fabric", [{"kind": "ethernet"}, {"kind": "roce", "speed_gbps": 400}])
def test_without_switches_there_is_nothing_to_verify(fabric: dict[str, Any]) -> None:
    assert not read_fabric(fabric, "test").verify_cabling
    with pytest.raises(FleetError, match=r"fabric\.verify_cabling: .* no RDMA rails with switches"):
        read_fabric({**fabric, "verify_cabling": True}, "test")
