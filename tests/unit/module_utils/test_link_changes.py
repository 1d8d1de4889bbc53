"""Counts of lost and found carriers, by interface, by what lies below it, and by RDMA device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
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
    ("wanted", "links"),
    [
        ("eth0", {"eth0": [4, 4]}),
        ("bond0", {"bond0": [2, 2], "eth0": [4, 4], "eth1": [6, 6]}),
        ("mlx5_0", {"rdma0": [1, 1]}),
        ("mlx5_1", {"mlx5_1": [3, 3]}),
        (ANY, {"eth0": [4, 4]}),
        ("eth9", {}),
    ],
)
def test_links_of_what_is_wanted(tmp_path: Path, wanted: str, links: dict[str, list[int]]) -> None:
    put(tmp_path, FILES)
    assert LinkWatch([wanted], str(tmp_path)).told() == {wanted: links}


def test_what_changes_while_it_is_watched_is_told_each_time(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    watch = LinkWatch(["bond0", "mlx5_1"], str(tmp_path))
    put(tmp_path, {f"{NET}/eth1/carrier_changes": "8", f"{RDMA}/mlx5_1/ports/1/counters/link_downed": "4"})
    told = watch.told()
    assert told == {"bond0": {"bond0": [2, 2], "eth0": [4, 4], "eth1": [6, 8]}, "mlx5_1": {"mlx5_1": [3, 4]}}
    (tmp_path / NET / "eth0/carrier_changes").unlink()
    assert watch.told()["bond0"]["eth0"] == [4, None]


@pytest.mark.parametrize("text", ["", "-1", "many", "4\n4"])
def test_count_that_is_none_is_null(tmp_path: Path, text: str) -> None:
    put(tmp_path, {**FILES, f"{NET}/eth0/carrier_changes": text})
    assert LinkWatch(["eth0"], str(tmp_path)).told() == {"eth0": {"eth0": [None, None]}}


def test_this_host_tells_of_its_own_links_to_anybody() -> None:
    # Loopback has a count, too: no root is needed, and no tool.
    ((before, after),) = LinkWatch(["lo"]).told()["lo"].values()
    assert isinstance(before, int)
    assert before == after
