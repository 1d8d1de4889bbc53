"""The text of a drafted fleet file: a whole fleet by kind of fabric, and comments that no host can break out of."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, read_expectations
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.cables import Cable
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.drafted_class import DraftedClass
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.fleet_file import (
    Declared,
    comment,
    fleet_text,
    put_fleet,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.network import Network
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

DECLARED = Declared(
    cluster="east",
    nodes="gpu-[01-02]",
    address="10.1.16.1",
    controller="ctl",
    controller_address="10.1.0.10",
    rail_addresses="172.[16-23].0.1/31",
    ledger_id="3d0c5f9e-2f47-4e0c-9f0a-5b8a1c6d7e21",
)
DRAFTED = DraftedClass(
    extends="xe9680_h100",
    values={"gpu": {"driver": "570.86.15"}, "cpu": {"cores": 112}},
    differences={"gpu.vbios": {"gpu-01": "96.00.A5.00.01", "gpu-02": "96.00.89.00.01"}},
    chosen={},
    unseen={"bmc": "ipmitool is not installed"},
    unread={},
    notes=("memory slots without a module: A5 (gpu-01)",),
    weaker=("nic.speed_gbps is 200, shipped 400",),
    floors=("rdma", "gpu_stress"),
    link_layer="Ethernet",
    speed_gbps=400.0,
)
BLOCK = {"switches": {"name": "leaf-[1-8]", "nodes_each": 2, "rails_each": 1}, "ports": "[1-2]"}
CABLES = {f"gpu-0{node}": {f"rail{rail}": Cable(f"leaf-{rail + 1}", str(node)) for rail in range(8)} for node in (1, 2)}
DARK = Network({"gpu-01": dict.fromkeys(CABLES["gpu-01"])}, None, None, ("bond0", "eno1"))
SEEN = Network(CABLES, BLOCK, None, ())


def expect(drafted: DraftedClass, name: str = "ours") -> Expectations:
    classes = {name: {"extends": drafted.extends, **drafted.values}}
    return read_expectations(expectations_of(name, classes, "x.fleet.yml"))


def text_of(drafted: DraftedClass = DRAFTED, network: Network = DARK, **declared: Any) -> str:
    return fleet_text(replace(DECLARED, **declared), expect(drafted), drafted, network, "Drafted today.")


def fleet_of(text: str, place: Path) -> Fleet:
    return put_fleet(text, place / "east.fleet.yml")


def test_roce_has_addresses_and_tells_cables_it_cannot_declare(tmp_path: Path) -> None:
    text = text_of(network=SEEN)
    fleet = fleet_of(text, tmp_path)
    assert (fleet.cluster, fleet.controller, fleet.fabric.kind, fleet.fabric.speed_gbps) == ("east", "ctl", "roce", 400)
    assert fleet.compute["gpu-02"].rails[7].address == "172.23.0.3/31"
    assert fleet.classes["ours"].gpu.driver == "570.86.15" and fleet.bases == {"ours": "xe9680_h100"}
    assert "#   gpu-02 rail7: leaf-8 2\n" in text and "#   ports: " in text
    assert not fleet.fabric.switches and not fleet.fabric.verify_cabling
    assert (tmp_path / "east.fleet.yml").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["east.fleet.yml"]


@pytest.mark.parametrize(
    ("link_layer", "kind", "system"),
    [("InfiniBand", "infiniband", "quantum"), ("Ethernet", "roce", "sonic"), ("Ethernet", "roce", "eos")],
)
def test_cables_of_a_fleet_that_was_seen_whole_are_declared(
    tmp_path: Path, link_layer: str, kind: str, system: str
) -> None:
    addresses = DECLARED.rail_addresses if kind == "roce" else None
    text = text_of(replace(DRAFTED, link_layer=link_layer), replace(SEEN, system=system), rail_addresses=addresses)
    fleet = fleet_of(text, tmp_path)
    assert fleet.fabric.kind == kind and fleet.fabric.verify_cabling
    assert [block.system for block in fleet.fabric.switches] == [system]
    cables = {(cable.switch, cable.port) for cable in CABLES["gpu-02"].values()}
    assert {(rail.switch, rail.port) for rail in fleet.compute["gpu-02"].rails} == cables
    assert "Cables as hosts saw" not in text


def test_infiniband_without_cables_has_rails_all_the_same(tmp_path: Path) -> None:
    text = text_of(replace(DRAFTED, link_layer="InfiniBand"), rail_addresses=None)
    fleet = fleet_of(text, tmp_path)
    assert len(fleet.compute["gpu-01"].rails) == 8 and not fleet.fabric.switches
    assert "Cables" not in text


def test_hosts_without_rails_are_a_fleet_on_plain_ethernet(tmp_path: Path) -> None:
    values = {"nic": None, "rdma": None, "affinity": {"nic_connection": None, "parts": None}}
    drafted = replace(DRAFTED, values=values, link_layer=None, speed_gbps=None)
    fleet = fleet_of(text_of(drafted), tmp_path)
    assert fleet.fabric.kind == "ethernet" and fleet.compute["gpu-01"].rails == ()


def test_roce_without_addresses_is_an_error() -> None:
    with pytest.raises(DraftError, match="--rail-addresses: found none"):
        text_of(rail_addresses=None)


def test_rails_of_an_unknown_kind_are_an_error() -> None:
    unread = replace(DRAFTED, link_layer=None, unseen={"nic.link_layer": "infiniband was not collected"})
    with pytest.raises(DraftError, match=r"nic.link_layer of the rails: infiniband was not collected"):
        text_of(unread)


def test_what_to_look_at_is_said_beside_the_class() -> None:
    lines = text_of().splitlines()
    assert lines[0] == "# Drafted today."
    for line in (
        "# Different from host to host:",
        "#   gpu.vbios: gpu-01 96.00.A5.00.01, gpu-02 96.00.89.00.01; as xe9680_h100 has it",
        "#   memory slots without a module: A5 (gpu-01)",
        "#   bmc: ipmitool is not installed",
        "# From xe9680_h100, not measured here:",
        "#   rdma, gpu_stress",
    ):
        assert lines.index(line) < lines.index("hardware_classes:")
    assert any("up on every host beside the rails: bond0, eno1" in line for line in lines)
    assert all(len(line) <= 120 for line in lines)


@pytest.mark.parametrize("break_", ["\n", "\r", "\x85", "\u2028", "\u2029", "\x0b", "\x0c"])
def test_text_of_a_host_stays_in_its_comment(break_: str, tmp_path: Path) -> None:
    evil = f"x{break_}ledger: {{url: evil}}{break_}\x1b[31m"
    drafted = replace(DRAFTED, unseen={"bmc": evil}, differences={"gpu.vbios": {"gpu-01": evil}})
    text = text_of(drafted)
    assert fleet_of(text, tmp_path).ledger.url.endswith("east.sqlite") and "\x1b" not in text
    assert yaml.safe_load(text).keys() == yaml.safe_load(text_of()).keys()


def test_long_lines_of_a_comment_are_wrapped_below_their_beginning() -> None:
    lines = comment([f"  key: {'word ' * 60}"]).splitlines()
    assert len(lines) > 2 and all(line.startswith("#       word") for line in lines[1:])


def test_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "east.fleet.yml"
    path.write_text("mine")
    with pytest.raises(DraftError, match=r"east.fleet.yml: exists"):
        put_fleet(text_of(), path)
    assert path.read_text() == "mine"


def test_text_that_is_no_fleet_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"east.fleet.yml: nodes\[0\].rails.addresses: found 2 networks"):
        fleet_of(text_of(rail_addresses="172.[16-17].0.1/31"), tmp_path)
    assert list(tmp_path.iterdir()) == []
