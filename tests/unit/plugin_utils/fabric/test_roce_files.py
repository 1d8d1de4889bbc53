"""Files of a RoCE host."""

from __future__ import annotations

import configparser
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.lookup.roce_ports import roce_ports
from ansible_collections.muster.cluster.plugins.module_utils.roce.settings import PortSettings
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.rail_network import PlacedRail, keyfile, networkd
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.roce_files import (
    RoceError,
    absent_of,
    files_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError

from .examples import INFINIBAND, ROCE, fleet


def ports_of(**fabric: Any) -> list[dict[str, Any]]:
    roce = fleet(ROCE)
    node = next(node for node in roce.nodes if node.name == "gpu-0001")
    variables = roce.node_variables()["gpu-0001"]
    assert variables["rails"][0]["address"] == node.rails[0].address
    declared = {**json.loads(json.dumps(roce.fabric.to_dict())), **fabric}
    return roce_ports(variables, declared, roce.variables()["classes"]["xe9680_h100"])


def port(**changes: Any) -> PortSettings:
    given = {key: value for key, value in ports_of()[2].items() if key != "gateway"}
    return PortSettings.from_dict({**given, **changes})


RAIL = PlacedRail(2, "0000:4d:00.0", "172.18.0.1/31", "172.18.0.0")


def test_lookup_gives_each_rail_with_its_gateway() -> None:
    ports = ports_of()
    assert [each["rail"] for each in ports] == list(range(8))
    assert (ports[2]["ip"], ports[2]["gateway"]) == ("172.18.0.1/31", "172.18.0.0")
    assert not {"device", "interface"} & set(ports[2])


def test_lookup_gives_nothing_on_another_fabric() -> None:
    infiniband = fleet(INFINIBAND)
    node = next(node for node in infiniband.node_variables().values() if node["rails"])
    assert roce_ports(node, infiniband.fabric.to_dict(), infiniband.variables()["classes"]["dgx_h100"]) == []


def test_lookup_names_what_the_backend_cannot_do() -> None:
    with pytest.raises(
        ValueError, match=r"rail 0 \(0000:[^)]*\): backend inbox cannot set dcqcn \(declared: notification: 3 5 6"
    ):
        ports_of(backend="inbox", dcqcn=True)


def test_lookup_misses_a_rail_that_the_class_has() -> None:
    roce = fleet(ROCE)
    node = roce.node_variables()["gpu-0001"]
    with pytest.raises(FleetError, match="rails: found rails 0, 1, 2, 3, 4, 5, 6, expected 0, 1, 2, 3, 4, 5, 6, 7"):
        roce_ports(
            {**node, "rails": node["rails"][:7]}, roce.fabric.to_dict(), roce.variables()["classes"]["xe9680_h100"]
        )


def test_settings_are_read_back_by_the_unit() -> None:
    files = {each["path"]: each for each in files_of(ports_of(), "networkd")}
    assert PortSettings.from_json(files["/etc/muster/roce/rail2.json"]["content"]) == port()
    wants = files["/etc/systemd/system/multi-user.target.d/50-muster-roce.conf"]["content"]
    assert wants.count("Wants=muster-roce@rail") == 8
    assert "Wants=systemd-networkd.service\n" in wants


@pytest.mark.parametrize("network", ["networkd", "networkmanager"])
def test_no_file_names_a_device_or_an_interface(network: str) -> None:
    # A reboot may change what the system calls them.
    for each in files_of(ports_of(), network):
        assert not re.search(r"mlx5_\d|rdma\d|interface-name|^Name=|%k", f"{each['path']}\n{each['content']}", re.M), (
            each
        )


def test_port_of_a_device_that_comes_back_is_set_by_its_pci_address() -> None:
    files = {each["path"]: each["content"] for each in files_of(ports_of(), "networkd")}
    _, *rules = files["/etc/udev/rules.d/90-muster-roce.rules"].splitlines()
    assert rules[2] == (
        f'ACTION=="add|move", SUBSYSTEM=="infiniband", KERNELS=="{port().address}", TAG+="systemd", '
        'ENV{SYSTEMD_WANTS}+="muster-roce@rail2.service"'
    )
    assert len(set(rules)) == 8


@pytest.mark.parametrize("network", ["networkd", "networkmanager"])
def test_every_file_is_removed_when_it_is_no_longer_wanted(network: str) -> None:
    from fnmatch import fnmatch  # noqa: PLC0415 -- nobody else here matches patterns

    for each in files_of(ports_of(), network):
        for path in (each["path"], each["path"].replace("rail0", "mlx5_0")):
            assert any(fnmatch(path, pattern) for pattern in absent_of()), path
    assert files_of([], network) == []


def test_rail_has_a_table_of_its_own_for_what_leaves_from_its_address() -> None:
    text = networkd(RAIL)
    assert "[Match]\nPath=pci-0000:4d:00.0\n" in text
    assert "Address=172.18.0.1/31\n" in text
    assert "[RoutingPolicyRule]\nFrom=172.18.0.1\nTable=102\nPriority=102\n" in text
    assert "[Route]\nDestination=172.18.0.0/31\nScope=link\nPreferredSource=172.18.0.1\nTable=102\n" in text
    assert "[Route]\nGateway=172.18.0.0\nPreferredSource=172.18.0.1\nTable=102\n" in text


def test_rail_of_a_shared_network_without_gateway_reaches_only_that() -> None:
    text = networkd(replace(RAIL, ip="172.18.0.1/16", gateway=None))
    assert "Destination=172.18.0.0/16\n" in text
    assert "Gateway" not in text


def test_networkmanager_profile_says_the_same() -> None:
    profile = configparser.ConfigParser()
    profile.read_string(keyfile(RAIL, "ethernet"))
    assert dict(profile["match"]) == {"path": "pci-0000:4d:00.0;"}
    assert profile["connection"]["id"] == "muster-rail2"
    assert dict(profile["ipv4"]) == {
        "method": "manual",
        "address1": "172.18.0.1/31",
        "never-default": "true",
        "route1": "172.18.0.0/31",
        "route1_options": "table=102,src=172.18.0.1",
        "route2": "0.0.0.0/0,172.18.0.0",
        "route2_options": "table=102,src=172.18.0.1",
        "routing-rule1": "priority 102 from 172.18.0.1 table 102",
    }
    modes = {each["mode"] for each in files_of(ports_of(), "networkmanager") if "NetworkManager" in each["path"]}
    assert modes == {"0600"}


def test_rail_without_address_gets_no_network() -> None:
    ports = [{**each, "ip": None, "gateway": None} for each in ports_of()]
    paths = [each["path"] for each in files_of(ports, "networkd")]
    assert not [path for path in paths if path.endswith(".network")]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mtu_bytes": "9000"}, r'roce_ports\[0\].mtu_bytes: found "9000"'),
        ({"address": None}, r"roce_ports\[0\].address: found"),
        ({"backend": "inbox"}, r"rail 0 \(.*\): backend inbox cannot set dcqcn"),
    ],
)
def test_wrong_port_is_named_before_anything_is_written(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(RoceError, match=expected):
        files_of([{**ports_of()[0], **changes}], "networkd")
