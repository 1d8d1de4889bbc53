"""NICs: RDMA devices, network interfaces, the physical layer of links."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host import blocks
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved import host_network_reports

from tests.fuzz.sick import FABRIC
from tests.typed import RAILS_FABRIC, typed

from .row import Row


def _rails(*addresses: str, first: int = 0) -> list[dict[str, Any]]:
    return [{"rail": rail, "address": address} for rail, address in enumerate(addresses, first)]


def _address(device: str) -> str:
    """Return an address for a device of a text that tells none."""
    kind, number = re.fullmatch(r"(\D+\d*)_(?:bond_)?(\d+)", device).groups()  # type: ignore[union-attr]
    return f"{('mlx5', 'mlx4', 'hfi1').index(kind) + ('bond' in device) * 16:04x}:{int(number):02x}:00.0"


def _devices(*devices: str, first: int = 0) -> list[dict[str, Any]]:
    return _rails(*map(_address, devices), first=first)


def _names(data: bytes) -> Output:
    """Return the names of all devices of ibstat, of ibstatus, or of sysfs below /sys/class/infiniband."""
    found = re.findall(r"^(?:CA '|Infiniband device '|==> )(\w+)", data.decode(), re.MULTILINE)
    return Output("".join(f"/sys/bus/pci/devices/{_address(name)}/infiniband/{name}\n" for name in sorted({*found})))


def _names_of_dump(data: bytes) -> Output:
    """Return the names as the paths of the files tell them."""
    named = re.compile(r"/sys/bus/pci/devices/[^/]+/(?:infiniband|net)/[^/]+(?=/)")
    found = {match.group() for match in map(named.match, json.loads(data)) if match}
    return Output("".join(f"{path}\n" for path in sorted(found)))


def _nic(**nic: Any) -> dict[str, Any]:
    return {"nic": nic}


def _report(data: bytes) -> Output:
    """Return one rail's report of mlxlink as the probe keeps it."""
    return blocks.joined({"rail0": Output(data.decode())})


def _dump(data: bytes) -> Output:
    """Return the text of sysfs files by path, with the PCIe link of a device below the device."""
    files: dict[str, str] = json.loads(data)
    found = {}
    for path, text in files.items():
        device = re.fullmatch(r"(.*/([0-9a-f:.]{12})/infiniband/\w+)/ports/1/state", path)
        for name in ("current_link_speed", "current_link_width") if device else ():
            address = device.group(2) if device else ""
            link = f"/sys/class/pci_bus/{address[:7]}/device/{address}/{name}"
            if device and link in files:
                found[f"{device.group(1)}/device/{name}"] = Output(files[link])
        found[path] = Output(text)
    return blocks.joined(found)


def _interfaces(data: bytes) -> Output:
    """Return state, MTU and speed of each interface as the files of sysfs that they were read from."""
    kept = json.loads(data)
    files = {}
    for item in kept["intf_status"]:
        name = item["ifname"]
        files[f"/sys/class/net/{name}/operstate"] = Output(item["operstate"].lower())
        files[f"/sys/class/net/{name}/mtu"] = Output(str(item["mtu"]))
        # Of an interface that is not there the keeper of the file noted a speed all the same.
        if name in kept["link_speed"]:
            files[f"/sys/class/net/{name}/speed"] = Output(kept["link_speed"][name])
    return blocks.joined(files)


H100 = _devices("mlx5_0", *(f"mlx5_{number}" for number in (3, 4, 5, 6, 9, 10, 11)))
STORAGE = _devices("mlx5_1", "mlx5_2", "mlx5_7", "mlx5_8", first=8)
A100 = {
    **_nic(
        rails=_rails(*(f"0000:{bus}:00.0" for bus in ("0c", "12", "4b", "54", "8d", "94", "ba", "cc"))),
        speed_gbps=200,
        mtu_bytes=2044,
        link_layer="InfiniBand",
        pcie={"generation": 4},
    ),
    "fabric": {**RAILS_FABRIC, "kind": "infiniband", "ipoib": "datagram"},
}
FRONT = _nic(
    rails=[],
    frontend=[
        {"interface": "enp97s0f0", "speed_gbps": 200, "mtu_bytes": 9192},
        {"interface": "enp225s0f0", "speed_gbps": 200, "mtu_bytes": 9192},
        {"interface": "front0", "speed_gbps": 400, "mtu_bytes": 9192},
    ],
)
ONE = _nic(rails=_devices("mlx5_0"))


def _ib(file: str, checks: tuple[str, ...], verdict: str, expect: dict[str, Any], why: str) -> Row:
    return Row(f"ib/{file}", "infiniband", checks, verdict, expect, why, names=_names)


def _net(file: str, probe: str, check: str, verdict: str, why: str) -> Row:
    if file.startswith("ip-"):
        return Row(f"net/{file}", probe, (check,), verdict, FRONT, why, _interfaces, lambda _data: Output())
    return Row(f"net/{file}", probe, (check,), verdict, A100, why, _dump, _names_of_dump)


_HERE = ("nic_inventory", "nic_link", "nic_firmware")
_SYSFS_H100 = _nic(rails=_devices(*(f"mlx5_{number}" for number in (0, 1, 4, 5, 6, 7, 8, 9))), model="MT4129")
_ROWS_IB = [
    _ib("ibstat-h100-12hca-all-active.txt", _HERE, "pass", _nic(rails=H100), "eight rails at 400 Gb/s, all up"),
    _ib("ibstat-h100-2x400g-disabled.txt", ("nic_link",), "fail", _nic(rails=H100), "mlx5_5 and mlx5_11 are down"),
    _ib("ibstat-h100-2x400g-disabled.txt", ("nic_inventory",), "pass", _nic(rails=H100), "down, yet present"),
    _ib(
        "ibstat-h100-3x100g-disabled.txt",
        _HERE,
        "pass",
        _nic(rails=H100),
        "the eight rails are up; the 100 Gb/s ports that are down are not declared",
    ),
    _ib(
        "ibstat-h100-3x100g-disabled.txt",
        ("nic_link",),
        "fail",
        _nic(rails=STORAGE, speed_gbps=100),
        "where the 100 Gb/s ports are declared, three of four are down",
    ),
    _ib(
        "ibstat-a100-9x200.txt",
        _HERE,
        "pass",
        _nic(rails=_devices(*(f"mlx5_{number}" for number in range(1, 9))), speed_gbps=200),
        "eight rails at 200 Gb/s, all up",
    ),
    _ib(
        "ibstatus-a100-all-active.txt",
        ("nic_inventory", "nic_link"),
        "pass",
        _nic(rails=_devices(*(f"mlx5_{number}" for number in range(8))), speed_gbps=200),
        "eight rails at 200 Gb/s, all up",
    ),
    _ib(
        "ibstat-a100-ibpanic-exit255.txt",
        ("nic_inventory", "nic_link"),
        "incomplete",
        _nic(rails=_devices(*(f"mlx5_{number}" for number in range(8))), speed_gbps=200),
        "the tool failed at mlx5_8: its list is not whole, though all ports that it shows are up",
    ),
    _ib("sysfs-class-infiniband-h100.txt", _HERE, "pass", _SYSFS_H100, "eight rails up at 400 Gb/s, one firmware"),
    _ib("sysfs-class-infiniband-h100.txt", ("nic_errors",), "fail", _SYSFS_H100, "link_downed of mlx5_1 stands at 255"),
    _ib("sysfs-class-infiniband-h100.txt", ("nic_pcie",), "incomplete", _SYSFS_H100, "the PCIe links were not saved"),
    _ib(
        "sysfs-class-infiniband-procfs-mixed.txt",
        ("nic_link",),
        "fail",
        _nic(rails=_devices("mlx5_0"), speed_gbps=100),
        "one lane of four; the physical state is no word that there is",
    ),
    _ib(
        "sysfs-class-infiniband-procfs-mixed.txt",
        ("nic_link", "nic_errors"),
        "pass",
        _nic(rails=_devices("mlx4_0"), speed_gbps=40),
        "both ports up on four lanes, no errors",
    ),
]
_ROWS_NET = [
    _net("sysfs-dgxa100-good.json", "infiniband", "nic_link", "pass", "eight rails at 200 Gb/s"),
    _net("sysfs-dgxa100-good.json", "infiniband", "nic_inventory", "pass", "eight rails at their addresses"),
    _net("sysfs-dgxa100-good.json", "infiniband", "nic_pcie", "pass", "eight rails at Gen4 x16"),
    _net("sysfs-dgxa100-good.json", "net_devices", "nic_interface", "pass", "ib0 to ib7 up at 200 Gb/s"),
    _net("sysfs-ib-bad-rate.json", "infiniband", "nic_link", "fail", "all rails at 100 of 200 Gb/s"),
    _net("sysfs-ib-operstate-down.json", "infiniband", "nic_link", "pass", "the RDMA ports are up"),
    _net("sysfs-ib-operstate-down.json", "net_devices", "nic_interface", "fail", "ib4 is down"),
    _net(
        "sysfs-nvme-pcie-downgraded.json",
        "infiniband",
        "nic_pcie",
        "fail",
        "what lies at 8d:00.0, at 8 GT/s, is mlx5_6 in this file",
    ),
    _net("sysfs-nvme-pcie-downgraded.json", "infiniband", "nic_link", "pass", "its link to the switch is up"),
    _net("ip-json-bond-good.json", "net_devices", "nic_interface", "pass", "both links and the bond are up"),
    _net("ip-json-bond-degraded.json", "net_devices", "nic_interface", "fail", "both links at 100 of 200 Gb/s"),
    _net("ip-json-bond-missing-intf.json", "net_devices", "nic_interface", "fail", "enp225s0f0 is absent"),
    _net("ip-json-bond-slave-down.json", "net_devices", "nic_interface", "fail", "enp225s0f0 has no carrier"),
]
_PLAIN = _nic(rails=_devices("mlx5_0"), physical={"fec_histogram": False})
_ROWS_LINK = [
    Row("mlxlink/mlxlink-json-400g-dr4.json", "mlxlink", ("nic_physical",), "pass", _PLAIN, "healthy", _report),
    Row(
        "mlxlink/mlxlink-json-400g-fec-histogram-eye.json",
        "mlxlink",
        ("nic_physical",),
        "pass",
        ONE,
        "thin tail of corrected symbols: a watch",
        _report,
    ),
    Row(
        "mlxlink/mlxlink-faults-active-but-state-active.json",
        "mlxlink",
        ("nic_physical",),
        "fail",
        _PLAIN,
        "firmware fault of the module, no signal and no lock on any lane",
        _report,
    ),
]


def _template(data: bytes) -> Output:
    """Return the table that a program's format string makes of a NIC with four virtual functions."""
    text = data.decode().replace("%s\n", "").replace("%s(0)", "False(0)").replace("%s(1)", "True(1)")
    return blocks.joined({"rail0": Output(text.replace("%d", "4 ").replace("%s", "x"))})


def _settings(**settings: str) -> dict[str, Any]:
    wanted = [{"key": key, "wanted": value} for key, value in settings.items()]
    return _nic(rails=_devices("mlx5_0"), firmware_settings=wanted)


def _config(file: str, verdict: str, expect: dict[str, Any], why: str) -> Row:
    run = _template if "template" in file else _report
    return Row(f"mlxconfig/{file}", "nic_config", ("nic_firmware_settings",), verdict, expect, why, run)


_QUERY = "mstconfig-e-query-cx4lx-template.txt"
_ROWS_CONFIG = [
    _config(_QUERY, "pass", _settings(NUM_OF_VFS="4", SRIOV_EN="1", CNP_DSCP_P1="48"), "as declared, in force"),
    _config(_QUERY, "fail", _settings(ADVANCED_PCI_SETTINGS="1"), "the setting that unlocks others is off"),
    _config(_QUERY, "fail", _settings(RDMA_SELECTIVE_REPEAT_EN="1"), "a ConnectX-4 Lx has no such setting"),
    _config(
        "mlxconfig-query-cx7-filtered.txt",
        "incomplete",
        _settings(LINK_TYPE_P1="ETH"),
        "without the column Current nobody knows what is in force",
    ),
]


def _report_of(data: bytes, expect: Mapping[str, Any]) -> Sequence[Finding]:
    """Return what a saved output says that no check of the host reads."""
    return host_network_reports.findings(data.decode(), typed(expect))


def _saved(file: str, verdict: str, why: str, expect: Mapping[str, Any] | None = None) -> Row:
    return Row(file, "", ("saved",), verdict, expect or {}, why, judge=_report_of)


def _lossless(*priorities: int) -> dict[str, Any]:
    return {"fabric": {**FABRIC, "port": {**FABRIC["port"], "lossless_priorities": list(priorities)}}}


_QUIET = "a total tells no rate: 1.8 million packets out of sequence are loss, when is not said"
_ROWS_SAVED = [
    _saved("net/ethtool-cx4-100g-dac.txt", "pass", "100 Gb/s, the fastest that it supports"),
    _saved("net/ethtool-m-sfp28-lr-dom.txt", "pass", "a sound module that receives no light: a watch"),
    _saved("roce/ethtool-S-mlx5-rdma-vport.txt", "incomplete", "healthy traffic; no counter of errors is among them"),
    _saved("roce/mlnx_qos-dscp-pfc3.txt", "pass", "flow control on 3 alone, as declared", _lossless(3)),
    _saved("roce/mlnx_qos-dscp-pfc3.txt", "fail", "the class declares 5", _lossless(5)),
    _saved("roce/mlnx_qos-firmware-dcbx-pfc3-ets.txt", "pass", "flow control on 3 alone, as declared", _lossless(3)),
    _saved("roce/rdma-qos-query-pfc5-ecn.txt", "pass", "flow control on 5 alone, as declared", _lossless(5)),
    _saved("roce/show_counters-hw-bond0-congested.txt", "incomplete", _QUIET),
    _saved("roce/show_gids-one-port-without-ip.txt", "fail", "mlx5_1 has no GID for RoCE v2", _lossless(3)),
    _saved("roce/show_gids-tabs.txt", "pass", "a GID for RoCE v2 with an address", _lossless(3)),
]
ROWS = [*_ROWS_IB, *_ROWS_NET, *_ROWS_LINK, *_ROWS_CONFIG, *_ROWS_SAVED]

_FABRIC = "the fabric beyond the host's own ports is the fabric stage's"
_BANDWIDTH = "bandwidth between NICs belongs to the fabric stage"
_CONFIG = "module nic_firmware's, no check's; its tests read this file"
NOT_COVERED = {
    "mlxconfig/flint-query-cx7.txt": _CONFIG,
    "mlxconfig/mlxconfig-set-link-type-pending.txt": _CONFIG,
    "mlxlink/mlxlink-json-pcie-eye-gen5x16.json": "burn-in reads a NIC's PCIe link from sysfs",
}
