"""Network files that networkd would apply to a rail in the place of Muster's are named, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.readiness import networks

from tests.fake_host import FakeHost
from tests.typed import RAILS_FABRIC, typed

MAC = "b8:3f:d2:00:00:0a"
NETPLAN = "/run/systemd/network/10-netplan-{}.network"
CLOUD_INIT = "/etc/netplan/50-cloud-init.yaml"


@pytest.fixture
def host() -> FakeHost:
    """Return a host with two rails and a front end, each a physical interface of mlx5_core."""
    files = {}
    for address, name, mac in (
        ("0000:1a:00.0", "eth2", MAC),
        ("0000:3c:00.0", "eth3", "b8:3f:d2:00:00:0b"),
        ("0000:29:00.0", "eth0", "b8:3f:d2:00:00:0c"),
    ):
        files[f"/sys/bus/pci/devices/{address}/net/{name}"] = Output("")
        place = f"/sys/class/net/{name}"
        files[f"{place}/device/uevent"] = Output("DRIVER=mlx5_core\nPCI_CLASS=20000\n")
        files[f"{place}/address"] = Output(f"{mac}\n")
        files[f"{place}/type"] = Output("1\n")
    return FakeHost(files)


@pytest.fixture
def expect(expect: dict[str, Any]) -> dict[str, Any]:
    """Return a class with two rails on RoCE."""
    rails = [{"rail": rail, "address": f"0000:{bus}:00.0"} for rail, bus in enumerate(("1a", "3c"))]
    return {**expect, "nic": {**expect["nic"], "rails": rails}, "affinity": None, "fabric": RAILS_FABRIC}


def told(host: FakeHost, expect: dict[str, Any], files: dict[str, str], rails: tuple[int, ...] = (0, 1)) -> list[str]:
    here = FakeHost({path: Output(text) for path, text in files.items()})
    return networks.lacks(host, here, typed(expect), rails)


def match(text: str) -> str:
    return f"[Match]\n{text}\n\n[Network]\nDHCP=yes\n"


def test_file_of_netplan_takes_a_rail(host: FakeHost, expect: dict[str, Any]) -> None:
    files = {
        NETPLAN.format("eth0"): match("Name=eth0"),
        NETPLAN.format("eth2"): match("Name=eth2"),
        CLOUD_INIT: "network: {ethernets: {eth0: {}, eth2: {dhcp4: true}}}\n",
        "/etc/netplan/90-other.yaml": "network: {}\n",
    }
    assert told(host, expect, files) == [
        "networkd: /run/systemd/network/10-netplan-eth2.network comes before 50-muster-rail0.network and takes eth2 "
        "(rail0): take them out of /etc/netplan/50-cloud-init.yaml, and run netplan apply"
    ]


# What netplan 0.106 (Debian 12) makes of: eth2 with an address, matched by its MAC address and named so; ports of one
# driver; a name with a pattern; the port of a bond.
REAL = {
    "eth2": (
        f"[Match]\nPermanentMACAddress={MAC}\nName=eth2\n\n[Network]\nLinkLocalAddressing=ipv6\nAddress=10.0.0.1/24\n"
    ),
    "rails": (
        "[Match]\nDriver=mlx5_core\n\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=ipv6\n\n"
        "[DHCP]\nRouteMetric=100\nUseMTU=true\n"
    ),
    "others": "[Match]\nName=enp*s0np0\n\n[Network]\nDHCP=ipv6\nLinkLocalAddressing=ipv6\n",
    "eth0": "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\nBond=bond0\n",
}


@pytest.mark.parametrize(
    ("name", "taken"), [("eth2", "eth2 (rail0)"), ("rails", "eth2 (rail0), eth3 (rail1)"), ("others", ""), ("eth0", "")]
)
def test_files_that_a_real_netplan_wrote(host: FakeHost, expect: dict[str, Any], name: str, taken: str) -> None:
    file = NETPLAN.format(name)
    # The file with which netplan names the interface is no .network file.
    link = {file.replace(".network", ".link"): f"[Match]\nPermanentMACAddress={MAC}\n\n[Link]\nName=eth2\n"}
    found = told(host, expect, {file: REAL[name], CLOUD_INIT: "network: {}\n", **link})
    assert [line.partition(" takes ")[2].partition(":")[0] for line in found] == ([taken] if taken else [])


def test_plan_that_names_no_interface_is_one_of_all(host: FakeHost, expect: dict[str, Any]) -> None:
    files = {NETPLAN.format("all"): match("Name=e*"), CLOUD_INIT: 'match: {name: "e*"}', "/etc/netplan/60.yaml": "{}"}
    (line,) = told(host, expect, files)
    assert (
        "takes eth2 (rail0), eth3 (rail1): take them out of /etc/netplan/50-cloud-init.yaml, /etc/netplan/60.yaml"
        in line
    )


def test_rails_that_networkd_does_not_set_up_are_free(host: FakeHost, expect: dict[str, Any]) -> None:
    files = {NETPLAN.format("eth2"): match("Name=eth2")}
    assert told(host, expect, files, ()) == told(host, expect, files, (1,)) == []
    assert told(host, expect, files, (0,)) != []


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/etc/systemd/network/10-site.network", True),
        ("/usr/lib/systemd/network/10-site.network", True),
        ("/usr/local/lib/systemd/network/4-site.network", True),
        ("/etc/systemd/network/50-a.network", True),
        # After Muster's.
        ("/etc/systemd/network/50-site.network", False),
        ("/usr/lib/systemd/network/80-ethernet.network", False),
        # Of another kind, and Muster's own.
        ("/etc/systemd/network/10-site.link", False),
        ("/etc/systemd/network/50-muster-rail0.network", False),
        ("/etc/systemd/network/41-muster-ib-rail0.8002.network", False),
    ],
)
def test_order_of_files(host: FakeHost, expect: dict[str, Any], path: str, wrong: bool) -> None:
    assert bool(told(host, expect, {path: match("Name=eth2")})) is wrong


def test_file_outside_netplan_has_a_way_of_its_own(host: FakeHost, expect: dict[str, Any]) -> None:
    (line,) = told(host, expect, {"/etc/systemd/network/10-site.network": match("Name=eth2")})
    assert line.endswith("takes eth2 (rail0): remove it, or have its [Match] leave them out")


def test_rails_of_infiniband_have_files_of_another_name(host: FakeHost, expect: dict[str, Any]) -> None:
    expect["fabric"] = {**RAILS_FABRIC, "kind": "infiniband", "ipoib": "datagram"}
    (line,) = told(host, expect, {"/etc/systemd/network/50-site.network": match("Name=eth2")})
    assert "50-site.network comes before 51-muster-ib-rail0.network" in line


def test_file_of_the_same_name_in_etc_counts(host: FakeHost, expect: dict[str, Any]) -> None:
    other = NETPLAN.format("eth2").replace("/run", "/etc")
    # An empty file, or a link to /dev/null, masks.
    assert told(host, expect, {NETPLAN.format("eth2"): match("Name=eth2"), other: ""}) == []
    assert told(host, expect, {NETPLAN.format("eth2"): "", other: match("Name=eth2")}) != []


@pytest.mark.parametrize(
    ("text", "takes"),
    [
        ("Name=eth2", True),
        ("Name=eth2 eth9", True),
        ('Name="eth2"', True),
        ("Name = eth[12]", True),
        ("Name=eth*", True),
        ("Name=ETH2", False),
        ("Name=eth20", False),
        ("Name=!eth2 eth3", False),
        ("Name=!eth0 lo", True),
        ("Name=eth9\nName=eth2", True),
        ("Name=eth2\nName=\nName=eth9", False),
        ("Name=eth9 \\\n eth2", True),
        ("#Name=eth2\nName=eth9", False),
        (f"MACAddress={MAC.upper()}", True),
        (f"MACAddress=00:00:00:00:00:01 {MAC.replace(':', '-')}", True),
        ("PermanentMACAddress=b83f.d200.000a", True),
        ("PermanentMACAddress=00:00:00:00:00:01", False),
        ("Path=pci-0000:1a:*", True),
        ("Path=pci-0000:29:00.0", False),
        ("Driver=mlx5_*", True),
        ("Driver=!mlx5_core", False),
        ("Driver=virtio_net", False),
        ("Type=ether", True),
        ("Type=wlan", False),
        ("Type=!loopback", True),
        ("Kind=bond", False),
        ("Kind=!bond", True),
        ("SSID=guests", False),
        ("Name=eth2\nDriver=virtio_net", False),
        (f"Name=eth2\nMACAddress={MAC}\nType=ether", True),
        # What is not told by sysfs may be so.
        ("Name=eth2\nVirtualization=!container", True),
        ("Name=eth9\nVirtualization=!container", False),
        ("Property=ID_NET_NAME_PATH=enp26s0np0", True),
    ],
)
def test_match(host: FakeHost, expect: dict[str, Any], text: str, takes: bool) -> None:
    found = told(host, expect, {"/etc/systemd/network/10-site.network": match(text)}, (0,))
    assert bool(found) is takes


@pytest.mark.parametrize(
    "text", ["", "[Network]\nDHCP=yes\nName=eth2\n", "[Match]\n\n[Network]\nDHCP=yes\n", "[Match]\nName=\n"]
)
def test_file_without_a_match_is_ignored_as_by_networkd(host: FakeHost, expect: dict[str, Any], text: str) -> None:
    assert told(host, expect, {"/etc/systemd/network/10-site.network": text}) == []


def test_what_of_an_interface_cannot_be_read_may_match(host: FakeHost, expect: dict[str, Any]) -> None:
    for name in ("device/uevent", "address", "type"):
        host.outputs[f"/sys/class/net/eth2/{name}"] = Output(rc=None, error="Permission denied")
    text = match("Driver=virtio_net\nMACAddress=00:00:00:00:00:01\nType=wlan")
    assert told(host, expect, {"/etc/systemd/network/10-site.network": text}, (0,)) != []
    text = match("Driver=virtio_net\nName=eth9")
    assert told(host, expect, {"/etc/systemd/network/10-site.network": text}, (0,)) == []


def test_file_that_cannot_be_read_is_no_pass(host: FakeHost, expect: dict[str, Any]) -> None:
    path = NETPLAN.format("eth2")
    here = FakeHost({path: Output(rc=None, error=f"{path}: Permission denied")})
    with pytest.raises(Unreadable, match="Permission denied"):
        networks.lacks(host, here, typed(expect), (0,))
