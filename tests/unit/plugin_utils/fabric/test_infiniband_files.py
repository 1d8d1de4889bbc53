"""The files of an InfiniBand host."""

from __future__ import annotations

import configparser
import fnmatch
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
    {"rail": 0, "device": "mlx5_0", "address": "172.24.0.1/16", "gateway": None, "switch": None, "port": None},
    {"rail": 1, "device": "mlx5_1", "address": "172.25.0.1/16", "gateway": None, "switch": None, "port": None},
]
PLACES = [
    {"rail": 0, "device": "mlx5_0", "address": "0000:18:00.0", "interface": "ib0"},
    {"rail": 1, "device": "mlx5_1", "address": "0000:40:00.0", "interface": None},
]
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


def test_adapters_are_named_by_host_and_device():
    text = files(None, rails=[])["/etc/systemd/system/rdma-ndd.service.d/50-muster.conf"]
    # systemd takes % for itself; rdma-ndd puts the device in the place of %d.
    assert section(text, "Service") == {"Environment": '"RDMA_NDD_ND_FORMAT=gpu-1 %%d"'}


def test_rail_has_address_table_mode_and_mtu():
    text = files()["/etc/systemd/network/51-muster-ib-mlx5_0.network"]
    assert section(text, "Match") == {"Name": "ib0"}
    assert section(text, "Link") == {"RequiredForOnline": "no", "MTUBytes": "4092"}
    assert section(text, "Network")["Address"] == "172.24.0.1/16"
    assert section(text, "RoutingPolicyRule")["Table"] == section(text, "Route")["Table"] == "100"
    assert section(text, "IPoIB") == {"Mode": "datagram"}


def test_partition_with_ipoib_has_an_interface_of_its_own_which_is_matched_before_the_rail():
    found = files()
    assert section(found["/etc/systemd/network/51-muster-ib-mlx5_1.network"], "Match") == {"Path": "pci-0000:40:00.0"}
    netdev = found["/etc/systemd/network/41-muster-ib-mlx5_1.8012.netdev"]
    assert section(netdev, "NetDev") == {"Name": "mlx5_1.8012", "Kind": "ipoib"}
    assert section(netdev, "IPoIB") == {"PartitionKey": "0x8012", "Mode": "datagram"}
    assert section(found["/etc/systemd/network/51-muster-ib-mlx5_1.network"], "Network")["IPoIB"] == "mlx5_1.8012"
    names = [path.rsplit("/", 1)[1] for path in found if path.endswith(".network")]
    assert sorted(names)[:2] == ["41-muster-ib-ib0.8012.network", "41-muster-ib-mlx5_1.8012.network"]
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
    text = files(Ipoib("connected", 4096))["/etc/systemd/network/51-muster-ib-mlx5_0.network"]
    assert section(text, "Link")["MTUBytes"] == "65520" and section(text, "IPoIB") == {"Mode": "connected"}


def test_network_manager_has_profiles_of_the_same():
    places = [{**place, "interface": f"ib{place['rail']}"} for place in PLACES]
    written = files_of("gpu-1", placed(RAILS, places), IPOIB, "networkmanager")
    profiles = {each["path"].rsplit("/", 1)[1]: each for each in written if each["path"].endswith(".nmconnection")}
    assert {each["mode"] for each in profiles.values()} == {"0600"}
    rail = profiles["muster_ib-mlx5_0.nmconnection"]["content"]
    assert section(rail, "connection")["type"] == "infiniband" and section(rail, "ipv4")["address1"] == "172.24.0.1/16"
    assert section(rail, "infiniband") == {"transport-mode": "datagram", "mtu": "4092"}
    child = profiles["muster_ib-ib0.8012.nmconnection"]["content"]
    assert section(child, "infiniband")["p-key"] == str(0x8012) and section(child, "infiniband")["parent"] == "ib0"


@pytest.mark.parametrize(
    ("ipoib", "network", "places", "says"),
    [
        (None, "networkd", PLACES, r"rail 0 \(mlx5_0\) has address 172.24.0.1/16, which needs fabric.ipoib"),
        (
            Ipoib("datagram", 4096, (QUIET, COMPUTE)),
            "networkd",
            PLACES,
            "partition quiet has no ipoib and is the first",
        ),
        (IPOIB, "networkd", [], r"rail 0 \(mlx5_0\): expected its interface or address under nic.rails"),
        (IPOIB, "networkmanager", PLACES, r"rail 1 \(mlx5_1\): expected its interface of the hardware class"),
        (IPOIB, "ifupdown", PLACES, "expected one of networkd, networkmanager"),
    ],
)
def test_contradiction_is_an_error(ipoib, network, places, says):
    with pytest.raises(InfinibandError, match=says):
        files(ipoib, network, places)
