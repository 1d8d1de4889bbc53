"""All that a host lacks for its ports is told at once, before any of them is set."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.roce.lacking import lacking

from .conftest import INBOX, SETTINGS, SOFT, Nic, Nics, settings

ECN = "/sys/class/net/INTERFACE/ecn/roce_[nr]p/enable/[0-7] is absent (needed for dcqcn of rail0)"
QOS = "mlnx_qos: not found in PATH (needed for dcbx, trust, dscp_priority, lossless_priorities of rail0)"


def without_doca(nic: Nic) -> None:
    """Take away what the vendor's driver has beyond the kernel's."""
    for path in [path for path in nic.files if "/ecn/" in path or "/tc/1/" in path]:
        del nic.files[path]


@pytest.mark.parametrize("base", [SETTINGS, INBOX], ids=["doca", "inbox"])
def test_host_that_has_all_lacks_nothing_before_it_is_set_and_nothing_changes(nic: Nic, base: dict[str, Any]) -> None:
    before = dict(nic.files)
    assert lacking(nic, [settings(base)], 0) == []
    assert (nic.files, nic.written) == (before, [])
    assert {argv[0] for argv in nic.ran} <= {"mlnx_qos", "cma_roce_tos", "ethtool", "dcb", "mkdir", "rmdir"}


def test_soft_device_needs_neither_dcb_nor_ethtool(soft: Nic) -> None:
    assert lacking(soft, [settings(SOFT)], 0) == []


def test_the_kernels_own_driver_under_backend_doca_lacks_the_vendors_files(nic: Nic) -> None:
    without_doca(nic)
    assert lacking(nic, [settings()], 0) == [ECN]
    # Nobody needs the file to leave the class unset.
    classed = lacking(nic, [settings(traffic_class=104)], 0)
    assert classed == [
        ECN,
        "/sys/class/infiniband/DEVICE/tc/1/traffic_class is absent (needed for traffic_class of rail0)",
    ]


def test_every_missing_tool_is_told_once_with_what_needs_it(nic: Nic) -> None:
    without_doca(nic)
    nic.ignores = {"mlnx_qos", "cma_roce_tos", "ethtool"}
    assert lacking(nic, [settings()], 0) == [
        "ethtool: not found in PATH (needed for rings of rail0)",
        QOS,
        ECN,
        "cma_roce_tos: not found in PATH (needed for cm_tos of rail0)",
    ]
    nic.ignores = {"dcb"}
    assert lacking(nic, [settings(INBOX)], 0) == [
        "dcb: not found in PATH (needed for dcbx, trust, dscp_priority, lossless_priorities of rail0)"
    ]


def test_ports_that_lack_the_same_share_one_line() -> None:
    nics = Nic("mlx5_0", "rdma0"), Nic("mlx5_1", "rdma1", "0000:3c:00.0")
    for nic in nics:
        without_doca(nic)
    ports = [settings(), settings(rail=1, address="0000:3c:00.0")]
    assert lacking(Nics(*nics), ports, 0) == [ECN.replace("of rail0", "of rail0, rail1")]


def test_absent_device_is_told_beside_what_the_others_lack(nic: Nic) -> None:
    without_doca(nic)
    found = lacking(nic, [settings(), settings(rail=1, address="0000:3c:00.0")], 0)
    absent = "rail 1 has no RDMA device at 0000:3c:00.0, RDMA devices of this host: mlx5_0 at 0000:1a:00.0"
    assert found == [absent, ECN]


def test_configfs_that_is_not_there_is_told(nic: Nic) -> None:
    nic.ignores = {"mkdir"}
    (found,) = lacking(nic, [settings(INBOX)], 0)
    assert "default_roce_tos" in found and "is rdma_cm loaded, and configfs mounted?" in found, found


def test_what_reads_oddly_is_left_to_the_setting_of_it(nic: Nic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nic, "qos", lambda: "DCBX mode: of another kind\n")
    assert lacking(nic, [settings()], 0) == []
