"""What follows from the declared fabric for a host: its class' expectations, and the settings of each rail's port."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_version import FIFO_TC
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, stated
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Fabric as ExpectedFabric
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import (
    ROCE,
    Fabric,
    Qos,
    TrafficClass,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import Rail

_LINK_LAYER = {"roce": "Ethernet", "infiniband": "InfiniBand"}
# The two low bits of the ToS byte, that a packet's transport takes part in congestion notification (RFC 3168, ECT(0)).
_ECT = 2


def tos_of(traffic: TrafficClass, fabric: Fabric) -> int:
    """Return the ToS byte (traffic class) by which packets of the class are sent: DSCP and, with DCQCN, ECT(0)."""
    return traffic.dscp * 4 + (_ECT if fabric.dcqcn else 0)


def expected_fabric(fabric: Fabric) -> ExpectedFabric | None:
    """Return the section ``fabric`` of every class' expectations, None where collectives use no RDMA rails."""
    if not fabric.rdma:
        return None
    data = {
        "kind": fabric.kind,
        "routing": fabric.routing,
        "peer_memory": fabric.peer_memory,
        "port": _port(fabric) if fabric.kind == ROCE else None,
        "nccl_least": FIFO_TC if marks_control(fabric) else None,
        "verify_cabling": bool(fabric.verify_cabling),
        "ipoib": fabric.ipoib,
    }
    return read(ExpectedFabric, data)


def marks_control(fabric: Fabric) -> bool:
    """Return whether NCCL's clear-to-send packets are marked in another way than its data."""
    return fabric.qos is not None and tos_of(fabric.qos.control, fabric) != tos_of(fabric.qos.data, fabric)


def _port(fabric: Fabric) -> dict[str, Any]:
    return {
        "backend": fabric.backend,
        "mtu_bytes": fabric.mtu_bytes,
        "dcqcn": fabric.dcqcn,
        **(_marks(fabric.qos, fabric) if fabric.qos else _NO_MARKS),
        "rings": {"rx": fabric.rings.rx, "tx": fabric.rings.tx} if fabric.rings else None,
        "buffers": {
            "sizes_bytes": list(fabric.buffers.sizes_bytes),
            "of_priority": list(fabric.buffers.of_priority),
        }
        if fabric.buffers
        else None,
    }


# Best effort: packets go as they come.
_NO_MARKS: dict[str, Any] = {
    "dscp_priority": [],
    "lossless_priorities": [],
    "cnp_dscp": None,
    "cnp_priority": None,
    "cm_tos": 0,
    "traffic_class": None,
}


def _marks(qos: Qos, fabric: Fabric) -> dict[str, Any]:
    classes = (qos.data, qos.control, qos.cnp)
    return {
        "dscp_priority": [
            {"dscp": dscp, "priority": priority}
            for dscp, priority in sorted({each.dscp: each.priority for each in classes}.items())
        ],
        "lossless_priorities": sorted({each.priority for each in classes if each.lossless}),
        # Without DCQCN nobody sends notifications.
        "cnp_dscp": qos.cnp.dscp if fabric.dcqcn else None,
        "cnp_priority": qos.cnp.priority if fabric.dcqcn else None,
        "cm_tos": tos_of(qos.data, fabric),
        # It overrides what each queue pair asks for, so that control could not be marked differently any more.
        "traffic_class": None if marks_control(fabric) else tos_of(qos.data, fabric),
    }


def with_fabric(expect: Expectations, fabric: Fabric, file: str) -> Expectations:
    """Return the expectations of a class on this fabric. Raises FleetError where the two contradict each other.

    Link layer and MTU that the class leaves open are the fabric's.
    """
    nic, name = expect.nic, expect.class_
    _check_socket_interface(fabric, [rail.name for rail in nic.rails] if nic else [], name, file)
    if not fabric.rdma or nic is None:
        return replace(expect, fabric=expected_fabric(fabric))
    derived: dict[str, Any] = {"link_layer": _LINK_LAYER[fabric.kind]}
    if fabric.kind == ROCE:
        derived["mtu_bytes"] = fabric.mtu_bytes
    if fabric.speed_gbps is not None:
        derived["speed_gbps"] = fabric.speed_gbps
    for key, value in derived.items():
        if (own := getattr(nic, key)) not in (None, value):
            key_path = "fabric.kind" if key == "link_layer" else f"fabric.{key}"
            found = f"{value} there and {own} as hardware_classes.{name}.nic.{key}"
            raise FleetError(file, key_path, found, "the same in both")
    if expect.rdma is None:
        raise FleetError(file, f"hardware_classes.{name}.rdma", "nothing", f"limits, as fabric.kind is {fabric.kind}")
    return replace(expect, nic=replace(nic, **derived), fabric=expected_fabric(fabric))


def _check_socket_interface(fabric: Fabric, rails: Sequence[str], name: str, file: str) -> None:
    """Raise FleetError for the name of a rail that the class has not: no host has an interface of that name."""
    if re.fullmatch(r"rail\d+", fabric.socket_interface or "") and fabric.socket_interface not in rails:
        expected = f"an interface, or a rail of class {name}"
        raise FleetError(file, "fabric.socket_interface", f'"{fabric.socket_interface}"', expected)


def port_settings(fabric: Fabric, rails: Sequence[Rail], expect: Expectations) -> list[dict[str, Any]]:
    """Return what each rail's port of one node is set to, as ``PortSettings`` of the node program reads it.

    ``expect`` are the expectations of the node's class: at which PCI address each rail's NIC lies.
    """
    if fabric.kind != ROCE:
        return []
    places = {each.rail: each.address for each in stated(expect.nic).rails}
    return [{"rail": rail.rail, "address": places[rail.rail], "ip": rail.address, **_port(fabric)} for rail in rails]
