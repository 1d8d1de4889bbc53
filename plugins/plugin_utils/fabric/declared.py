"""The declared network of collectives: one statement from which hosts, NCCL, cabling plan and switches are derived."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.expectations import shown
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import Section, read_yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.hardware_class import plain

BACKENDS = ("doca", "inbox")
ROCE, INFINIBAND, ETHERNET = "roce", "infiniband", "ethernet"
KINDS = (ROCE, INFINIBAND, ETHERNET)
# How the switches choose among equal paths. ecmp: by addresses and ports; e_ecmp: by the destination queue pair too
# (Meta's RoCE paper); packet_spray: packet by packet, reordered by the NIC; adaptive: by load; static: by address.
ROUTING = {ROCE: ("ecmp", "e_ecmp", "packet_spray"), INFINIBAND: ("adaptive", "static"), ETHERNET: ()}
# From the hosts upwards.
TIERS = ("leaf", "spine", "core")
SYSTEMS = {ROCE: ("sonic", "cumulus", "eos"), INFINIBAND: ("quantum",), ETHERNET: ()}
# Bytes of an InfiniBand link's MTU (InfiniBand specification, PortInfo.NeighborMTU).
INFINIBAND_MTU = (256, 512, 1024, 2048, 4096)
# What a 4096-byte RDMA message needs of the interface with its headers (OCI's configuration for H100).
ROCE_MTU = 4220
# OpenSM's engines by which switches route adaptively (NVIDIA's OpenSM: ar_updn, ar_ftree; dragonfly's dfp).
_ADAPTIVE_ENGINES = ("ar_", "dfp")
TRAFFIC_CLASSES = ("data", "control", "cnp")
# Said in place of the classes where neither network nor hosts keep any apart: nothing is lossless, nothing is marked.
BEST_EFFORT = "best_effort"
# How NICs reach the memory of GPUs: by the kernel's DMA-BUF, or by a module of NVIDIA's driver.
PEER_MEMORY = ("dmabuf", "nvidia_peermem")
IPOIB_MODES = ("datagram", "connected")

_DEFAULTS = Path(__file__).parents[1] / "fleet_defaults.yml"
_SWITCH_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PORT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]*")
_KEYS = (
    *("kind", "speed_gbps", "socket_interface", "mtu_bytes", "routing", "backend", "dcqcn", "qos", "ecn"),
    *("buffers", "rings", "peer_memory", "ipoib", "partitions", "subnet_manager", "switches", "verify_cabling"),
    "nccl",
)
# Keys that only one kind of fabric has a use for; elsewhere they would look as if they did something.
_ONLY = {
    ROCE: ("backend", "dcqcn", "qos", "ecn", "buffers", "rings"),
    INFINIBAND: ("ipoib", "partitions", "subnet_manager"),
}


@dataclass(frozen=True)
class TrafficClass:
    """How packets of one kind are marked: ``dscp`` 0 to 63 on the wire, ``priority`` 0 to 7 in NIC and switch."""

    dscp: int
    priority: int
    lossless: bool


@dataclass(frozen=True)
class Qos:
    """Data (RDMA writes), control (NCCL's clear-to-send) and congestion notification packets; two may share a class."""

    data: TrafficClass
    control: TrafficClass
    cnp: TrafficClass


@dataclass(frozen=True)
class Ecn:
    """Length of a switch's data queue in bytes from which it marks packets, and from which it marks all of them."""

    min_bytes: int
    max_bytes: int


@dataclass(frozen=True)
class Buffers:
    """Receive buffers of a port: bytes of each of the eight buffers, and the buffer of each of the eight priorities."""

    sizes_bytes: tuple[int, ...]
    of_priority: tuple[int, ...]


@dataclass(frozen=True)
class Rings:
    """Descriptors of a port's rings."""

    rx: int
    tx: int


@dataclass(frozen=True)
class Partition:
    """An InfiniBand partition: ``pkey`` without the membership bit (0x7fff is the default one)."""

    name: str
    pkey: int
    ipoib: bool


@dataclass(frozen=True)
class SubnetManager:
    """OpenSM on the fleet's hosts of role ``subnet_manager``; the first of them is the master."""

    routing_engine: str
    qos: bool


@dataclass(frozen=True)
class Uplinks:
    """Links of a block of switches to the tier above.

    Both blocks fall into ``groups`` equal parts in order; within a part every lower switch has the same number of links
    to every upper one: ``ports`` below go to the upper switches in order, and fill ``at`` above in order.
    """

    to: str
    ports: str
    at: str
    groups: int


@dataclass(frozen=True)
class SwitchBlock:
    """Like switches by pattern; ``address`` is the first one's management address, None where nobody asks them."""

    name: str
    tier: str
    system: str
    address: str | None
    uplinks: Uplinks | None


@dataclass(frozen=True)
class Nccl:
    """What a site says to NCCL beyond what follows from the fabric; null in ``settings`` takes a variable out."""

    qps_per_connection: int | None = None
    split_data_on_qps: bool | None = None
    topology_file: str | None = None
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Fabric:
    """The network that collectives use; ``socket_interface`` is where their bootstrap and sockets go.

    What only one kind has is None on the others. ``mtu_bytes`` is that of the rails' interfaces (RoCE) or links.
    ``qos`` is None on a RoCE fabric of best effort; ``dcqcn`` is None where the NICs' firmware decides.
    ``verify_cabling`` says whether stage fabric holds every rail against the cabling plan.
    """

    kind: str
    speed_gbps: int | None = None
    socket_interface: str | None = None
    mtu_bytes: int | None = None
    routing: str | None = None
    backend: str | None = None
    dcqcn: bool | None = None
    qos: Qos | None = None
    ecn: Ecn | None = None
    buffers: Buffers | None = None
    rings: Rings | None = None
    peer_memory: str | None = None
    ipoib: str | None = None
    partitions: tuple[Partition, ...] = ()
    subnet_manager: SubnetManager | None = None
    switches: tuple[SwitchBlock, ...] = ()
    verify_cabling: bool | None = None
    nccl: Nccl = Nccl()

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
        return {key: _plain(inner) for key, inner in value.items() if inner is not None or "NCCL_" in key}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def read_fabric(top: Section) -> Fabric:
    """Return the section ``fabric`` of a fleet file, filled up with the defaults of its kind. Raises FleetError."""
    section = top.section("fabric", _KEYS, required=True)
    kind = section.choice("kind", KINDS)
    for owner, keys in _ONLY.items():
        for key in keys:
            # An empty list says nothing, as the variables of another kind of fabric have it.
            if kind != owner and section.data.get(key) not in (None, []):
                raise section.error(key, f"nothing, as only a fabric of kind {owner} has it")
    defaults = plain(read_yaml(_DEFAULTS), str(_DEFAULTS))["fabric"]
    own = {key: value for key, value in section.data.items() if value is not None}
    values = {**defaults.get(kind, {}), **own}
    if "dcqcn" not in own and values.get("backend") != "doca":
        # Only the vendor's driver can switch it: elsewhere a default would be a setting that nobody can make.
        values.pop("dcqcn", None)
    filled = Section(values, section.file, section.key, _KEYS)
    rdma = kind != ETHERNET
    fabric = Fabric(
        kind=kind,
        speed_gbps=filled.number("speed_gbps", 1, None, whole=True),
        socket_interface=filled.text("socket_interface", None),
        mtu_bytes=_mtu(filled, kind),
        routing=filled.choice("routing", ROUTING[kind]) if rdma else filled.choice("routing", (), None),
        backend=filled.choice("backend", BACKENDS, None),
        dcqcn=filled.flag("dcqcn", None),
        qos=_qos(filled) if filled.data.get("qos") not in (None, BEST_EFFORT) else None,
        ecn=_ecn(filled) if "ecn" in filled else None,
        buffers=_buffers(filled) if "buffers" in filled else None,
        rings=_rings(filled) if "rings" in filled else None,
        peer_memory=filled.choice("peer_memory", PEER_MEMORY if rdma else (), None),
        ipoib=filled.choice("ipoib", IPOIB_MODES, None),
        partitions=_partitions(filled),
        subnet_manager=_subnet_manager(filled) if "subnet_manager" in filled else None,
        switches=tuple(_switch_block(each, kind) for each in filled.sections("switches", _SWITCH_KEYS)),
        # Whoever declares switches has a plan to hold the cables against: to leave that out takes a word.
        verify_cabling=filled.flag("verify_cabling", bool(filled.data.get("switches"))) if rdma else None,
        nccl=_nccl(filled),
    )
    if own.get("verify_cabling") and not (rdma and fabric.switches):
        raise filled.error("verify_cabling", "false, as there are no RDMA rails with switches to hold them against")
    if kind == ROCE and fabric.qos is None and fabric.dcqcn:
        raise filled.error("dcqcn", f"false, as qos is {BEST_EFFORT} and it works on priorities", "true")
    if kind == ROCE and fabric.qos is None and fabric.buffers:
        raise filled.error("buffers", f"nothing, as qos is {BEST_EFFORT}: they belong to priorities", "buffers")
    if fabric.qos and not fabric.qos.data.lossless and not fabric.dcqcn:
        raise filled.error("qos.data.lossless", "true, as dcqcn is off and nothing else would keep packets", "false")
    manager = fabric.subnet_manager
    if manager and fabric.routing == "adaptive" and not manager.routing_engine.startswith(_ADAPTIVE_ENGINES):
        wanted = "an adaptive engine such as ar_updn, as routing is adaptive (static: updn, ftree)"
        raise filled.error("subnet_manager.routing_engine", wanted, manager.routing_engine)
    return fabric


def _mtu(section: Section, kind: str) -> int | None:
    least = ROCE_MTU if kind == ROCE else 68
    mtu: int | None = section.number("mtu_bytes", least, None, whole=True)
    if kind == INFINIBAND and mtu not in INFINIBAND_MTU:
        raise section.error("mtu_bytes", f"one of {', '.join(map(str, INFINIBAND_MTU))}")
    return mtu


def _qos(section: Section) -> Qos:
    qos = section.section("qos", TRAFFIC_CLASSES)
    classes = {}
    for name in TRAFFIC_CLASSES:
        given = qos.section(name, ("dscp", "priority", "lossless"), required=True)
        classes[name] = TrafficClass(
            given.number("dscp", 0, whole=True), given.number("priority", 0, whole=True), given.flag("lossless")
        )
        if classes[name].dscp > 63:
            raise given.error("dscp", "a number from 0 to 63")
        if classes[name].priority > 7:
            raise given.error("priority", "a number from 0 to 7")
        for other, marked in classes.items():
            if classes[name].dscp == marked.dscp and classes[name].priority != marked.priority:
                raise given.error("priority", f"{marked.priority}, as DSCP {marked.dscp} is that of {other} too")
            if classes[name].priority == marked.priority and classes[name].lossless != marked.lossless:
                says = "true" if marked.lossless else "false"
                raise given.error("lossless", f"{says}, as priority {marked.priority} is that of {other} too")
    return Qos(**classes)


def _ecn(section: Section) -> Ecn:
    given = section.section("ecn", ("min_bytes", "max_bytes"))
    ecn = Ecn(given.number("min_bytes", 1, whole=True), given.number("max_bytes", 1, whole=True))
    if ecn.max_bytes < ecn.min_bytes:
        raise given.error("max_bytes", f"at least min_bytes, which is {ecn.min_bytes}")
    return ecn


def _buffers(section: Section) -> Buffers:
    given = section.section("buffers", ("sizes_bytes", "of_priority"))
    sizes, of_priority = (_eight(given, key) for key in ("sizes_bytes", "of_priority"))
    if any(buffer > 7 for buffer in of_priority):
        raise given.error("of_priority", "numbers of buffers, 0 to 7")
    for priority, buffer in enumerate(of_priority):
        if not sizes[buffer]:
            raise given.error("sizes_bytes", f"bytes for buffer {buffer}, as priority {priority} goes there")
    return Buffers(sizes, of_priority)


def _eight(section: Section, key: str) -> tuple[int, ...]:
    values = section.data.get(key)
    if not isinstance(values, (list, tuple)) or len(values) != 8:
        found = f"{len(values)} numbers" if isinstance(values, (list, tuple)) else None
        raise section.error(key, "eight whole numbers of at least 0", found)
    for index, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise section.error(f"{key}[{index}]", "a whole number of at least 0", shown(value))
    return tuple(values)


def _rings(section: Section) -> Rings:
    given = section.section("rings", ("rx", "tx"))
    return Rings(given.number("rx", 1, whole=True), given.number("tx", 1, whole=True))


def _partitions(section: Section) -> tuple[Partition, ...]:
    found: list[Partition] = []
    for given in section.sections("partitions", ("name", "pkey", "ipoib")):
        partition = Partition(given.text("name"), given.number("pkey", 1, whole=True), given.flag("ipoib", False))
        if partition.pkey > 0x7FFF:
            raise given.error("pkey", "a number from 0x1 to 0x7fff, without the bit of full membership")
        for other in found:
            if other.name == partition.name:
                raise given.error("name", "each partition once")
            if other.pkey == partition.pkey:
                raise given.error("pkey", f"another key, as {other.name} has this one")
        found.append(partition)
    return tuple(found)


def _subnet_manager(section: Section) -> SubnetManager:
    given = section.section("subnet_manager", ("routing_engine", "qos"))
    return SubnetManager(given.text("routing_engine"), given.flag("qos", False))


_SWITCH_KEYS = ("name", "tier", "system", "address", "uplinks")


def _switch_block(section: Section, kind: str) -> SwitchBlock:
    section.names("name", _SWITCH_NAME.fullmatch, "a switch's name or a pattern such as leaf-[01-32]")
    address = section.text("address", None)
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError as exc:
            raise section.error("address", "the first switch's management address, such as 10.2.0.1") from exc
    uplinks = None
    if "uplinks" in section:
        given = section.section("uplinks", ("to", "ports", "at", "groups"))
        given.names("to", _SWITCH_NAME.fullmatch, "a switch's name or a pattern such as spine-[01-16]")
        for key in ("ports", "at"):
            given.names(key, _PORT_NAME.fullmatch, "a port's name or a pattern such as Ethernet[1-32]")
        uplinks = Uplinks(
            given.text("to"), given.text("ports"), given.text("at"), given.number("groups", 1, 1, whole=True)
        )
    return SwitchBlock(
        section.text("name"),
        section.choice("tier", TIERS),
        section.choice("system", SYSTEMS[kind]),
        address,
        uplinks,
    )


def _nccl(section: Section) -> Nccl:
    given = section.section("nccl", ("qps_per_connection", "split_data_on_qps", "topology_file", "settings"))
    variables = given.section("settings", None)
    settings = variables.data
    for name, value in settings.items():
        if not name.startswith("NCCL_"):
            raise variables.error(name, "a variable that begins with NCCL_", name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (str, int, float))):
            raise variables.error(name, "a number, a text or null")
    topology = given.text("topology_file", None)
    if topology is not None and not topology.startswith("/"):
        raise given.error("topology_file", "an absolute path")
    return Nccl(
        given.number("qps_per_connection", 1, None, whole=True),
        given.flag("split_data_on_qps", None),
        topology,
        dict(settings) or None,
    )
