"""The declared network of collectives: one statement from which hosts, NCCL, cabling plan and switches are derived."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from ansible_collections.muster.cluster.plugins.module_utils.words.reader import (
    Count,
    Positive,
    ReadError,
    Rule,
    Text,
    check_keys,
    matching,
    read,
    read_as,
    shown,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import (
    choice,
    each_once,
    faults_of,
    filled,
    internet,
    name_pattern,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_defaults import shipped_defaults

ROCE, INFINIBAND, ETHERNET = "roce", "infiniband", "ethernet"
# How the switches choose among equal paths. ecmp: by addresses and ports; e_ecmp: by the destination queue pair too
# (Meta's RoCE paper); packet_spray: packet by packet, reordered by the NIC; adaptive: by load; static: by address.
ROUTING = {ROCE: ("ecmp", "e_ecmp", "packet_spray"), INFINIBAND: ("adaptive", "static"), ETHERNET: ()}
# From the hosts upwards.
TIERS = ("leaf", "spine", "core")
SYSTEMS = {ROCE: ("sonic", "cumulus", "eos"), INFINIBAND: ("quantum",), ETHERNET: ()}
# Bytes of an InfiniBand link's MTU (InfiniBand specification, PortInfo.NeighborMTU).
INFINIBAND_MTU = (256, 512, 1024, 2048, 4096)
# What a 4096-byte RDMA message needs of the interface with its headers (OCI's configuration for H100), and the least
# that IPv4 needs of any.
LEAST_MTU = {ROCE: 4220, ETHERNET: 68}
# OpenSM's engines by which switches route adaptively (NVIDIA's OpenSM: ar_updn, ar_ftree; dragonfly's dfp).
_ADAPTIVE_ENGINES = ("ar_", "dfp")
# Said in place of the classes where neither network nor hosts keep any apart: nothing is lossless, nothing is marked.
BEST_EFFORT = "best_effort"

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?").fullmatch
_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]*").fullmatch
# Keys that only one kind of fabric has a use for; elsewhere they would look as if they did something.
_ONLY = {
    ROCE: ("backend", "dcqcn", "qos", "ecn", "buffers", "rings"),
    INFINIBAND: ("ipoib", "partitions", "subnet_manager"),
}
Kind = Literal["roce", "infiniband", "ethernet"]
PortPattern = Annotated[str, name_pattern("a port's name or a pattern such as Ethernet[1-32]", _PORT)]


@dataclass(frozen=True)
class TrafficClass:
    """How packets of one kind are marked: ``dscp`` 0 to 63 on the wire, ``priority`` 0 to 7 in NIC and switch."""

    dscp: Annotated[int, Rule("a number from 0 to 63", range(64).__contains__)]
    priority: Annotated[int, Rule("a number from 0 to 7", range(8).__contains__)]
    lossless: bool


@dataclass(frozen=True)
class Qos:
    """Data (RDMA writes), control (NCCL's clear-to-send) and congestion notification packets; two may share a class."""

    data: TrafficClass
    control: TrafficClass
    cnp: TrafficClass

    def __post_init__(self) -> None:
        known: dict[str, TrafficClass] = {}
        for name, one in vars(self).items():
            for other, marked in known.items():
                if one.dscp == marked.dscp and one.priority != marked.priority:
                    expected = f"{marked.priority}, as DSCP {marked.dscp} is that of {other} too"
                    raise ReadError(f"{name}.priority", str(one.priority), expected)
                if one.priority == marked.priority and one.lossless != marked.lossless:
                    expected = f"{shown(marked.lossless)}, as priority {marked.priority} is that of {other} too"
                    raise ReadError(f"{name}.lossless", shown(one.lossless), expected)
            known[name] = one


@dataclass(frozen=True)
class Ecn:
    """Length of a switch's data queue in bytes from which it marks packets, and from which it marks all of them."""

    min_bytes: Positive
    max_bytes: Positive

    def __post_init__(self) -> None:
        if self.max_bytes < self.min_bytes:
            raise ReadError("max_bytes", str(self.max_bytes), f"at least min_bytes, which is {self.min_bytes}")


@dataclass(frozen=True)
class Buffers:
    """Receive buffers of a port: bytes of each of the eight buffers, and the buffer of each of the eight priorities."""

    sizes_bytes: tuple[Count, ...]
    of_priority: tuple[Count, ...]

    def __post_init__(self) -> None:
        for key, values in vars(self).items():
            if len(values) != 8:
                raise ReadError(key, f"{len(values)} numbers", "eight whole numbers of at least 0")
        for priority, buffer in enumerate(self.of_priority):
            if buffer > 7:
                raise ReadError(f"of_priority[{priority}]", str(buffer), "the number of a buffer, 0 to 7")
            if not self.sizes_bytes[buffer]:
                wanted = f"bytes for buffer {buffer}, as priority {priority} goes there"
                raise ReadError(f"sizes_bytes[{buffer}]", "0", wanted)


@dataclass(frozen=True)
class Rings:
    """Descriptors of a port's rings."""

    rx: Positive
    tx: Positive


@dataclass(frozen=True)
class Partition:
    """An InfiniBand partition: ``pkey`` without the membership bit (0x7fff is the default one)."""

    name: Text
    pkey: Annotated[
        int, Rule("a number from 0x1 to 0x7fff, without the bit of full membership", range(1, 0x8000).__contains__)
    ]
    ipoib: bool = False


@dataclass(frozen=True)
class SubnetManager:
    """OpenSM on the fleet's hosts of role ``subnet_manager``; the first of them is the master."""

    routing_engine: Text
    qos: bool = False


@dataclass(frozen=True)
class Uplinks:
    """Links of a block of switches to the tier above.

    Both blocks fall into ``groups`` equal parts in order; within a part every lower switch has the same number of links
    to every upper one: ``ports`` below go to the upper switches in order, and fill ``at`` above in order.
    """

    to: Annotated[str, name_pattern("a switch's name or a pattern such as spine-[01-16]", _NAME)]
    ports: PortPattern
    at: PortPattern
    groups: Positive = 1


@dataclass(frozen=True)
class SwitchBlock:
    """Like switches by pattern; ``address`` is the first one's management address, None where nobody asks them."""

    name: Annotated[str, name_pattern("a switch's name or a pattern such as leaf-[01-32]", _NAME)]
    tier: Literal["leaf", "spine", "core"]
    system: str
    address: (
        Annotated[str, internet(ipaddress.ip_address, "the first switch's management address, such as 10.2.0.1")] | None
    ) = None
    uplinks: Uplinks | None = None


@dataclass(frozen=True)
class Nccl:
    """What a site says to NCCL beyond what follows from the fabric; null in ``settings`` takes a variable out."""

    qps_per_connection: Positive | None = None
    split_data_on_qps: bool | None = None
    topology_file: Annotated[str, matching("/.*", "an absolute path")] | None = None
    settings: (
        Mapping[
            Annotated[str, matching("NCCL_.*", "a variable that begins with NCCL_")],
            Annotated[str | int | float | None, Rule("a number, a text or null", lambda _value: True)],
        ]
        | None
    ) = None


@dataclass(frozen=True)
class Fabric:
    """The network that collectives use; bootstrap and sockets go over ``socket_interface``, also a rail (``rail0``).

    What only one kind has is None on the others. ``mtu_bytes`` is that of the rails' interfaces (RoCE) or links.
    ``qos`` is None on a RoCE fabric of best effort; ``dcqcn`` is None where the NICs' firmware decides.
    ``verify_cabling`` says whether stage fabric holds every rail against the cabling plan.
    """

    kind: Kind
    speed_gbps: Positive | None = None
    socket_interface: Text | None = None
    mtu_bytes: Positive | None = None
    routing: str | None = None
    backend: Literal["doca", "inbox"] | None = None
    dcqcn: bool | None = None
    qos: Qos | None = None
    ecn: Ecn | None = None
    buffers: Buffers | None = None
    rings: Rings | None = None
    # How NICs reach the memory of GPUs: by the kernel's DMA-BUF, or by a module of NVIDIA's driver.
    peer_memory: Literal["dmabuf", "nvidia_peermem"] | None = None
    ipoib: Literal["datagram", "connected"] | None = None
    partitions: tuple[Partition, ...] = ()
    subnet_manager: SubnetManager | None = None
    switches: tuple[SwitchBlock, ...] = ()
    verify_cabling: bool | None = None
    nccl: Nccl = Nccl()

    def __post_init__(self) -> None:
        _check_kind(self)
        for index, block in enumerate(self.switches):
            choice(f"switches[{index}].system", block.system, SYSTEMS[self.kind])
        for key in ("name", "pkey"):
            each_once("partitions", (getattr(each, key) for each in self.partitions), f"each {key} once", f".{key}")
        _check_traffic(self)
        manager = self.subnet_manager
        if manager and self.routing == "adaptive" and not manager.routing_engine.startswith(_ADAPTIVE_ENGINES):
            wanted = "an adaptive engine such as ar_updn, as routing is adaptive (static: updn, ftree)"
            raise ReadError("subnet_manager.routing_engine", manager.routing_engine, wanted)

    @property
    def rdma(self) -> bool:
        """Whether collectives go over RDMA rails."""
        return self.kind != ETHERNET

    def to_dict(self) -> dict[str, Any]:
        """Return what is declared as plain data that ``read_fabric`` takes back; what says nothing is left out."""
        data = _plain(asdict(self))
        if self.kind == ROCE and self.qos is None:
            data["qos"] = BEST_EFFORT
        return {key: value for key, value in data.items() if value not in (None, [], {})}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if inner not in (None, {}) or "NCCL_" in key}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _check_kind(fabric: Fabric) -> None:
    """Raise ReadError for a value that the kind of fabric cannot have."""
    if fabric.rdma or fabric.routing is not None:
        choice("routing", fabric.routing, ROUTING[fabric.kind])
    if not fabric.rdma and fabric.peer_memory is not None:
        choice("peer_memory", fabric.peer_memory, ())
    if fabric.kind == INFINIBAND:
        choice("mtu_bytes", str(fabric.mtu_bytes), [str(mtu) for mtu in INFINIBAND_MTU])
    elif fabric.mtu_bytes is not None and fabric.mtu_bytes < (least := LEAST_MTU[fabric.kind]):
        raise ReadError("mtu_bytes", str(fabric.mtu_bytes), f"a whole number of at least {least}")


def _check_traffic(fabric: Fabric) -> None:
    """Raise ReadError where classes of traffic, their buffers and DCQCN contradict each other."""
    best_effort = fabric.kind == ROCE and fabric.qos is None
    if best_effort and fabric.dcqcn:
        raise ReadError("dcqcn", "true", f"false, as qos is {BEST_EFFORT} and it works on priorities")
    if best_effort and fabric.buffers:
        raise ReadError("buffers", "buffers", f"nothing, as qos is {BEST_EFFORT}: they belong to priorities")
    if fabric.qos and not fabric.qos.data.lossless and not fabric.dcqcn:
        raise ReadError("qos.data.lossless", "false", "true, as dcqcn is off and nothing else would keep packets")


def fabric_of(data: Any) -> Fabric:
    """Return the section ``fabric`` of a fleet file, filled up with the defaults of its kind. Raises ReadError."""
    check_keys(data, [each.name for each in fields(Fabric)])
    kind = read_as(Kind, data.get("kind"), "kind")
    for owner, keys in _ONLY.items():
        for key in keys:
            # An empty list says nothing, as the variables of another kind of fabric have it.
            if kind != owner and data.get(key) not in (None, []):
                raise ReadError(key, shown(data[key]), f"nothing, as only a fabric of kind {owner} has it")
    values = filled(data, shipped_defaults("fabric").get(kind, {}))
    if values.get("qos") == BEST_EFFORT:
        values["qos"] = None
    if data.get("dcqcn") is None and values.get("backend") != "doca":
        # Only the vendor's driver can switch it: elsewhere a default would be a setting that nobody can make.
        values.pop("dcqcn", None)
    if kind != ETHERNET:
        # Whoever declares switches has a plan to hold the cables against: to leave that out takes a word.
        values.setdefault("verify_cabling", bool(values.get("switches")))
    fabric = read(Fabric, values)
    if fabric.verify_cabling and not (fabric.rdma and fabric.switches):
        wanted = "false, as there are no RDMA rails with switches to hold them against"
        raise ReadError("verify_cabling", "true", wanted)
    return fabric


def read_fabric(data: Any, file: str = "muster_fleet") -> Fabric:
    """Return the section ``fabric`` that a file or variable declares. Raises FleetError."""
    with faults_of(file, "fabric"):
        return fabric_of(data)
