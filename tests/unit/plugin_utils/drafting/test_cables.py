"""Cables as hosts hear of them, and the patterns of a fleet's block that give exactly these cables."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import blocks
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.cables import Cable, block_of, seen_cables
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.drafted_class import draft_class
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.name_pattern import pattern_of
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.network import network_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.node_names import expand
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import BlockRails, places_of_block
from hypothesis import given, settings
from hypothesis import strategies as st

from .hosts import collected, expectations, hgx_b200_outputs

RAILS = ("0000:1a:00.0", "0000:3c:00.0")
NAMES = Output(
    "".join(
        f"/sys/bus/pci/devices/{address}/{kind}\n"
        for rail, address in enumerate(RAILS)
        for kind in (f"infiniband/mlx5_{rail}", f"net/rdma{rail}")
    )
)


def heard(*entries: tuple[str, str, str]) -> Output:
    """Return what lldpctl prints of neighbours: interface, switch and port."""
    interfaces = [
        {name: {"via": "LLDP", "chassis": {switch: {"id": {"value": "02:00"}}}, "port": {"id": {"value": port}}}}
        for name, switch, port in entries
    ]
    return Output(json.dumps({"lldp": {"interface": interfaces}}))


def asked(*entries: tuple[str, str, int]) -> Output:
    """Return what smpquery prints of neighbours: RDMA device, switch and port."""
    texts: dict[str, Output] = {}
    for device, switch, port in entries:
        texts[f"{device} nodedesc"] = Output(f"Node Description:....MF0;{switch}:MQM9700/U1\n")
        texts[f"{device} nodeinfo"] = Output(f"NodeType:....Switch\nLocalPort:....{port}\n")
    return blocks.listed(texts)


def test_ethernet_rails_are_known_by_their_interfaces() -> None:
    lldp = heard(("rdma1", "leaf-2", "swp7"), ("rdma0", "leaf-1", "swp7"), ("eth0", "management-1", "swp1"))
    outputs = {"rail_names": NAMES, "lldp": lldp, "infiniband_neighbours": asked()}
    assert seen_cables(outputs, RAILS) == [Cable("leaf-1", "swp7"), Cable("leaf-2", "swp7")]
    assert seen_cables(outputs, RAILS[::-1]) == [Cable("leaf-2", "swp7"), Cable("leaf-1", "swp7")]


def test_infiniband_rails_are_known_by_their_devices() -> None:
    outputs = {"rail_names": NAMES, "infiniband_neighbours": asked(("mlx5_1", "leaf-2", 3), ("mlx5_0", "leaf-1", 3))}
    assert seen_cables(outputs, RAILS) == [Cable("leaf-1", "3", "quantum"), Cable("leaf-2", "3", "quantum")]


@pytest.mark.parametrize(
    ("software", "system"),
    [
        ("Arista Networks EOS version 4.24.4M running on an Arista Networks 7368", "eos"),
        ("SONiC Software Version: SONiC.202311 - HwSku: X - Distribution: Debian 11.11", "sonic"),
        ("Cumulus Linux version 5.9.0 running on Mellanox Technologies Ltd. MSN4600C", "cumulus"),
        ("Cisco Nexus Operating System", None),
    ],
)
def test_switch_says_by_which_software_it_runs(software: str, system: str | None) -> None:
    data = json.loads(heard(("rdma0", "leaf-1", "etp1")).stdout)
    (interface,) = data["lldp"]["interface"]
    interface["rdma0"]["chassis"]["leaf-1"]["descr"] = software
    interface["rdma0"]["port"]["descr"] = "Ethernet0"
    outputs = {"rail_names": NAMES, "lldp": Output(json.dumps(data))}
    assert seen_cables(outputs, RAILS) == [Cable("leaf-1", "Ethernet0", system), None]


LLDP = heard(("rdma0", "leaf-1", "swp7"))


@pytest.mark.parametrize(
    "outputs",
    [
        {},
        {"lldp": LLDP},
        {"rail_names": Output("no path\n"), "lldp": LLDP},
        {"rail_names": NAMES, "lldp": Output(rc=None, error="lldpctl: not found")},
        {"rail_names": NAMES, "lldp": heard(("rdma0", "leaf-1", "swp7"), ("rdma0", "leaf-2", "swp7"))},
        {"rail_names": NAMES, "lldp": LLDP, "infiniband_neighbours": asked(("mlx5_0", "leaf-2", 3))},
    ],
    ids=["nothing", "no names", "names unread", "no tool", "two neighbours", "two kinds"],
)
def test_cable_that_is_not_certain_is_not_known(outputs: dict[str, Output]) -> None:
    assert seen_cables(outputs, RAILS) == [None, None]


def test_rail_that_hears_nobody_takes_no_other_rails_cable() -> None:
    assert seen_cables({"rail_names": NAMES, "lldp": LLDP}, RAILS) == [Cable("leaf-1", "swp7"), None]
    assert seen_cables({"rail_names": NAMES, "lldp": LLDP}, ("0000:dc:00.0", RAILS[0])) == [
        None,
        Cable("leaf-1", "swp7"),
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        "leaf-1",
        "leaf-[1-8]",
        "[08-12]",
        "[8-12]",
        "Ethernet[0-56:8]",
        "[1,3-5]",
        "[9,1-2]",
        "leaf-[101-104,201-204]",
        "su[1-2]-leaf[1-4]",
        "swp[1-2]s[0-1]",
        "[1-4]/[1,3]",
        "p[01-02]-[1-2]-[7-8]x",
    ],
)
def test_names_fold_into_their_pattern(pattern: str) -> None:
    assert pattern_of(expand(pattern)) == pattern


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["a", "b"],
        ["a1", "b2"],
        ["a1", "a1-2"],
        ["a1-b1", "a2-b2"],
        ["a1-b1", "a2-b1", "a1-b2"],
        ["x", "x"],
        ["[1]"],
    ],
)
def test_names_without_a_pattern_have_none(names: list[str]) -> None:
    assert pattern_of(names) is None


@given(st.lists(st.tuples(st.integers(0, 120), st.integers(1, 3)), min_size=1, max_size=30, unique=True))
def test_any_numbers_in_any_order_and_width_fold(numbers: list[tuple[int, int]]) -> None:
    names = list(dict.fromkeys(f"leaf-{number:0{width}d}" for number, width in numbers))
    folded = pattern_of(names)
    assert folded is not None and expand(folded) == names


def cables_of(declared: dict[str, object], nodes: int, rails: int) -> list[list[Cable | None]]:
    """Return the cables that the fleet gives the nodes of a block."""
    places = [
        Cable(str(switch), str(port)) for switch, port in places_of_block(read(BlockRails, declared), nodes, rails)
    ]
    return [list(places[start : start + rails]) for start in range(0, len(places), rails)]


def block(switches: str, nodes_each: int, rails_each: int, ports: str) -> dict[str, object]:
    """Return the keys of a block's rails that say where the cables go."""
    return {"switches": {"name": switches, "nodes_each": nodes_each, "rails_each": rails_each}, "ports": ports}


@pytest.mark.parametrize(
    ("nodes", "rails", "wanted"),
    [
        (32, 8, block("leaf-[1-8]", 32, 1, "[1-32]")),
        (4, 8, block("leaf-r[1-2]", 2, 8, "Ethernet[1-16]")),
        (3, 8, block("leaf-r[1-2]", 2, 8, "swp[1-8]s[0-1]")),
        (1, 8, block("leaf-[1-8]", 1, 1, "7")),
        (1, 8, block("leaf-1", 1, 8, "[1-8]")),
        (1, 8, block("leaf-[1-2]", 1, 4, "Ethernet[0-24:8]")),
        (64, 8, block("su[1-2]-leaf[1-8]", 32, 1, "[01-32]")),
        (2, 1, block("leaf-1", 2, 1, "[3,1]")),
        (1, 1, block("leaf", 1, 1, "1/1/c1")),
    ],
)
def test_block_is_found_from_its_cables(nodes: int, rails: int, wanted: dict[str, object]) -> None:
    assert block_of(cables_of(wanted, nodes, rails)) == wanted


@st.composite
def blocks_of_fleets(draw: st.DrawFn) -> tuple[dict[str, object], int, int]:
    """Return a block with its numbers of nodes and rails, wired by rail, by rack or between the two."""
    rails_each, across, nodes = (draw(st.integers(1, most)) for most in (8, 8, 12))
    nodes_each = draw(st.integers(1, nodes))
    first = draw(st.sampled_from(["1", "001", "100", "901"]))
    last = f"{int(first) + -(-nodes // nodes_each) * across - 1:0{len(first)}d}"
    step = draw(st.sampled_from([1, 2, 8]))
    ports = f"Ethernet[0-{(nodes_each * rails_each - 1) * step}:{step}]"
    return block(f"leaf-[{first}-{last}]", nodes_each, rails_each, ports), nodes, rails_each * across


@settings(deadline=None)
@given(blocks_of_fleets())
def test_block_that_is_found_gives_the_same_cables(drawn: tuple[dict[str, object], int, int]) -> None:
    declared, nodes, rails = drawn
    cables = cables_of(declared, nodes, rails)
    found = block_of(cables)
    assert found is not None and cables_of(found, nodes, rails) == cables


@settings(deadline=None)
@given(blocks_of_fleets(), st.data())
def test_exchanged_cables_are_in_the_block_or_there_is_none(
    drawn: tuple[dict[str, object], int, int], data: st.DataObject
) -> None:
    declared, nodes, rails = drawn
    cables = cables_of(declared, nodes, rails)
    (one, rail), (other, at) = (
        (data.draw(st.integers(0, nodes - 1)), data.draw(st.integers(0, rails - 1))) for _ in range(2)
    )
    cables[one][rail], cables[other][at] = cables[other][at], cables[one][rail]
    found = block_of(cables)
    assert found is None or cables_of(found, nodes, rails) == cables


@pytest.mark.parametrize(
    "cables",
    [
        [],
        [[]],
        [[Cable("leaf-1", "1"), None]],
        [[Cable("leaf-1", "1"), Cable("leaf-1", "1")]],
        [[Cable("leaf-1", "1"), Cable("leaf-2", "1")], [Cable("leaf-1", "2")]],
        [[Cable("leaf-1", "1")], [Cable("leaf-1", "2"), Cable("leaf-2", "1")], [Cable("leaf-3", "1")]],
        [[Cable("leaf-a", "1"), Cable("leaf-b", "1")]],
        [[Cable("leaf-1", "1"), Cable("leaf-2", "2")]],
        [[Cable("leaf-1", "1")], [Cable("leaf-2", "1")], [Cable("leaf-2", "2")]],
        [[Cable("Quantum Mellanox Technologies", "1")]],
        [[Cable("leaf-1", "Ethernet 1")]],
    ],
)
def test_cables_that_no_block_gives_have_none(cables: Sequence[Sequence[Cable | None]]) -> None:
    assert block_of(cables) is None


def test_interface_of_a_nic_that_manages_nvswitches_is_no_front_end() -> None:
    outputs = hgx_b200_outputs()
    expect = expectations(draft_class([collected(outputs)]))
    without = {name: output for name, output in outputs.items() if name != "nvswitch_nics"}
    assert "ibp8" in network_of([collected(without)], expect, "gpu-01").interfaces
    assert "ibp8" not in network_of([collected(outputs)], expect, "gpu-01").interfaces
