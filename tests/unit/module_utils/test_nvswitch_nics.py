"""NICs that manage NVSwitches are told by their vital product data, and only by it."""

from __future__ import annotations

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.nvswitch_nics import managers, managing_devices

from tests.fake_host import FakeHost

PCI = "/sys/bus/pci/devices"
# As sysfs gives it: keywords and lengths in bytes, the text between them.
MANAGER, RAIL = "\x82\x10\x00ConnectX-7\x90V3\x0bSMDL=SW_MNG", "\x82\x10\x00ConnectX-7\x90SN\x05MT123"


def host() -> FakeHost:
    """Return a host with a NIC of each kind: a rail, a manager, without VPD, unread, and of another vendor."""
    nics = {
        "0000:1a:00.0": ("0x15b3", Output(RAIL)),
        "0000:05:00.0": ("0x15b3", Output(MANAGER)),
        "0000:06:00.0": ("0x15b3", None),
        "0000:07:00.0": ("0x15b3", Output(rc=None, error="vpd: Input/output error")),
        "0000:29:00.0": ("0x8086", Output(MANAGER)),
    }
    files = {}
    for address, (vendor, vpd) in nics.items():
        files |= {f"{PCI}/{address}/vendor": Output(f"{vendor}\n"), f"{PCI}/{address}/class": Output("0x020700\n")}
        if vpd:
            files[f"{PCI}/{address}/vpd"] = vpd
    for address, name in (("0000:1a:00.0", "mlx5_0"), ("0000:05:00.0", "mlx5_8"), ("0000:07:00.0", "mlx5_9")):
        files[f"{PCI}/{address}/infiniband/{name}"] = Output()
    return FakeHost(files)


def test_each_nic_is_told_by_its_own_vpd() -> None:
    found = host()
    assert managers(found) == {
        "0000:05:00.0": True,
        "0000:06:00.0": False,
        "0000:07:00.0": None,
        "0000:1a:00.0": False,
        "0000:29:00.0": False,
    }
    # That of another vendor's device is not read at all.
    assert f"{PCI}/0000:29:00.0/vpd" not in found.asked


def test_their_rdma_devices_are_known_by_name() -> None:
    assert managing_devices(host()) == {"mlx5_8"}
    assert managing_devices(FakeHost()) == frozenset()
