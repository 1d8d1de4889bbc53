"""The files of a lab host's simulated NICs, made from the host's state."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from lab_state import EXTRA_NIC

# Of mlx5 in /sys/class/infiniband/*/ports/1.
_PORT_COUNTERS = """
VL15_dropped excessive_buffer_overrun_errors link_downed link_error_recovery local_link_integrity_errors
multicast_rcv_packets multicast_xmit_packets port_rcv_constraint_errors port_rcv_data port_rcv_errors
port_rcv_packets port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_constraint_errors
port_xmit_data port_xmit_discards port_xmit_packets port_xmit_wait symbol_error unicast_rcv_packets
unicast_xmit_packets
"""
_HARDWARE_COUNTERS = """
duplicate_request implied_nak_seq_err lifespan local_ack_timeout_err out_of_buffer out_of_sequence
packet_seq_err req_cqe_error req_cqe_flush_error req_remote_access_errors req_remote_invalid_request
resp_cqe_error resp_cqe_flush_error resp_local_length_error resp_remote_access_errors rnr_nak_retry_err
np_cnp_sent np_ecn_marked_roce_packets rp_cnp_handled rp_cnp_ignored
roce_adp_retrans roce_adp_retrans_to roce_slow_restart roce_slow_restart_cnps roce_slow_restart_trans
rx_atomic_requests rx_dct_connect rx_icrc_encapsulated rx_read_requests rx_write_requests
"""
_DOWN = {
    "ports/1/state": "1: DOWN",
    "ports/1/phys_state": "3: Disabled",
    "ports/1/rate": "40 Gb/sec (4X QDR)",
    "net/operstate": "down",
    "net/speed": "-1",
}

# Modules that DOCA-OFED installs in the place of the kernel's own, which have no version.
_MODULES = ("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "rdma_cm")
_DOCA = "25.07-0.9.7"

# Of the card that is no rail, an older and slower one.
_EXTRA = {
    "board_id": "MT_0000000222",
    "fw_ver": "20.41.1000",
    "hca_type": "MT4123",
    "ports/1/rate": "100 Gb/sec (4X EDR)",
    "net/mtu": "1500",
    "net/speed": "100000",
}

LINE_GBPS = 400
# What perftest reaches of it, and the latency between two hosts, each with a spread of its own.
USABLE = 0.98
LATENCY_US = 2.2
SPREAD = 0.002


class Link(str):
    """In the place of a file's text: the path of what a symbolic link leads to."""

    __slots__ = ()


def files(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of the rails' ConnectX-7 below /sys/class/infiniband and /sys/class/net, and links as in sysfs.

    A PCI device leads to its RDMA device and network interface, and these lead to it. Files below ``ethtool``,
    ``modinfo`` and ``perftest`` are for the simulated tools of these names.

    ``nic_values`` of the state names a file below the RDMA device (``ports/1/counters/link_downed``), of the PCI device
    (``device/current_link_width``) or of the network interface (``net/mtu``); what begins with ``mlxlink/`` is the
    tool's. Raises ValueError for a file that is none.
    """
    faults = "".join(f"{tool}={fault}\n" for tool, fault in state["tool_faults"].items())
    faults += f"lacks={' '.join(state['perftest_lacks'])}\n"
    found: dict[str, str] = {"perftest/fault": faults, **_modules(state)}
    for index, nic in enumerate(state["nics"]):
        rail, device, interface = nic["rail"], nic["device"], nic["interface"]
        if rail in state["nics_missing"]:
            continue
        found |= _interrupts(state, nic, index)
        values = {**_nic(nic), **(_EXTRA if rail == EXTRA_NIC else {})}
        if rail in state["nics_down"]:
            values.update(_DOWN)
        for path, value in state["nic_values"].get(rail, {}).items():
            if path.startswith("mlxlink/"):
                continue
            if path not in values:
                raise ValueError(f"nic_values.{rail}: found {path}, expected a file of the device such as fw_ver")
            values[path] = str(value)
        found[f"ethtool/{interface}"] = _ethtool()
        found[f"perftest/{device}"] = _perftest(nic, state)
        pci, rdma, net = pci_device(nic), f"sys/class/infiniband/{device}", f"sys/class/net/{interface}"
        for path, value in values.items():
            kind, _, name = path.partition("/")
            place = {"device": f"{pci}/{name}", "net": f"{net}/{name}"}.get(kind, f"{rdma}/{path}")
            found[place] = value + "\n"
        found |= {f"{pci}/infiniband/{device}": Link(rdma), f"{pci}/net/{interface}": Link(net)}
        found |= {f"{rdma}/device": Link(pci), f"{net}/device": Link(pci)}
    return found


def pci_device(nic: Mapping[str, Any]) -> str:
    """Return where sysfs shows a NIC's PCI device."""
    return f"sys/bus/pci/devices/{nic['address']}"


def _modules(state: Mapping[str, Any]) -> dict[str, str]:
    """Return what the kernel tells of its loaded modules, and what modinfo tells of the installed ones."""
    files = {}
    for name in _MODULES:
        source = hashlib.sha256(name.encode()).hexdigest()[:23].upper()
        fields = {
            "filename": f"/lib/modules/{state['kernel']}/updates/dkms/{name}.ko",
            "version": _DOCA,
            "license": "Dual BSD/GPL",
            "srcversion": source,
            "depends": "mlx_compat",
            "name": name,
            "vermagic": f"{state['kernel']} SMP mod_unload modversions ",
        }
        files[f"modinfo/{name}"] = "".join(f"{key + ':':<15} {value}\n" for key, value in fields.items())
        files[f"sys/module/{name}/refcnt"] = "1\n"
        if not state["doca_not_loaded"]:
            files[f"sys/module/{name}/version"] = f"{_DOCA}\n"
            files[f"sys/module/{name}/srcversion"] = f"{source}\n"
    return files


def _interrupts(state: Mapping[str, Any], nic: Mapping[str, Any], index: int) -> dict[str, str]:
    """Return the CPUs next to a NIC, its two interrupts, and where they go; half of the NICs are at either socket."""
    place, half = pci_device(nic), int(state["cpu"]["cores"]) // 2
    # Buses of the second processor begin in the middle.
    first = half if nic["address"] >= "0000:80" else 0
    local = f"{first}-{first + half - 1},{first + 2 * half}-{first + 3 * half - 1}"
    nodes = 1 if state["numa_off"] else int(state["numa_nodes"] or state["cpu"]["sockets"])
    files = {f"{place}/local_cpulist": f"{local}\n", f"{place}/numa_node": f"{nodes // 2 if first else 0}\n"}
    for number in (200 + 2 * index, 201 + 2 * index):
        files[f"{place}/msi_irqs/{number}"] = "msix\n"
        files[f"proc/irq/{number}/smp_affinity_list"] = f"{state['nic_interrupts'].get(nic['rail'], local)}\n"
    return files


def _ethtool() -> str:
    """Return what mlx5 lists for ``ethtool -S`` by priority, before anything was sent."""
    lines = [
        f"     {way}_prio{priority}_{what}: 0"
        for priority in range(8)
        for way, kinds in (("rx", ("bytes", "packets", "discards")), ("tx", ("bytes", "packets")))
        for what in kinds
    ]
    pauses = [
        f"     {way}_prio{priority}_{what}: 0"
        for priority in range(8)
        for way in ("rx", "tx")
        for what in ("pause", "pause_duration")
    ]
    return "\n".join(["NIC statistics:", *lines, *pauses]) + "\n"


def _perftest(nic: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """Return what ib_write_bw and ib_write_lat have to know of one rail, a line for each."""
    rail = nic["rail"]
    digest = hashlib.sha256(f"{state['host']} {rail}".encode()).hexdigest()
    own = 1 + SPREAD * int(digest[:4], 16) / 0xFFFF
    values = {
        "host": state["host"],
        "interface": nic["interface"],
        "ip": nic.get("ip", ""),
        "qpn": 0x100 + int(digest[4:6], 16),
        "down": "yes" if rail in state["nics_down"] else "",
        "gbps": state["rail_slow"].get(rail, round(USABLE * LINE_GBPS * own, 2)),
        "us": state["rail_latency"].get(rail, round(LATENCY_US * own, 3)),
        "seen": state["wrong_priority"].get(rail, ""),
        "lost": state["retransmits"].get(rail, ""),
        **{f"dscp{dscp}": priority for dscp, priority in state["dscp_priority"].items()},
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _nic(nic: Mapping[str, Any]) -> dict[str, str]:
    """Return what the files of one device hold."""
    return {
        "board_id": "MT_0000000838",
        "fw_ver": "28.43.1014",
        "node_guid": nic.get("guid", ""),
        "hca_type": "MT4129",
        "device/vendor": "0x15b3",
        "device/class": "0x020000",
        "device/uevent": f"DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_SLOT_NAME={nic['address']}",
        "device/current_link_speed": "32.0 GT/s PCIe",
        "device/current_link_width": "16",
        "device/max_link_speed": "32.0 GT/s PCIe",
        "device/max_link_width": "16",
        "ports/1/link_layer": "Ethernet",
        "ports/1/phys_state": "5: LinkUp",
        "ports/1/rate": "400 Gb/sec (4X NDR)",
        "ports/1/state": "4: ACTIVE",
        "net/operstate": "up",
        "net/mtu": "9000",
        "net/speed": "400000",
        "net/carrier_changes": "2",
        "net/statistics/rx_crc_errors": "0",
        **{f"ports/1/counters/{name}": "0" for name in _PORT_COUNTERS.split()},
        **{f"ports/1/hw_counters/{name}": "0" for name in _HARDWARE_COUNTERS.split()},
        "ports/1/hw_counters/lifespan": "10",
    }
