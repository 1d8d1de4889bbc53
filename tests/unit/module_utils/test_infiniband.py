"""Rails of an InfiniBand host, as sysfs shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.machine import LocalMachine
from ansible_collections.muster.cluster.plugins.module_utils.nic.infiniband_rails import (
    Ipoib,
    Rail,
    RailError,
    check_link_layers,
    child_name,
    interface_mtu,
    lacking,
    wrong_descriptions,
)

RAILS = [Rail(0, "mlx5_0", "ib0"), Rail(1, "mlx5_1")]
IPOIB = Ipoib("datagram", 4092, (0x12,))
PORT = "sys/class/infiniband/mlx5_0/ports/1"


def interface(name: str, device: str, pkey: int | None) -> dict[str, str]:
    net = f"sys/class/net/{name}"
    files = {f"{net}/type": "32", f"{net}/mode": "datagram", f"{net}/mtu": "4092"}
    files |= {f"{net}/pkey": f"{pkey or 0xFFFF:#06x}", f"sys/class/infiniband/{device}/device/net/{name}/type": "32"}
    if pkey:
        files[f"{net}/parent"] = "x"
    kernel = f"proc/sys/net/ipv4/conf/{name}"
    return {**files, f"{kernel}/arp_ignore": "1", f"{kernel}/arp_announce": "2", f"{kernel}/rp_filter": "2"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A healthy host: interface ib0 declared, the other one ib7 by the kernel."""
    files = {}
    for device in ("mlx5_0", "mlx5_1"):
        base = f"sys/class/infiniband/{device}"
        files |= {f"{base}/node_desc": f"gpu-1 {device}", f"{base}/ports/1/link_layer": "InfiniBand"}
        files |= {f"{base}/ports/1/state": "4: ACTIVE", f"{base}/ports/1/pkeys/0": "0xffff"}
        files |= {f"{base}/ports/1/pkeys/1": "0x8012", f"{base}/ports/1/pkeys/2": "0x0000"}
    files |= interface("ib0", "mlx5_0", None) | interface("ib0.8012", "mlx5_0", 0x8012)
    files |= interface("ib7", "mlx5_1", None) | interface("mlx5_1.8012", "mlx5_1", 0x8012)
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}\n")
    return tmp_path


def found(tree: Path, partitions=(0x7FFF, 0x12), ipoib: Ipoib | None = IPOIB) -> list[str]:
    return lacking(LocalMachine(root=str(tree)), RAILS, partitions, ipoib)


def test_healthy_host_lacks_nothing(tree):
    machine = LocalMachine(root=str(tree))
    check_link_layers(machine, RAILS)
    assert wrong_descriptions(machine, RAILS, "gpu-1") == {}
    assert found(tree) == []


def test_ethernet_port_names_the_firmware_setting_and_the_reboot(tree):
    (tree / PORT / "link_layer").write_text("Ethernet\n")
    with pytest.raises(RailError, match=r"rail 0 \(mlx5_0\): link layer is Ethernet.*LINK_TYPE_P1.*reboot"):
        check_link_layers(LocalMachine(root=str(tree)), RAILS)


def test_missing_device_names_those_that_are_there(tree):
    with pytest.raises(RailError, match=r"rail 2 \(mlx5_9\): no such device.*mlx5_0, mlx5_1"):
        check_link_layers(LocalMachine(root=str(tree)), [*RAILS, Rail(2, "mlx5_9")])


def test_wrong_node_description_is_found_with_the_file_to_write(tree):
    path = "/sys/class/infiniband/mlx5_0/node_desc"
    (tree / path[1:]).write_text("MT4129 ConnectX7   Mellanox Technologies\n")
    machine = LocalMachine(root=str(tree))
    wrong = wrong_descriptions(machine, RAILS, "gpu-1")
    assert wrong == {path: ("MT4129 ConnectX7   Mellanox Technologies", "gpu-1 mlx5_0")}
    assert machine.write(path, "gpu-1 mlx5_0") == ""
    assert wrong_descriptions(machine, RAILS, "gpu-1") == {}


def test_unreadable_or_too_long_node_description_is_an_error(tree):
    machine = LocalMachine(root=str(tree))
    with pytest.raises(RailError, match="longer than 63 bytes"):
        wrong_descriptions(machine, RAILS, "g" * 57)
    (tree / "sys/class/infiniband/mlx5_1/node_desc").unlink()
    with pytest.raises(RailError, match="could not be read"):
        wrong_descriptions(machine, RAILS, "gpu-1")


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        (f"{PORT}/state", "2: INIT", "port is 2: INIT, expected ACTIVE: the link is up, no subnet manager"),
        (f"{PORT}/state", "1: DOWN", "port is 1: DOWN, expected ACTIVE"),
        (f"{PORT}/state", None, "port is None, expected ACTIVE"),
        # Limited membership, in which hosts do not hear one another.
        (f"{PORT}/pkeys/0", "0x7fff", "no full member of partition 0xffff"),
        (f"{PORT}/pkeys/1", None, "no full member of partition 0x8012"),
        ("sys/class/net/ib0/mode", "connected", "mode of ib0 is connected, expected datagram"),
        ("sys/class/net/ib0/mtu", "2044", "mtu of ib0 is 2044, expected 4092 (needs the broadcast group"),
        ("sys/class/net/ib0.8012/pkey", "0x8013", "pkey of ib0.8012 is 0x8013, expected 0x8012"),
        ("sys/class/net/ib0.8012/mode", None, "mode of ib0.8012 is None, expected datagram"),
        ("proc/sys/net/ipv4/conf/ib0/arp_ignore", "0", "arp_ignore of ib0 is 0, expected 1"),
    ],
)
def test_rail_that_is_otherwise_is_named(tree, path, text, says):
    (tree / path).unlink()
    if text is not None:
        (tree / path).write_text(f"{text}\n")
    texts = found(tree)
    assert len(texts) == 1 and texts[0].startswith("rail 0 (mlx5_0): ") and says in texts[0]


def test_rail_without_an_interface_is_named(tree):
    (tree / "sys/class/net/ib7/type").write_text("1\n")
    assert found(tree) == ["rail 1 (mlx5_1): its IPoIB interfaces are none, expected one (kernel module ib_ipoib)"]
    assert found(tree, ipoib=None) == []


def test_interfaces_of_connected_mode_and_partitions():
    assert interface_mtu("datagram", 4096) == 4092 and interface_mtu("connected", 4096) == 65520
    assert child_name("ib0", 0x12) == "ib0.8012"
