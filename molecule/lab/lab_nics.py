"""The files of a lab host's simulated NICs, made from the host's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def files(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of the rails' ConnectX-7 below /sys/class/infiniband and /sys/class/net.

    ``nic_values`` of the state names a file below the device (``ports/1/counters/link_downed``), or one of its network
    interface (``net/mtu``); what begins with ``mlxlink/`` is the tool's. Raises ValueError for a file that is none.
    """
    found: dict[str, str] = {}
    for nic in state["nics"]:
        device, interface = nic["device"], nic["interface"]
        if device in state["nics_missing"]:
            continue
        values = _nic(nic)
        if device in state["nics_down"]:
            values.update(_DOWN)
        for path, value in state["nic_values"].get(device, {}).items():
            if path.startswith("mlxlink/"):
                continue
            if path not in values:
                raise ValueError(f"nic_values.{device}: found {path}, expected a file of the device such as fw_ver")
            values[path] = str(value)
        base = f"sys/class/infiniband/{device}"
        for path, value in values.items():
            if path.startswith("net/"):
                for net in ("sys/class/net", f"{base}/device/net"):
                    found[f"{net}/{interface}/{path[4:]}"] = value + "\n"
            else:
                found[f"{base}/{path}"] = value + "\n"
    return found


def _nic(nic: Mapping[str, Any]) -> dict[str, str]:
    """Return what the files of one device hold."""
    return {
        "board_id": "MT_0000000838",
        "fw_ver": "28.43.1014",
        "hca_type": "MT4129",
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
