"""Which interface leads to the storage, by mountinfo and routes as Linux shows them."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.save_test.storage_road import own_roads_to, roads_to

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth1\t0001000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth3\t0001000A\t00000000\t0000\t0\t0\t0\tFFFFFFFF\t0\t0\t0
ib0\t0000640A\t00000000\t0001\t0\t0\t5\t0000FFFF\t0\t0\t0
ib1\t0000640A\t00000000\t0001\t0\t0\t9\t0000FFFF\t0\t0\t0
"""
MOUNTS = """22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:44 / /ckpt rw,relatime - nfs4 filer:/ckpt rw,vers=4.2,hard,proto=tcp,clientaddr=10.0.1.11,addr=10.0.1.5
31 22 0:45 / /scratch rw - lustre 10.100.0.7@tcp,10.100.0.8@tcp:/scratch rw,flock
32 22 0:46 / /far rw - nfs filer:/far rw,vers=3,addr=192.0.2.9
33 22 0:47 / /six rw - nfs4 filer:/six rw,addr=2001:db8::5
"""


@pytest.mark.parametrize(
    ("path", "roads"),
    [
        ("/ckpt", ["eth1"]),
        ("/ckpt/.muster/lab", ["eth1"]),
        ("/scratch/a", ["ib0"]),
        ("/far/a", ["eth0"]),
        ("/six", []),
        ("/local", []),
        ("/ckpts", []),
    ],
)
def test_road_to_what_is_mounted_at_or_above_a_path(path: str, roads: list[str]) -> None:
    assert roads_to(path, MOUNTS, ROUTES) == roads


def test_last_mount_at_a_place_hides_those_before() -> None:
    over = MOUNTS + "40 30 0:50 / /ckpt rw - lustre 10.100.0.7@tcp:/new rw\n"
    assert roads_to("/ckpt", over, ROUTES) == ["ib0"]


def test_cut_mounts_are_an_error_and_this_host_reads_its_own() -> None:
    with pytest.raises(Unreadable):
        roads_to("/ckpt", MOUNTS[:-4], ROUTES)
    assert own_roads_to("/proc") == []
