"""Counts of lost and found carriers, by interface, by what lies below it, and by RDMA device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives import link_changes
from ansible_collections.muster.cluster.plugins.module_utils.collectives.link_changes import ANY, LinkWatch

NET, RDMA = "sys/class/net", "sys/class/infiniband"
# A bond of two, of which one is up; a rail with its interface; one of InfiniBand without; a virtual interface.
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
    f"{NET}/rdma0/carrier_changes": "1",
    f"{RDMA}/mlx5_0/device/net/rdma0/carrier_changes": "1",
    f"{RDMA}/mlx5_1/ports/1/counters/link_downed": "3",
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
        ("mlx5_0", "rdma0", {"rdma0": [1, 3]}),
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
    assert watch.told() == {wanted: {}}
    path = tmp_path / NET / changed / "carrier_changes"
    path.write_text(f"{int(path.read_text()) + 2}\n")
    assert watch.told() == {wanted: told}


def test_port_of_infiniband_tells_how_often_it_was_down(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    watch = LinkWatch(["mlx5_1"], str(tmp_path)).start()
    put(tmp_path, {f"{RDMA}/mlx5_1/ports/1/counters/link_downed": "4"})
    assert watch.told() == {"mlx5_1": {"mlx5_1": [3, 4]}}


@pytest.mark.parametrize("text", ["", "-1", "many", "4\n4"])
def test_count_that_cannot_be_read_is_told(tmp_path: Path, text: str) -> None:
    put(tmp_path, {**FILES, f"{NET}/eth0/carrier_changes": text})
    assert LinkWatch(["eth0"], str(tmp_path)).start().told() == {"eth0": {"eth0": [None, None]}}
    put(tmp_path, FILES)
    watch = LinkWatch(["eth0"], str(tmp_path)).start()
    (tmp_path / NET / "eth0/carrier_changes").unlink()
    assert watch.told() == {"eth0": {"eth0": [4, None]}}


@pytest.mark.parametrize("wanted", ["eth9", ANY])
def test_what_has_no_link_is_told_as_one_that_cannot_be_read(tmp_path: Path, wanted: str) -> None:
    put(tmp_path, {f"{NET}/veth7/carrier_changes": "8", f"{NET}/veth7/carrier": "1"})
    assert LinkWatch([wanted], str(tmp_path)).start().told() == {wanted: {wanted: [None, None]}}


def test_port_whose_firmware_does_not_answer_is_unreadable_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {f"{NET}/eth0/carrier_changes": "4"})
    counter = tmp_path / RDMA / "mlx5_1/ports/1/counters/link_downed"
    counter.parent.mkdir(parents=True)
    # Whoever opens it waits for somebody who writes.
    os.mkfifo(counter)
    monkeypatch.setattr(link_changes, "READ_SECONDS", 0.2)
    watch = LinkWatch(["mlx5_1"], str(tmp_path)).start()
    assert watch.told() == {"mlx5_1": {"mlx5_1": [None, None]}}
    # What reads was left behind, and ends with this.
    os.close(os.open(counter, os.O_RDWR))


def test_this_host_tells_of_its_own_links_to_anybody() -> None:
    # Loopback has a count, too: no root is needed, and no tool.
    assert LinkWatch(["lo"]).start().told() == {"lo": {}}
