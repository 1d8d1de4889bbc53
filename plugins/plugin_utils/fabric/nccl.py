"""NCCL's variables of a node, each with its reason: what the declared fabric says, and no debugging aids.

What stays out is left to NCCL, whose own choice is right there: NCCL_IB_GID_INDEX (-1 finds the RoCE v2 entry, whose
index differs between hosts), NCCL_IB_SL, NCCL_IB_PCI_RELAXED_ORDERING (2: where the NIC can), PXN, NVLS, DMA-BUF.
Defaults are those of NCCL 2.30.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_conf import Variable
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_version import FIFO_TC, older
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, shown
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.spread import (
    HASHED,
    recommended_queue_pairs,
    uplinks_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import INFINIBAND, ROCE, Fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fabric_of_host import marks_control, tos_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import Rail

TOPOLOGY_FILE = "/etc/nccl_topo.xml"
# NCCL_IB_MAX_QPS in NCCL's source (net_ib).
MOST_QUEUE_PAIRS = 128
# For finding faults and for experiments; in a file that all jobs read they cost speed or change roads.
DEBUGGING_AIDS = (
    *("NCCL_ALGO", "NCCL_PROTO", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_TIMESTAMP_FORMAT"),
    *("NCCL_CHECK_POINTERS", "NCCL_CHECKS_DISABLE", "NCCL_GRAPH_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_TOPO_DUMP_FILE"),
    *("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_LAUNCH_MODE", "NCCL_WARN_ENABLE_DEBUG_INFO"),
)
_SETTINGS = "fabric.nccl.settings"
# What the declaration says elsewhere, by the key that says it; nothing else may say otherwise.
_SAID_BY = {
    "NCCL_SOCKET_IFNAME": "fabric.socket_interface",
    "NCCL_IB_DISABLE": "fabric.kind",
    "NCCL_NET": "fabric.kind",
    "NCCL_IB_HCA": "nodes.rails",
    "NCCL_IB_QPS_PER_CONNECTION": "fabric.nccl.qps_per_connection",
    "NCCL_IB_SPLIT_DATA_ON_QPS": "fabric.nccl.split_data_on_qps",
    "NCCL_IB_TC": "fabric.qos.data",
    "NCCL_IB_FIFO_TC": "fabric.qos.control",
    "NCCL_IB_ADAPTIVE_ROUTING": "fabric.routing",
    "NCCL_TOPO_FILE": "fabric.nccl.topology_file",
}


def nccl_variables(
    fabric: Fabric, rails: Sequence[Rail], expect: Expectations, file: str = "muster_fleet"
) -> list[Variable]:
    """Return the variables in the order in which they are written; ``expect`` are the node's class' expectations.

    Values name rails (``=rail0,rail1``), in the place of which each host writes what it calls their devices.
    Raises FleetError where the site's settings contradict the declaration or are debugging aids.
    """
    wanted = [*_sockets(fabric), *_devices(fabric, rails, file)]
    if fabric.rdma:
        wanted += [*_queue_pairs(fabric, rails, file), *_marks(fabric), *_routes(fabric, rails)]
    if fabric.nccl.topology_file is not None:
        wanted.append(Variable("NCCL_TOPO_FILE", TOPOLOGY_FILE, "PCI topology that the site declares for this host"))
    _check_declared_version(fabric, expect, file)
    settings = dict(fabric.nccl.settings or {})
    _check(settings, {each.name: each for each in wanted}, expect, file)
    kept = [each for each in wanted if each.name not in settings or each.name in _SAID_BY]
    own = [
        Variable(name, str(value), f"set by the site ({_SETTINGS})")
        for name, value in sorted(settings.items())
        if value is not None and name not in {each.name for each in kept}
    ]
    return [*kept, *own]


def _sockets(fabric: Fabric) -> list[Variable]:
    if fabric.socket_interface is None:
        return []
    reason = "ranks meet here and on no other; NCCL's own guess may be a container bridge (OCI, AWS)"
    return [Variable("NCCL_SOCKET_IFNAME", f"={fabric.socket_interface}", reason)]


def _devices(fabric: Fabric, rails: Sequence[Rail], file: str) -> list[Variable]:
    if not fabric.rdma:
        return [Variable("NCCL_IB_DISABLE", "1", "no RDMA fabric is declared: a stray device must not become one")]
    if not rails:
        raise FleetError(file, "nodes", "no rails", f"rails, as the fabric is {fabric.kind}")
    names = ",".join(rail.name for rail in sorted(rails, key=lambda rail: rail.rail))
    reason = "exactly the rails: NCCL itself would take storage and management devices too (OCI, Imbue)"
    return [Variable("NCCL_IB_HCA", f"={names}", reason)]


def _queue_pairs(fabric: Fabric, rails: Sequence[Rail], file: str) -> list[Variable]:
    declared, routing = fabric.nccl.qps_per_connection, str(fabric.routing)
    if declared is not None and declared > MOST_QUEUE_PAIRS:
        key, given = "fabric.nccl.qps_per_connection", str(declared)
        raise FleetError(file, key, given, f"at most {MOST_QUEUE_PAIRS}, NCCL's own limit")
    uplinks = uplinks_of(rails[0].switch, fabric)
    number = declared or recommended_queue_pairs(routing, uplinks)
    if declared is not None:
        reason = "declared (fabric.nccl.qps_per_connection)"
    elif routing not in HASHED:
        reason = f"{routing}: the switches do not place by flow, more queue pairs gain nothing (NCCL's default)"
    elif uplinks is None:
        reason = f"{routing} places by flow, uplinks are not declared: 4 to start with (OCI; Llama 3 has 16 flows)"
    else:
        reason = (
            f"{routing} over {uplinks} uplinks places by flow: enough of them to fill no link too far (docs/fabric.md)"
        )
    found = [Variable("NCCL_IB_QPS_PER_CONNECTION", str(number), reason)]
    split = fabric.nccl.split_data_on_qps
    if number > 1 or split is not None:
        turns = "whole messages in turn: splitting makes smaller packets and more ACKs (Meta, SIGCOMM 2024)"
        reason = turns if not split else "each message over all queue pairs (fabric.nccl.split_data_on_qps)"
        found.append(Variable("NCCL_IB_SPLIT_DATA_ON_QPS", str(int(bool(split))), reason))
    return found


def _marks(fabric: Fabric) -> list[Variable]:
    found = []
    if fabric.kind == ROCE:
        reason = "NCCL looks up the GID of RoCE v2 by itself; its index differs between hosts"
        found.append(Variable("NCCL_IB_ROCE_VERSION_NUM", "2", reason))
    qos = fabric.qos
    if fabric.kind != ROCE or qos is None:
        return found
    ect = ", ECT(0) for DCQCN" if fabric.dcqcn else ""
    data, control = str(tos_of(qos.data, fabric)), str(tos_of(qos.control, fabric))
    reason = f"ToS of data: DSCP {qos.data.dscp}{ect}, priority {qos.data.priority} in NIC and switch"
    found.append(Variable("NCCL_IB_TC", data, reason))
    if marks_control(fabric):
        reason = (
            f"clear-to-send must not wait behind data: DSCP {qos.control.dscp}{ect}, priority {qos.control.priority}"
        )
        found.append(Variable("NCCL_IB_FIFO_TC", control, reason))
    return found


def _routes(fabric: Fabric, rails: Sequence[Rail]) -> list[Variable]:
    reason = "4.096 us x 2^22 is 17 s for each try, so that a link may flap and come back (MegaScale, OCI; default 20)"
    found = [
        Variable("NCCL_IB_TIMEOUT", "22", reason),
        Variable(
            "NCCL_IB_RETRY_CNT", "7", "the most there is; with the timeout two minutes before a job dies (MegaScale)"
        ),
    ]
    sprayed = fabric.routing in ("adaptive", "packet_spray")
    reason = f"routing is {fabric.routing}: " + (
        "switches choose by load" if sprayed else "packets have to stay in order"
    )
    found.append(Variable("NCCL_IB_ADAPTIVE_ROUTING", str(int(sprayed)), reason))
    switches = [rail.switch for rail in rails]
    if None not in switches:
        if len(set(switches)) > 1:
            cross, reason = "0", "each rail has a leaf of its own: to another rail is a way over the spine"
        elif fabric.kind == INFINIBAND:
            cross, reason = "1", "all rails on one switch: any NIC reaches any other at the same cost"
        else:
            cross, reason = (
                "2",
                "all rails on the rack's switch: NCCL may cross where it gains by it (Meta; the default)",
            )
        found.append(Variable("NCCL_CROSS_NIC", cross, reason))
    return found


def _check_declared_version(fabric: Fabric, expect: Expectations, file: str) -> None:
    packages = expect.gpu_stack.packages if expect.gpu_stack else ()
    for package in packages if marks_control(fabric) else ():
        if package.name == "libnccl2" and older(package.version, FIFO_TC):
            key = f"hardware_classes.{expect.class_}.gpu_stack.packages"
            says = f"{FIFO_TC} or later, as fabric.qos marks control unlike data (NCCL_IB_FIFO_TC)"
            raise FleetError(file, key, f"libnccl2 {package.version}", says)


def _check(settings: Mapping[str, Any], wanted: Mapping[str, Variable], expect: Expectations, file: str) -> None:
    """Raise FleetError for a setting that the declaration contradicts."""
    for name, value in settings.items():
        key = f"{_SETTINGS}.{name}"
        if name in DEBUGGING_AIDS:
            raise FleetError(file, key, shown(value), "nothing: it is a debugging aid, for one job's environment")
        if value is not None and any(mark in str(value) for mark in "\n\r"):
            raise FleetError(file, key, shown(value), "one line")
        derived = wanted.get(name)
        if name in _SAID_BY and (value is not None or derived) and (derived is None or str(value) != derived.value):
            says = (
                f"{derived.value}, as {_SAID_BY[name]} says" if derived else f"nothing, as {_SAID_BY[name]} decides it"
            )
            raise FleetError(file, key, shown(value), says)
    asked = expect.collective.transport if wanted.get("NCCL_IB_HCA") else None
    against = {
        "NCCL_NVLS_ENABLE": "nvls" if asked and asked.nvls else None,
        "NCCL_NET_GDR_LEVEL": "gpu_direct" if asked and asked.gpu_direct else None,
    }
    for name, why in against.items():
        if why and name in settings and str(settings[name]) in ("0", "LOC"):
            says = f"anything that allows it, as collective.transport.{why} of the hardware class is true"
            raise FleetError(file, f"{_SETTINGS}.{name}", shown(settings[name]), says)
