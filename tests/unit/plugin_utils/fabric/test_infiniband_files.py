"""The files of an InfiniBand host."""

from __future__ import annotations

import configparser
import fnmatch
import re
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.infiniband_files import (
    InfinibandError,
    Ipoib,
    absent_of,
    files_of,
    placed,
)

RAILS = [
    {"rail": 0, "address": "172.24.0.1/16", "gateway": None, "switch": None, "port": None},
    {"rail": 1, "address": "172.25.0.1/16", "gateway": None, "switch": None, "port": None},
]
PLACES = [{"rail": 0, "address": "0000:18:00.0"}, {"rail": 1, "address": "0000:40:00.0"}]
UDEV = "/etc/udev/rules.d/50-muster-ib.rules"
COMPUTE = {"name": "compute", "pkey": 0x7FFF, "ipoib": True}
STORAGE = {"name": "storage", "pkey": 0x12, "ipoib": True}
QUIET = {"name": "quiet", "pkey": 0x13, "ipoib": False}
IPOIB = Ipoib("datagram", 4096, (COMPUTE, STORAGE, QUIET))


def files(ipoib: Ipoib | None = IPOIB, network="networkd", places=PLACES, rails=RAILS) -> dict[str, str]:
    written = files_of("gpu-1", placed(rails, places), ipoib, network)
    for each in written:
        assert any(fnmatch.fnmatch(each["path"], pattern) for pattern in absent_of()), each["path"]
    return {each["path"]: each["content"] for each in written}


def section(text: str, name: str) -> dict[str, str]:
    """Return one section; systemd lets it stand more than once."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(text)
    return dict(parser[name])


def node_description(rules: str, address: str, device: str) -> str | None:
    """Return what udev would write to ``node_desc`` of an adapter, line by line as it does."""
    here = {"ACTION": "add", "SUBSYSTEM": "infiniband", "KERNELS": address}
    variables: dict[str, str] = {"%k": device}
    found = None
    for line in rules.splitlines():
        keys = re.findall(r'([A-Z]+(?:\{[^}]+\})?)(==|!=|=)"([^"]*)"', line)
        if any((here.get(key) in value.split("|")) is (sign == "!=") for key, sign, value in keys if sign != "="):
            continue
        for key, _, value in [each for each in keys if each[1] == "="]:
            text = value
            for name, known in variables.items():
                text = text.replace(name, known)
            if key == "ATTR{node_desc}":
                found = text
            variables[key.replace("ENV", "$env")] = text
    return found


@pytest.mark.parametrize("ipoib", [None, IPOIB], ids=["verbs only", "ipoib"])
def test_adapters_are_named_by_host_and_rail_whatever_the_system_calls_them(ipoib):
    rails = RAILS if ipoib else [{**rail, "address": None} for rail in RAILS]
    rules = files(ipoib, rails=rails)[UDEV]
    assert node_description(rules, "0000:18:00.0", "ibp24s0") == "gpu-1 rail0"
    assert node_description(rules, "0000:40:00.0", "mlx5_2") == "gpu-1 rail1"
    # No rail.
    assert node_description(rules, "0000:05:00.0", "mlx5_0") == "gpu-1 mlx5_0"


def test_rdma_ndd_stays_off_while_the_rules_name_the_adapters():
    found = files()
    condition = section(found["/etc/systemd/system/rdma-ndd.service.d/50-muster.conf"], "Unit")["ConditionPathExists"]
    assert condition[0] == "!" and condition[1:] in found


def test_no_file_has_a_name_of_the_system():
    for network, ipoib in (("networkd", IPOIB), ("networkmanager", Ipoib("datagram", 4096, (COMPUTE,)))):
        for path, text in files(ipoib, network).items():
            assert not re.search(r"mlx5|\bib\d|interface-name", path + text), path


def test_rail_has_address_table_mode_and_mtu():
    text = files()["/etc/systemd/network/51-muster-ib-rail0.network"]
    assert section(text, "Match") == {"Path": "pci-0000:18:00.0"}
    assert section(text, "Link") == {"RequiredForOnline": "no", "MTUBytes": "4092"}
    assert section(text, "Network")["Address"] == "172.24.0.1/16"
    assert section(text, "RoutingPolicyRule")["Table"] == section(text, "Route")["Table"] == "100"
    assert section(text, "IPoIB") == {"Mode": "datagram"}


def test_rail_without_an_address_has_mode_and_mtu():
    text = files(rails=[{**RAILS[0], "address": None}])["/etc/systemd/network/51-muster-ib-rail0.network"]
    assert section(text, "Match") == {"Path": "pci-0000:18:00.0"} and "Address=" not in text
    assert section(text, "Link")["MTUBytes"] == "4092" and section(text, "IPoIB") == {"Mode": "datagram"}


def test_partition_with_ipoib_has_an_interface_of_its_own_which_is_matched_before_the_rail():
    found = files()
    netdev = found["/etc/systemd/network/41-muster-ib-rail1.8012.netdev"]
    assert section(netdev, "NetDev") == {"Name": "rail1.8012", "Kind": "ipoib"}
    assert section(netdev, "IPoIB") == {"PartitionKey": "0x8012", "Mode": "datagram"}
    assert section(found["/etc/systemd/network/51-muster-ib-rail1.network"], "Network")["IPoIB"] == "rail1.8012"
    names = [path.rsplit("/", 1)[1] for path in found if path.endswith(".network")]
    assert sorted(names)[:2] == ["41-muster-ib-rail0.8012.network", "41-muster-ib-rail1.8012.network"]
    assert not [path for path in found if "8013" in path]


def test_networkd_knows_every_key_of_the_files():
    """It leaves out what it does not know; its keys stand in the program as Section.Key."""
    program = Path("/lib/systemd/systemd-networkd")
    if not program.exists():
        pytest.skip(f"no {program} here")
    known = program.read_bytes()
    for path, text in files().items():
        if path.startswith("/etc/systemd/network/"):
            parser = configparser.RawConfigParser(strict=False)
            parser.optionxform = str
            parser.read_string(text)
            unknown = [f"{name}.{key}" for name in parser.sections() for key in parser[name]]
            assert [key for key in unknown if key.encode() not in known] == [], path


def test_connected_mode_has_its_own_mtu():
    text = files(Ipoib("connected", 4096))["/etc/systemd/network/51-muster-ib-rail0.network"]
    assert section(text, "Link")["MTUBytes"] == "65520" and section(text, "IPoIB") == {"Mode": "connected"}


def test_network_manager_has_profiles_of_the_same():
    rails = [RAILS[0], {**RAILS[1], "address": None}]
    written = files_of("gpu-1", placed(rails, PLACES), Ipoib("datagram", 4096, (COMPUTE, QUIET)), "networkmanager")
    (profile,) = [each for each in written if each["path"].endswith(".nmconnection")]
    assert profile["path"].endswith("/muster_ib-rail0.nmconnection") and profile["mode"] == "0600"
    rail = profile["content"]
    assert section(rail, "connection")["type"] == "infiniband" and section(rail, "ipv4")["address1"] == "172.24.0.1/16"
    assert section(rail, "match") == {"path": "pci-0000:18:00.0;"}
    assert section(rail, "infiniband") == {"transport-mode": "datagram", "mtu": "4092"}


@pytest.mark.parametrize(
    ("ipoib", "network", "places", "says"),
    [
        (None, "networkd", PLACES, "rail0 has address 172.24.0.1/16, which needs fabric.ipoib"),
        (
            Ipoib("datagram", 4096, (QUIET, COMPUTE)),
            "networkd",
            PLACES,
            "partition quiet has no ipoib and is the first",
        ),
        (IPOIB, "networkd", PLACES[:1], "rail 1: expected its PCI address under nic.rails of the class, found none"),
        (
            IPOIB,
            "networkmanager",
            PLACES,
            "partitions after the first have ipoib.*expected infiniband_network networkd",
        ),
        (IPOIB, "ifupdown", PLACES, "expected one of networkd, networkmanager"),
    ],
)
def test_contradiction_is_an_error(ipoib, network, places, says):
    with pytest.raises(InfinibandError, match=says):
        files(ipoib, network, places)
