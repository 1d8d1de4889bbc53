"""Counts of lost and found carriers, by interface, by what lies below it, and by rail."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives import link_changes
from ansible_collections.muster.cluster.plugins.module_utils.collectives.link_changes import ANY, LinksTold, LinkWatch
from ansible_collections.muster.cluster.plugins.module_utils.collectives.link_words import (
    interface_of,
    link_name,
    link_words,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail

NET, RDMA, PCI = "sys/class/net", "sys/class/infiniband", "sys/bus/pci/devices"
# Words for a rail of RoCE, one of InfiniBand, one of InfiniBand without an interface, and one whose device is missing.
ROCE, IPOIB, PORT, GONE = (f"rail{number}=0000:{place}:00.0" for number, place in enumerate(("1a", "3c", "4d", "5e")))
# A bond of two, of which one is up; the rails, one interface named by its place; a virtual interface.
FILES = {
    f"{NET}/bond0/carrier_changes": "2",
    f"{NET}/bond0/carrier": "1",
    f"{NET}/bond0/lower_eth0/mtu": "1500",
    f"{NET}/bond0/lower_eth1/mtu": "1500",
    f"{NET}/eth0/carrier_changes": "4",
    f"{NET}/eth0/carrier": "1",
    f"{NET}/eth0/device/vendor": "0x15b3",
    f"{NET}/eth1/carrier_changes": "6",
    f"{NET}/eth1/carrier": "0",
    f"{NET}/eth1/device/vendor": "0x15b3",
    f"{NET}/veth7/carrier_changes": "8",
    f"{NET}/veth7/carrier": "1",
    f"{NET}/enp26s0np0/carrier_changes": "1",
    f"{NET}/ib0/carrier_changes": "1",
    f"{PCI}/0000:1a:00.0/net/enp26s0np0/mtu": "9000",
    f"{PCI}/0000:1a:00.0/infiniband/rocep26s0/node_type": "1: CA",
    f"{RDMA}/rocep26s0/ports/1/link_layer": "Ethernet",
    f"{PCI}/0000:3c:00.0/net/ib0/mtu": "2044",
    f"{PCI}/0000:3c:00.0/infiniband/mlx5_1/node_type": "1: CA",
    f"{RDMA}/mlx5_1/ports/1/link_layer": "InfiniBand",
    f"{RDMA}/mlx5_1/ports/1/counters/link_downed": "3",
    f"{PCI}/0000:4d:00.0/infiniband/mlx5_2/node_type": "1: CA",
    f"{RDMA}/mlx5_2/ports/1/counters/link_downed": "5",
}


def put(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("wanted", "changed", "told"),
    [
        ("eth0", "eth0", {"eth0": [4, 6]}),
        ("bond0", "eth1", {"eth1": [6, 8]}),
        (ROCE, "enp26s0np0", {"enp26s0np0": [1, 3]}),
        (IPOIB, "ib0", {"ib0": [1, 3]}),
        (ROCE, "ib0", {}),
        (ANY, "eth0", {"eth0": [4, 6]}),
        (ANY, "eth1", {}),
        (ANY, "veth7", {}),
        ("eth0", "bond0", {}),
    ],
)
def test_link_that_changes_is_told_by_what_it_belongs_to(
    tmp_path: Path, wanted: str, changed: str, told: dict[str, list[int]]
) -> None:
    put(tmp_path, FILES)
    watch = LinkWatch([wanted], str(tmp_path)).start()
    assert watch.told() == {link_name(wanted): {}}
    path = tmp_path / NET / changed / "carrier_changes"
    path.write_text(f"{int(path.read_text()) + 2}\n")
    assert watch.told() == {link_name(wanted): told}


@pytest.mark.parametrize(("wanted", "device", "first"), [(IPOIB, "mlx5_1", 3), (PORT, "mlx5_2", 5)])
def test_port_of_infiniband_tells_how_often_it_was_down(tmp_path: Path, wanted: str, device: str, first: int) -> None:
    put(tmp_path, FILES)
    watch = LinkWatch([wanted], str(tmp_path)).start()
    assert watch.told() == {link_name(wanted): {}}
    put(tmp_path, {f"{RDMA}/{device}/ports/1/counters/link_downed": f"{first + 1}"})
    assert watch.told() == {link_name(wanted): {device: [first, first + 1]}}


@pytest.mark.parametrize("text", ["", "-1", "many", "4\n4"])
def test_count_that_cannot_be_read_is_told(tmp_path: Path, text: str) -> None:
    put(tmp_path, {**FILES, f"{NET}/eth0/carrier_changes": text})
    assert LinkWatch(["eth0"], str(tmp_path)).start().told() == {"eth0": {"eth0": [None, None]}}
    put(tmp_path, FILES)
    watch = LinkWatch(["eth0"], str(tmp_path)).start()
    (tmp_path / NET / "eth0/carrier_changes").unlink()
    assert watch.told() == {"eth0": {"eth0": [4, None]}}


@pytest.mark.parametrize("wanted", ["eth9", ANY, GONE, "rail0"])
def test_what_has_no_link_is_told_as_one_that_cannot_be_read(tmp_path: Path, wanted: str) -> None:
    put(tmp_path, {f"{NET}/veth7/carrier_changes": "8", f"{NET}/veth7/carrier": "1"})
    name = link_name(wanted)
    assert LinkWatch([wanted], str(tmp_path)).start().told() == {name: {name: [None, None]}}


def test_port_whose_firmware_does_not_answer_is_unreadable_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, FILES)
    counter = tmp_path / RDMA / "mlx5_2/ports/1/counters/link_downed"
    counter.unlink()
    # Whoever opens it waits for somebody who writes.
    os.mkfifo(counter)
    monkeypatch.setattr(link_changes, "READ_SECONDS", 0.2)
    watch = LinkWatch([PORT], str(tmp_path)).start()
    assert watch.told() == {"rail2": {"rail2": [None, None]}}
    # What reads was left behind, and ends with this.
    os.close(os.open(counter, os.O_RDWR))


def test_this_host_tells_of_its_own_links_to_anybody() -> None:
    # Loopback has a count, too: no root is needed, and no tool.
    assert LinkWatch(["lo"]).start().told() == {"lo": {}}


def test_rails_are_told_to_nodes_by_address_and_tell_by_name() -> None:
    assert link_words(["eth0", "rail0", ANY], [Rail(0, "0000:1a:00.0")]) == ["eth0", ROCE, ANY]
    told = LinksTold(["gpu-01"], [ROCE, "eth0"])
    assert told.take("gpu-01", {"eth0": {}}) == "nothing told of the links of rail0"
    assert told.take("gpu-01", {"eth0": {}, "rail0": {}}) == ""


@pytest.mark.parametrize(
    ("word", "interface"), [(ROCE, "enp26s0np0"), ("eth0", "eth0"), ("eth0,eth1", "eth0,eth1"), (PORT, PORT)]
)
def test_word_means_the_interface_that_the_host_has_for_it(tmp_path: Path, word: str, interface: str) -> None:
    put(tmp_path, FILES)
    assert interface_of(word, LocalHost(root=str(tmp_path))) == interface
