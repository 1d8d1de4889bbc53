"""The NICs that a hardware class declares: rails of the compute fabric, and front-end interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .roce.settings import PortSettings

# Port counters of the InfiniBand specification (PortCounters) stop at their end and stay there until they are cleared:
# what stands at the end is a lower bound. Widths from the specification, volume 1, section 16.1.3.5.
COUNTER_END: dict[str, int] = {
    "symbol_error": 0xFFFF,
    "link_error_recovery": 0xFF,
    "link_downed": 0xFF,
    "port_rcv_errors": 0xFFFF,
    "port_rcv_remote_physical_errors": 0xFFFF,
    "port_rcv_constraint_errors": 0xFF,
    "port_xmit_discards": 0xFFFF,
    "port_xmit_constraint_errors": 0xFF,
    "local_link_integrity_errors": 0xF,
    "excessive_buffer_overrun_errors": 0xF,
    "VL15_dropped": 0xFFFF,
}
# Counters of a device's network interface; those of RoCE ports, whose InfiniBand counters stay at 0.
INTERFACE_COUNTERS = ("carrier_changes", "rx_crc_errors")


def rails_of(expect: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the rails of the class; a class without NICs says so with ``nic: null``, a missing key is an error."""
    nic = expect["nic"]
    return () if nic is None else nic["rails"]


def subject_of(rail: Mapping[str, Any]) -> str:
    """Return the name of a rail's part: ``nic mlx5_0``."""
    return f"nic {rail['device']}"


def rail_subjects(expect: Mapping[str, Any]) -> list[str]:
    """Return the parts of the rails."""
    return [subject_of(rail) for rail in rails_of(expect)]


def named(rail: Mapping[str, Any]) -> str:
    """Return a rail as reasons name it: ``rail 3 (mlx5_3)``."""
    return f"rail {rail['rail']} ({rail['device']})"


def roce_ports(expect: Mapping[str, Any]) -> dict[str, PortSettings]:
    """Return what each rail's port is set to by part, none where the class' fabric is no RoCE.

    Which address a rail has is the node's, not the class': ``ip`` is None.
    """
    port = expect["fabric"]["port"] if expect["fabric"] is not None else None
    if port is None:
        return {}
    return {
        subject_of(rail): PortSettings.from_dict(
            {**port, **{key: rail[key] for key in ("device", "address", "interface")}, "ip": None}
        )
        for rail in rails_of(expect)
    }


def interfaces_of(expect: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what the class expects of each declared network interface, by part.

    ``{"nic mlx5_0": {"interface": "rdma0", "speed_gbps": 400, "mtu_bytes": 9000, "where": "rail 0 (mlx5_0)"}}``;
    rails whose class leaves the interface undeclared are left out.
    """
    nic = expect["nic"]
    if nic is None:
        return {}
    found = {
        subject_of(rail): {
            "interface": rail["interface"],
            # An IPoIB interface says the speed of its port, as an Ethernet one does.
            "speed_gbps": nic["speed_gbps"],
            "mtu_bytes": nic["mtu_bytes"],
            "where": f"{named(rail)} interface {rail['interface']}",
        }
        for rail in nic["rails"]
        if rail["interface"] is not None
    }
    for item in nic["frontend"]:
        found[f"nic {item['interface']}"] = {**item, "where": f"front-end interface {item['interface']}"}
    return found
