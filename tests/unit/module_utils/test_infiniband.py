"""Rails of an InfiniBand host, as sysfs shows them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.nic.infiniband_rails import (
    Ipoib,
    RailError,
    child_name,
    infiniband_rails,
    interface_mtu,
    lacking,
    wrong_descriptions,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail

RAILS = [Rail(0, "0000:1a:00.0"), Rail(1, "0000:3c:00.0")]
IPOIB = Ipoib("datagram", 4092, (0x12,))
PCI = "sys/bus/pci/devices"
PORT = "sys/class/infiniband/ibp26s0/ports/1"
NODE_DESC = "/sys/class/infiniband/ibp26s0/node_desc"
# The group to which a partition's broadcasts go, as sysfs shows it.
BROADCAST = "00:ff:ff:ff:ff:12:40:1b:{:02x}:{:02x}:00:00:00:00:00:00:ff:ff:ff:ff"


def put(tree: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(f"{text}\n")


def adapter(address: str, device: str, description: str) -> dict[str, str]:
    base = f"sys/class/infiniband/{device}"
    port = {"link_layer": "InfiniBand", "state": "4: ACTIVE", "pkeys/0": "0xffff", "pkeys/1": "0x8012"}
    port["pkeys/2"] = "0x0000"
    files = {f"{base}/node_desc": description, f"{PCI}/{address}/infiniband/{device}/node_desc": description}
    return {**files, **{f"{base}/ports/1/{name}": text for name, text in port.items()}}


def interface(name: str, address: str) -> dict[str, str]:
    """A rail's own interface."""
    files = {f"sys/class/net/{name}/mode": "datagram", f"{PCI}/{address}/net/{name}/mtu": "4092"}
    return {**files, **kernel(name)}


def child(name: str) -> dict[str, str]:
    """A partition's interface as networkd makes it: without a device, and without the files mode, pkey and parent."""
    return {f"sys/class/net/{name}/broadcast": BROADCAST.format(0x80, 0x12), **kernel(name)}


def kernel(name: str) -> dict[str, str]:
    own = f"proc/sys/net/ipv4/conf/{name}"
    files = {f"{own}/arp_ignore": "1", f"{own}/arp_announce": "2", f"{own}/rp_filter": "2"}
    return {**files, f"sys/class/net/{name}/mtu": "4092"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A healthy host: rail 0 as rdma-core and udev name it, rail 1 by the kernel, behind an adapter that is no rail."""
    put(tmp_path, adapter("0000:1a:00.0", "ibp26s0", "gpu-1 rail0") | interface("ibp26s0", "0000:1a:00.0"))
    put(tmp_path, adapter("0000:05:00.0", "mlx5_1", "gpu-1 mlx5_1") | interface("ib0", "0000:05:00.0"))
    put(tmp_path, adapter("0000:3c:00.0", "mlx5_2", "gpu-1 rail1") | interface("ib7", "0000:3c:00.0"))
    put(tmp_path, child("rail0.8012") | child("rail1.8012"))
    return tmp_path


def found(tree: Path, partitions=(0x7FFF, 0x12), ipoib: Ipoib | None = IPOIB) -> list[str]:
    return lacking(LocalHost(root=str(tree)), RAILS, partitions, ipoib)


def wrong(tree: Path, name: str = "gpu-1") -> dict[str, tuple[str, str]]:
    host = LocalHost(root=str(tree))
    return wrong_descriptions(host, infiniband_rails(host, RAILS), name)


def test_healthy_host_lacks_nothing_whatever_its_devices_are_called(tree):
    assert [rail.device for rail in infiniband_rails(LocalHost(root=str(tree)), RAILS)] == ["ibp26s0", "mlx5_2"]
    assert wrong(tree) == {}
    assert found(tree) == []


def test_ethernet_port_names_the_firmware_setting_and_the_reboot(tree):
    (tree / PORT / "link_layer").write_text("Ethernet\n")
    with pytest.raises(RailError, match=r"rail 0 \(ibp26s0\): link layer is Ethernet.*LINK_TYPE_P1.*reboot"):
        infiniband_rails(LocalHost(root=str(tree)), RAILS)


def test_missing_device_names_those_that_are_there(tree):
    expected = r"^rail 2 has no RDMA device at 0000:4d:00.0.*ibp26s0 at 0000:1a:00.0, mlx5_2 at 0000:3c:00.0$"
    with pytest.raises(RailError, match=expected):
        infiniband_rails(LocalHost(root=str(tree)), [*RAILS, Rail(2, "0000:4d:00.0")])


@pytest.mark.parametrize(
    "now",
    [
        "MT4129 ConnectX7   Mellanox Technologies",
        # As rdma-ndd names it.
        "gpu-1 ibp26s0",
        "",
        # Written with a newline, which the fabric's tools show as a blank.
        "gpu-1 rail0\n",
    ],
)
def test_wrong_node_description_is_found_with_the_file_to_write(tree, now):
    (tree / NODE_DESC[1:]).write_text(f"{now}\n")
    assert wrong(tree) == {NODE_DESC: (now, "gpu-1 rail0")}


def test_unreadable_or_too_long_node_description_is_an_error(tree):
    with pytest.raises(RailError, match="longer than 63 bytes"):
        wrong(tree, "g" * 58)
    (tree / NODE_DESC[1:]).unlink()
    with pytest.raises(RailError, match="could not be read"):
        wrong(tree)


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        (f"{PORT}/state", "2: INIT", "port is 2: INIT, expected ACTIVE: the link is up, no subnet manager"),
        (f"{PORT}/state", "1: DOWN", "port is 1: DOWN, expected ACTIVE"),
        (f"{PORT}/state", None, "port is None, expected ACTIVE"),
        # Limited membership, in which hosts do not hear one another.
        (f"{PORT}/pkeys/0", "0x7fff", "no full member of partition 0xffff"),
        (f"{PORT}/pkeys/1", None, "no full member of partition 0x8012"),
        ("sys/class/net/ibp26s0/mode", "connected", "mode of ibp26s0 is connected, expected datagram"),
        ("sys/class/net/ibp26s0/mtu", "2044", "mtu of ibp26s0 is 2044, expected 4092 (needs the broadcast group"),
        (
            "sys/class/net/rail0.8012/broadcast",
            BROADCAST.format(0x80, 0x13),
            "pkey of rail0.8012 is 0x8013, expected 0x8012",
        ),
        ("sys/class/net/rail0.8012/broadcast", "ff:ff:ff:ff:ff:ff", "pkey of rail0.8012 is None, expected 0x8012"),
        ("sys/class/net/rail0.8012/mtu", None, "mtu of rail0.8012 is None, expected 4092"),
        ("proc/sys/net/ipv4/conf/ibp26s0/arp_ignore", "0", "arp_ignore of ibp26s0 is 0, expected 1"),
    ],
)
def test_rail_that_is_otherwise_is_named(tree, path, text, says):
    (tree / path).unlink()
    if text is not None:
        (tree / path).write_text(f"{text}\n")
    texts = found(tree)
    assert len(texts) == 1 and texts[0].startswith("rail 0 (ibp26s0): ") and says in texts[0]


def test_rail_without_an_interface_is_named(tree):
    shutil.rmtree(tree / PCI / "0000:3c:00.0/net")
    (text,) = found(tree)
    assert text.startswith("rail 1 has no network interface at 0000:3c:00.0") and "ib_ipoib" in text
    assert found(tree, ipoib=None) == []


def test_rail_whose_device_went_is_named(tree):
    shutil.rmtree(tree / PCI / "0000:3c:00.0/infiniband")
    (text,) = found(tree)
    assert text.startswith("rail 1 has no RDMA device at 0000:3c:00.0")


def test_interfaces_of_connected_mode_and_partitions():
    assert interface_mtu("datagram", 4096) == 4092 and interface_mtu("connected", 4096) == 65520
    assert child_name("rail0", 0x12) == "rail0.8012"
