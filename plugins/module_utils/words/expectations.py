"""What a hardware class expects of a host: every value there is, its type and what it means.

A value or section that may be null says by it that the class has no such part, or declares no such value. A missing key
is an error in any case, so that nothing goes unexpected by an oversight.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypeVar

# Hints are read at run time, by Python 3.9 too: no ``X | None`` and no annotations as text in this file.
from .reader import AboveZero, Count, Number, Path, Positive, ReadError, Rule, Text, at_least, matching, read
from .reader import shown as shown  # noqa: PLC0414 -- others import it from here

T = TypeVar("T")
# What the role gpu_stack must keep running on a host whose GPUs' memory other hosts use.
IMEX_SERVICE = "nvidia-imex.service"
_ADDRESS = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?")


def pci_address(text: str) -> Optional[str]:
    """Return a PCI address (``00000000:1B:00.0``, NVRM's ``0000:1b:00``) as ``0000:1b:00.0``, or None if it is none."""
    match = _ADDRESS.fullmatch(text.strip())
    if not match:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus.lower()}:{device.lower()}.{function or '0'}"


PciAddress = Annotated[str, Rule("a PCI address such as 0000:1b:00.0", lambda text: pci_address(text) == text)]
Date = Annotated[str, matching(r"\d{4}-\d\d-\d\d", "a date such as 2026-01-31")]
Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
# What moves data: between the same rails of two nodes, or among all of a group.
Movement = Literal["sendrecv", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
# Error counters of an RDMA port that a class may limit; null: not judged.
PortCounter = Literal[
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_constraint_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "VL15_dropped",
]
InterfaceCounter = Literal["carrier_changes", "rx_crc_errors"]
# Counters of an RDMA port whose growth during fabric rounds a class may limit; null: not judged.
RdmaCounter = Literal[
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_slow_restart",
    "np_cnp_sent",
    "rp_cnp_handled",
    "np_ecn_marked_roce_packets",
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_xmit_discards",
]
# Device Control register of PCI Express (base specification 7.5.3.4): 128 bytes doubled by each step of three bits.
READ_REQUEST_BYTES = tuple(128 << code for code in range(6))
ReadRequestBytes = Annotated[
    int, Rule(f"one of {', '.join(map(str, READ_REQUEST_BYTES))}", lambda size: size in READ_REQUEST_BYTES)
]


@dataclass(frozen=True)
class DscpPriority:
    """The priority of packets with one DSCP."""

    dscp: Count
    priority: Count


@dataclass(frozen=True)
class Rings:
    """Descriptors of a port's receive and send rings."""

    rx: Positive
    tx: Positive


@dataclass(frozen=True)
class Buffers:
    """Receive buffers of a port; lists of eight are by buffer or priority."""

    sizes_bytes: tuple[Count, ...]
    of_priority: tuple[Count, ...]


@dataclass(frozen=True)
class RocePort:
    """What every RoCE port of a host is set to. No DSCPs: best effort."""

    backend: Literal["doca", "inbox"]
    mtu_bytes: Positive
    dscp_priority: tuple[DscpPriority, ...]
    lossless_priorities: tuple[Count, ...]
    # Null: left as the NIC's firmware has it.
    dcqcn: Optional[bool]
    cnp_dscp: Optional[Count]
    cnp_priority: Optional[Count]
    cm_tos: Count
    traffic_class: Optional[Count]
    rings: Optional[Rings]
    buffers: Optional[Buffers]


@dataclass(frozen=True)
class Fabric:
    """Follows from the fleet's fabric, no class states it: null where collectives use no RDMA rails."""

    kind: Literal["roce", "infiniband"]
    routing: Text
    # How NICs reach the memory of GPUs.
    peer_memory: Literal["dmabuf", "nvidia_peermem"]
    port: Optional[RocePort]
    # The oldest NCCL that knows all variables which the fabric needs; null: any does.
    nccl_least: Optional[Text]
    # Whether every rail's cable is held against the fleet's plan.
    verify_cabling: bool
    # Mode of IPoIB; null where the fabric is no InfiniBand, or its rails carry no IP.
    ipoib: Optional[Literal["datagram", "connected"]]

    @property
    def has_interfaces(self) -> bool:
        """Whether each rail has a network interface."""
        return self.kind == "roce" or self.ipoib is not None


@dataclass(frozen=True)
class Mount:
    """Follows from the fleet's storage, no class states it."""

    tier: Text
    kind: Literal["local", "nfs", "lustre", "weka", "beegfs", "existing"]
    path: Path
    filesystem: Text
    # What is mounted; null where only the host knows (a file system by its UUID) or nobody says.
    source: Optional[Text]
    options: tuple[Text, ...]
    # Of a node's own drives.
    numa_node: Optional[Count]
    stripe_count: Optional[int]
    write_ms: AboveZero
    free_percent: Number


@dataclass(frozen=True)
class Checkpoint:
    """Follows from the fleet's storage: what each rank of a checkpoint writes to which mount, and in what time all."""

    tier: Text
    path: Path
    shard_bytes: Positive
    ranks: Positive
    target_seconds: AboveZero


@dataclass(frozen=True)
class MiniClusterLimit:
    """The longest p99 of groups of so many GPUs."""

    gpus: Positive
    microseconds: AboveZero


@dataclass(frozen=True)
class MiniClusters:
    """Follows from the latency profile that the fleet's policy asks for: the longest p99 of groups of so many GPUs."""

    profile: Text
    collective: Collective
    sizes_bytes: tuple[Positive, ...]
    limits: tuple[MiniClusterLimit, ...]


@dataclass(frozen=True)
class GpuPart:
    """One GPU: its slot as the class names it, and where it lies."""

    slot: Text
    address: PciAddress


@dataclass(frozen=True)
class Ecc:
    """Limits of what GPUs have counted."""

    sram_uncorrectable_aggregate: Count
    sram_correctable: Count
    dram_correctable: Count
    # Whether the driver tells if the SRAM threshold is exceeded (Hopper and later).
    sram_threshold: bool


@dataclass(frozen=True)
class RowRemap:
    """Limits of remapped rows of GPU memory."""

    uncorrectable: Count
    correctable_watch: Count


@dataclass(frozen=True)
class Gpu:
    """The GPUs of a node, all of one model."""

    model: Text
    count: Positive
    memory_mib: Positive
    parts: tuple[GpuPart, ...]
    # Null: any version, but one VBIOS for all GPUs of the node.
    driver: Optional[Text]
    vbios: Optional[Text]
    power_limit_watts: Positive
    # False: not asked for.
    persistence: bool
    # Null: not judged, where the GPU's way to its host is another one (NVLink-C2C).
    pcie_generation: Optional[Positive]
    pcie_width: Optional[Positive]
    pcie_replays: Optional[Count]
    idle_memory_mib: Count
    # Null: the GPUs work without ECC, by choice or by kind, and count no errors.
    ecc: Optional[Ecc]
    # Null: the GPU has no spare rows (before Ampere), or retires no pages (Ampere and later).
    row_remap: Optional[RowRemap]
    retired_pages: Optional[Count]
    # The library that muster health asks on an idle node; null: none.
    nvml: Optional[Text]

    def __post_init__(self) -> None:
        if len(self.parts) != self.count:
            raise ReadError("parts", f"{len(self.parts)} parts", f"{self.count}, as gpu.count says")
        _check_distinct(self.parts, ("slot", "address"), "parts")
        if (self.pcie_generation is None) != (self.pcie_width is None):
            raise ReadError("pcie_width", shown(self.pcie_width), "null where pcie_generation is, else a number")


@dataclass(frozen=True)
class Imex:
    """The service that lets a GPU's memory be used by the other hosts of its NVLink domain."""

    # How many hosts the service's domain has; null: not judged.
    nodes: Optional[Positive]
    # The least number of channels (/dev/nvidia-caps-imex-channels); users' programs need one.
    channels: Positive


@dataclass(frozen=True)
class NvLinkDomain:
    """NVSwitches outside the hosts, which connect the GPUs of the hosts of one rack."""

    # How many hosts one domain can have.
    hosts: Positive
    # Null where Slurm starts the service with each job, for its nodes alone.
    imex: Optional[Imex]


@dataclass(frozen=True)
class NvLink:
    """What connects the GPUs of a node, and of a rack."""

    links: Positive
    link_gb_per_s: Number
    # Whether GPUs register with an NVSwitch fabric, and whether this host runs the service for it.
    fabric: bool
    fabric_manager: bool
    # Null where the service writes no log of its own (LOG_USE_SYSLOG).
    fabric_manager_log: Optional[Path]
    # Whether the fabric manager starts an NVLink subnet manager (NVSwitches of NVLink 5 in the host).
    subnet_manager: bool
    # Null where the NVSwitches are the host's own.
    domain: Optional[NvLinkDomain]

    def __post_init__(self) -> None:
        if self.subnet_manager and not self.fabric_manager:
            raise ReadError("fabric_manager", "false", "true, as it starts the subnet manager")
        if self.domain and self.fabric_manager:
            raise ReadError("fabric_manager", "true", "false, as the NVSwitches of a domain are no host's own")
        if self.domain and not self.fabric:
            raise ReadError("fabric", "false", "true, as a domain is an NVSwitch fabric")


@dataclass(frozen=True)
class AffinityPart:
    """The NUMA node of one GPU, and the rail whose NIC lies beside it."""

    slot: Text
    numa_node: Count
    rail: Optional[Count]


@dataclass(frozen=True)
class Affinity:
    """Where GPUs have to lie: as many NUMA nodes as GPUs are spread over, and how near their NICs."""

    numa_nodes: Positive
    # The farthest that each GPU's NIC may be, null where NICs are not seen.
    nic_connection: Optional[Literal["PIX", "PXB", "PHB", "NODE", "SYS"]]
    # Exact places.
    parts: Optional[tuple[AffinityPart, ...]]


@dataclass(frozen=True)
class Rail:
    """One NIC of the compute fabric, by the PCI address of its function.

    What the system calls it changes with udev's rules and the cards beside it; it is read (``host/rail_names.py``).
    """

    rail: Count
    address: PciAddress

    @property
    def name(self) -> str:
        """Return what the rail is called on every host, whatever the system calls its devices: ``rail3``."""
        return rail_name(self.rail)

    def __str__(self) -> str:
        return f"rail {self.rail} ({self.address})"


def rail_name(rail: int) -> str:
    """Return the name of a rail by its number: ``rail3``."""
    return f"rail{rail}"


@dataclass(frozen=True)
class FirmwareSetting:
    """What `mstconfig query` shows of each rail's NIC; the value by number, name, or both: 2, ETH, ETH(2)."""

    # The tool takes its arguments as KEY=VALUE.
    key: Annotated[str, matching("[A-Z][A-Za-z0-9_]*", "a name such as MAX_ACC_OUT_READ")]
    wanted: Annotated[str, matching(r"[A-Za-z0-9_]+(\(\d+\))?", "such as 128, ETH or ETH(2)")]


@dataclass(frozen=True)
class NicPcie:
    """The PCIe link of each rail's NIC."""

    generation: Positive
    width: Positive


@dataclass(frozen=True)
class FrontEnd:
    """A network interface beside the rails."""

    interface: Text
    speed_gbps: Positive
    mtu_bytes: Optional[Positive]


@dataclass(frozen=True)
class NicPhysical:
    """Limits of what a port's physical layer reports, by the tool that is asked: null for the one that a host has."""

    tool: Optional[Text]
    fec_histogram: bool
    fec_watch_percent: Number
    raw_ber: Number
    raw_ber_watch: Number
    effective_ber: Number
    symbol_ber: Number
    module_celsius: Number


@dataclass(frozen=True)
class Nic:
    """The rails of the compute fabric, and front-end interfaces."""

    rails: tuple[Rail, ...]
    model: Optional[Text]
    firmware: Optional[Text]
    firmware_settings: Optional[tuple[FirmwareSetting, ...]]
    link_layer: Optional[Literal["Ethernet", "InfiniBand"]]
    speed_gbps: Positive
    lanes: Optional[Positive]
    mtu_bytes: Optional[Positive]
    pcie: NicPcie
    frontend: tuple[FrontEnd, ...]
    physical: Optional[NicPhysical]
    errors: Mapping[PortCounter, Optional[Count]]
    growth: Mapping[Literal[PortCounter, InterfaceCounter], Optional[Count]]

    def __post_init__(self) -> None:
        _check_distinct(self.rails, ("rail", "address"), "rails")
        _check_distinct(self.firmware_settings or (), ("key",), "firmware_settings")


@dataclass(frozen=True)
class Latency:
    """By where the other host is: at the same leaf switch, in the same pod, beyond it."""

    leaf: AboveZero
    pod: AboveZero
    across: AboveZero


@dataclass(frozen=True)
class RailCohort:
    """How far from the median of its cohort a rail may lie.

    So many median absolute deviations, and never less than so many percent.
    """

    deviations: AboveZero
    percent: AboveZero


@dataclass(frozen=True)
class Rdma:
    """What a rail must reach between two hosts, and looped back; null: the class has no RDMA rails.

    Bandwidths are parts of nic.speed_gbps.
    """

    bandwidth_percent: AboveZero
    loopback_percent: AboveZero
    latency_us: Latency
    bandwidth_bytes: Positive
    latency_bytes: Positive
    queue_pairs: Positive
    seconds: Positive
    # Whether the memory of GPUs is used instead of the host's.
    gpu_direct: bool
    cohort: RailCohort
    # Traffic of another priority that counts as no mark of RDMA, in percent of the test's.
    stray_percent: Number
    counters: Mapping[RdmaCounter, Optional[Count]]


@dataclass(frozen=True)
class Cpu:
    """The CPUs of a node; cores are those of all sockets."""

    # As the kernel calls it (uname -m). aarch64 is arm64, whose CPUs are given no microcode by the system.
    architecture: Literal["x86_64", "aarch64"]
    sockets: Positive
    cores: Optional[Positive]
    threads_per_core: Optional[Positive]
    model: Optional[Text]
    governor: Optional[Text]
    microcode: Optional[Text]

    def __post_init__(self) -> None:
        if self.microcode and not self.has_microcode:
            raise ReadError("microcode", shown(self.microcode), f"null, as {self.architecture} has none")

    @property
    def has_microcode(self) -> bool:
        """Return whether the system tells a version of microcode for each CPU."""
        return self.architecture == "x86_64"


@dataclass(frozen=True)
class Dimms:
    """The memory modules of a node; null: any."""

    count: Optional[Positive]
    size_mib: Optional[Positive]
    speed_mts: Optional[Positive]
    slots: Optional[tuple[Text, ...]]


@dataclass(frozen=True)
class MemoryErrors:
    """Limits of what the memory controllers have counted since boot."""

    correctable_per_dimm: Count
    uncorrectable: Count


@dataclass(frozen=True)
class ReservedPages:
    """So many huge pages of one size."""

    size_kib: Positive
    count: Count


@dataclass(frozen=True)
class HugePages:
    """Huge pages that are reserved, and the mode of transparent ones; null: any."""

    transparent: Optional[Text]
    reserved: tuple[ReservedPages, ...]


@dataclass(frozen=True)
class Memory:
    """The memory of a node."""

    mib: Positive
    tolerance_percent: Number
    dimms: Optional[Dimms]
    errors: Optional[MemoryErrors]
    swap_mib: Optional[Count]
    hugepages: Optional[HugePages]


@dataclass(frozen=True)
class Numa:
    """NUMA nodes that have CPUs, and how far the memory of one may lie from an equal share."""

    nodes: Positive
    # NUMA nodes that hold a GPU's memory and have no CPUs, on a host that reaches it coherently (Grace): it is part of
    # the system's memory. Null: every NUMA node has CPUs.
    gpu_memory_nodes: Optional[Count]
    memory_tolerance_percent: Number


@dataclass(frozen=True)
class CommandLine:
    """Parameters that the kernel has to be booted with, and those that it must not have."""

    required: tuple[Text, ...]
    forbidden: tuple[Text, ...]


@dataclass(frozen=True)
class Kernel:
    """What is asked of the kernel."""

    command_line: CommandLine


@dataclass(frozen=True)
class PcieDevice:
    """A device whose link is judged besides those of GPUs, rails and drives."""

    name: Text
    address: PciAddress
    speed_gts: Number
    width: Positive


@dataclass(frozen=True)
class PcieErrors:
    """Limits of errors that the kernel has counted per device."""

    correctable: Count
    nonfatal: Count
    fatal: Count


@dataclass(frozen=True)
class Pcie:
    """What PCIe has to be set to, and its links."""

    acs_enabled: Optional[bool]
    # Of the rails' NICs: largest read they ask for, and whether their writes may pass each other.
    max_read_request_bytes: Optional[ReadRequestBytes]
    relaxed_ordering: Optional[bool]
    devices: tuple[PcieDevice, ...]
    # Limits of what the kernel counts on GPUs, rails and drives; null where it cannot (a guest of a cloud).
    errors: Optional[PcieErrors]


@dataclass(frozen=True)
class Clock:
    """How far the clock may be off, and by what the kernel tells the time."""

    offset_ms: Number
    clocksource: Optional[Text]


@dataclass(frozen=True)
class DiskPath:
    """A directory, and the space that has to be free there."""

    path: Path
    free_gib: Number


@dataclass(frozen=True)
class Disk:
    """Local file systems."""

    paths: tuple[DiskPath, ...]


@dataclass(frozen=True)
class Nvme:
    """Without addresses the drives of the model count, without a model all of them."""

    count: Positive
    addresses: Optional[tuple[PciAddress, ...]]
    model: Optional[Text]
    firmware: Optional[Text]
    link_gt_per_second: Optional[Number]
    link_width: Optional[Positive]
    # Limits of the drives' own health reports.
    media_errors: Count
    percentage_used: Number
    temperature_celsius: Number

    def __post_init__(self) -> None:
        if self.addresses is None:
            return
        if len(self.addresses) != self.count:
            raise ReadError("addresses", f"{len(self.addresses)} addresses", f"{self.count}, as nvme.count says")
        for index, address in enumerate(self.addresses):
            if address in self.addresses[:index]:
                raise ReadError(f"addresses[{index}]", f"{shown(address)} again", "each one once")


@dataclass(frozen=True)
class Storage:
    """What a node must reach in a checkpoint on shared storage, all nodes at the same time; null: no floors."""

    write_gb_per_s: Number
    read_gb_per_s: Number
    metadata_p99_ms: AboveZero
    # How many times as long as the median of its cohort it may take.
    slowest_over_median: AboveZero


@dataclass(frozen=True)
class KernelLog:
    """How many lines of one kind a boot's log may hold: corrected errors of one PCIe device, of one DIMM or CPU."""

    pcie_corrected_errors: Number
    memory_corrected_errors: Number
    # How often a link may go down within 24 hours before it counts as flapping.
    link_flaps_per_day: Positive


@dataclass(frozen=True)
class PyTorch:
    """The Python of whatever needs PyTorch on a host: loads of GPUs, collectives, checkpoints; version null: any."""

    python: Path
    version: Optional[Text]


@dataclass(frozen=True)
class GpuStress:
    """Null: this class' GPUs are not loaded by the stress of this name, so nothing is owed by them."""

    device: Literal["cpu", "cuda"]
    # Whether the device multiplies fp8: what it does not is not asked for.
    fp8: bool
    # A floor that is null is not known: the GPUs of a node are then compared with each other alone.
    bf16_floor_tflops: Optional[Number]
    fp8_floor_tflops: Optional[Number]
    spread_percent: Optional[Number]
    memory_percent: Number
    memory_copy_floor_gb_per_s: Optional[Number]

    def __post_init__(self) -> None:
        floors = [self.bf16_floor_tflops, self.memory_copy_floor_gb_per_s, *([self.fp8_floor_tflops] * self.fp8)]
        if self.spread_percent is None and None in floors:
            raise ReadError("spread_percent", "nothing", "a number where a floor is null, as nothing would be judged")


@dataclass(frozen=True)
class Telemetry:
    """Null: nothing is owed by the GPUs' telemetry under load."""

    directory: Path
    files: Positive
    gap_seconds: Number
    throttle_seconds: Number
    # A floor or limit that is null is not known: the GPUs of a node are then compared with each other alone.
    power_percent: Optional[Number]
    power_spread_percent: Optional[Number]
    clock_spread_percent: Optional[Number]
    temperature_celsius: Optional[Number]
    # Null where the driver tells no memory temperature, too.
    memory_temperature_celsius: Optional[Number]
    temperature_spread_celsius: Optional[Number]
    # How far a GPU may lie above the median of the same slot of the other nodes, at equal power; null: not compared.
    slot_spread_celsius: Optional[Number]
    ecc_corrected: Count
    ecc_uncorrected: Count
    pcie_replays_per_minute: Number

    def __post_init__(self) -> None:
        spreads = (
            ("power_percent", "power_spread_percent"),
            ("temperature_celsius", "temperature_spread_celsius"),
        )
        for limit, spread in spreads:
            if getattr(self, limit) is None and getattr(self, spread) is None:
                raise ReadError(spread, "nothing", f"a number where {limit} is null, as nothing would be judged")


DiagLevel = Annotated[int, Rule("a level of dcgmi diag, 1 to 4", lambda level: 1 <= level <= 4)]


@dataclass(frozen=True)
class RequiredTests:
    """Tests of one level of `dcgmi diag`."""

    level: DiagLevel
    tests: tuple[Text, ...]


@dataclass(frozen=True)
class Dcgm:
    """Which tests each level of `dcgmi diag` must have passed, all lower levels' too."""

    required: tuple[RequiredTests, ...]
    # Whether the extended utility diagnostic must be among those of level 4.
    eud_required: bool
    # What all links of a GPU may have counted; null: unread.
    nvlink_errors: Optional[Count]


@dataclass(frozen=True)
class BandwidthFloor:
    """What each GPU must reach in one test of nvbandwidth; null: no floor is known, its neighbours tell."""

    testcase: Text
    gb_per_s: Optional[Number]


@dataclass(frozen=True)
class Nvbandwidth:
    """Which tests of nvbandwidth run, what each GPU must reach in them, how far below the node's median it may lie."""

    floors: tuple[BandwidthFloor, ...]
    spread_percent: Number


@dataclass(frozen=True)
class TestFile:
    """A file to be read, of this size."""

    directory: Path
    size_mib: Positive


@dataclass(frozen=True)
class NvmeRead:
    """Raw drives are only read."""

    block_bytes: Positive
    jobs: Positive
    queue_depth: Positive
    kiops: Optional[Number]
    margin_percent: Number
    # Allows a file to be written: in its directory one is laid out, read, removed.
    file: Optional[TestFile]


@dataclass(frozen=True)
class NicLoad:
    """Traffic of every rail that turns round inside its NIC; null: the rails are not loaded.

    Floors are parts of nic.speed_gbps, for the memory of the rail's own NUMA node, of another one, and of a GPU. One
    that is null is not known: the rails of a node are then compared with each other alone.
    """

    message_bytes: Positive
    # How long one memory is used before the next one.
    round_seconds: Positive
    near_floor_percent: Optional[Number]
    far_floor_percent: Optional[Number]
    gpu_floor_percent: Optional[Number]
    # Below the median of the node's rails with memory as far, and of the same rail and memory of other nodes.
    spread_percent: Number
    rail_spread_percent: Number


@dataclass(frozen=True)
class CpuStress:
    """How much of the memory that is available at its begin the stress may take."""

    memory_percent: Number


@dataclass(frozen=True)
class MemoryBandwidth:
    """What each NUMA node must read from its own memory; null: not judged."""

    nodes: Positive
    read_gb_per_s: Optional[Number]
    margin_percent: Number


@dataclass(frozen=True)
class MemoryLatency:
    """What reading from memory may take on each NUMA node; null: not judged."""

    nodes: Positive
    # Of the list that is followed, 88 bytes each; together they have to be more than the last cache holds.
    items: Positive
    ns_per_item: Optional[Number]
    margin_percent: Number


@dataclass(frozen=True)
class Firmware:
    """Versions by the firmware's own tables (DMI) and the BMC; null: any."""

    system_product: Optional[Text]
    bios_vendor: Optional[Text]
    bios_version: Optional[Text]
    bmc_version: Optional[Text]


@dataclass(frozen=True)
class Redfish:
    """How the BMC is asked over Redfish."""

    address: Text
    netrc: Path
    certificate: Optional[Path]
    documents: tuple[Path, ...]


@dataclass(frozen=True)
class BmcLog:
    """What the BMC's log may hold."""

    # Leaves older entries out.
    since: Optional[Date]
    correctable_ecc_events: Count


@dataclass(frozen=True)
class BmcSensors:
    """How many sensors there are at least, and which have to be among them."""

    count: Positive
    required: tuple[Text, ...]


@dataclass(frozen=True)
class PowerSupplies:
    """How many power supplies have to be present and well."""

    count: Positive


@dataclass(frozen=True)
class Inlet:
    """The sensor of the air that comes in, and what it may read."""

    sensor: Text
    limit_celsius: Number


@dataclass(frozen=True)
class Airflow:
    """The sensor of the air that leaves, how much warmer than at the inlet it may be, how many fans turn at least."""

    outlet: Optional[Text]
    rise_celsius: Optional[Number]
    fans: Optional[Positive]

    def __post_init__(self) -> None:
        if self.outlet is None and self.fans is None:
            raise ReadError("fans", "nothing", "a sensor of the outlet or a number of fans, as nothing would be judged")
        if self.outlet is None and self.rise_celsius is not None:
            raise ReadError("outlet", "nothing", "a sensor, as rise_celsius is declared")


@dataclass(frozen=True)
class Bmc:
    """What a section states as null is not asked of the BMC."""

    interface: Literal["ipmitool", "redfish"]
    redfish: Optional[Redfish]
    log: Optional[BmcLog]
    sensors: Optional[BmcSensors]
    power_supplies: Optional[PowerSupplies]
    inlet: Optional[Inlet]
    airflow: Optional[Airflow]

    def __post_init__(self) -> None:
        if self.interface == "redfish" and self.redfish is None:
            raise ReadError("redfish", "nothing", "address, netrc, certificate and documents")
        if self.airflow and self.airflow.outlet and self.inlet is None:
            raise ReadError("inlet", "nothing", "a sensor and its limit, as airflow.outlet is held against it")


@dataclass(frozen=True)
class Package:
    """One package in exactly this version."""

    name: Text
    version: Text


@dataclass(frozen=True)
class Power:
    """The most that a node draws under load; the ramp of burn-in counts it, and no node is judged by it."""

    kilowatts: AboveZero


@dataclass(frozen=True)
class GpuStack:
    """What role gpu_stack installs with the driver gpu.driver; null where a site installs it by other means."""

    packages: tuple[Package, ...]
    services: tuple[Text, ...]


@dataclass(frozen=True)
class Tools:
    """PATH in which probes look for tools, and what stands before every path they read."""

    path: Text
    root: Path


@dataclass(frozen=True)
class Transport:
    """What NCCL's log must show on an RDMA fabric, beside the rails; null: no more than those."""

    gpu_direct: bool
    # Null: either.
    nvls: Optional[bool]


Sizes = Annotated[
    tuple[Positive, ...],
    Rule(
        "multiples of 4 bytes, each one once",
        lambda sizes: bool(sizes) and len(set(sizes)) == len(sizes) and not any(size % 4 for size in sizes),
    ),
]


Share = Annotated[float, Rule("a number above 0 and below 1", lambda value: bool(0 < value < 1))]


@dataclass(frozen=True)
class Pairs:
    """``seconds`` is what planning counts for one permutation."""

    sizes_bytes: Sizes
    iterations: Positive
    warmup: Count
    seconds: AboveZero


@dataclass(frozen=True)
class Groups:
    """What is measured among all nodes of a group."""

    collectives: Annotated[tuple[Collective, ...], Rule("one at least", bool)]
    sizes_bytes: Sizes
    iterations: Positive
    warmup: Count


@dataclass(frozen=True)
class Train:
    """A small sharded transformer, whose gradients travel while it computes; null: none."""

    hidden: Positive
    layers: Positive
    steps: Positive


@dataclass(frozen=True)
class BusBandwidthFloor:
    """Holds from ``nodes_min`` nodes on, with 1 inside a node."""

    collective: Movement
    nodes_min: Positive
    size_bytes: Positive
    busbw_gb_per_s: AboveZero


@dataclass(frozen=True)
class LatencyCeiling:
    """Of the worst of fewer than 100 iterations, of their 99th percentile otherwise; nodes as with floors."""

    collective: Movement
    nodes_min: Positive
    size_bytes: Positive
    microseconds: AboveZero


@dataclass(frozen=True)
class NodeCohort:
    """Judging nodes against each other; ``margin`` and ``smallest`` are shares of 1.

    From how many peers on, how far one may lie below them, and the smallest slowdown that must be found.
    """

    peers: Annotated[int, at_least(2)]
    margin: AboveZero
    smallest: AboveZero

    def __post_init__(self) -> None:
        if not self.margin <= self.smallest < 1:
            expected = f"at least the margin {self.margin}, and less than 1"
            raise ReadError("smallest", shown(self.smallest), expected)


@dataclass(frozen=True)
class Hold:
    """So many nodes, and more than this share of a round, that are slow at once are held: suspect the fabric."""

    nodes: Positive
    share: Share


@dataclass(frozen=True)
class Straggler:
    """From where on a node counts as a straggler: its slow iterations, and how often it was last."""

    p99_over_p50: AboveZero
    last_share: Share


@dataclass(frozen=True)
class Collectives:
    """What acceptance measures between nodes, and what they must reach; sendrecv is between the same rails of two."""

    driver: Literal["torch", "nccl_tests"]
    backend: Literal["gloo", "nccl"]
    ranks_per_node: Positive
    # Image in which the ranks inside a node run once; null: none. It brings a Python with PyTorch of its own.
    container: Optional[Text]
    container_python: Path
    transport: Optional[Transport]
    # What planning counts for starting a step.
    step_seconds: AboveZero
    pairs: Pairs
    groups: Groups
    train: Optional[Train]
    floors: tuple[BusBandwidthFloor, ...]
    latency: tuple[LatencyCeiling, ...]
    cohort: NodeCohort
    hold: Hold
    straggler: Optional[Straggler]
    # In how many minutes a campaign must end, whatever coverage that allows; null: as long as it takes.
    budget_minutes: Optional[AboveZero]

    def __post_init__(self) -> None:
        """Raise ReadError unless all that is limited is measured."""
        for kind, limits in (("floors", self.floors), ("latency", self.latency)):
            for index, limit in enumerate(limits):
                self._check_limit(limit, f"{kind}[{index}]")
        for index, ceiling in enumerate(self.latency):
            if self.driver == "nccl_tests" and ceiling.collective != "sendrecv":
                # It tells the mean of the iterations, which is no limit of the worst of them.
                raise ReadError(f"latency[{index}]", shown(ceiling.collective), "sendrecv with nccl_tests")

    def _check_limit(self, limit: Any, key: str) -> None:
        name = "pairs" if limit.collective == "sendrecv" else "groups"
        sizes = self.pairs.sizes_bytes if name == "pairs" else self.groups.sizes_bytes
        # What is inside a node has sizes of its own: those that are limited.
        inside = limit.nodes_min == 1 and name == "groups"
        if limit.size_bytes not in sizes and not inside:
            raise ReadError(f"{key}.size_bytes", shown(limit.size_bytes), f"one of collective.{name}.sizes_bytes")
        if name == "groups" and limit.collective not in self.groups.collectives:
            raise ReadError(f"{key}.collective", shown(limit.collective), "one of collective.groups.collectives")


@dataclass(frozen=True)
class Expectations:
    """All that a class says; checks read what they need by these names. What each section is, its own type tells."""

    class_: Text
    fabric: Optional[Fabric]
    # Null where the fleet declares no tier of storage.
    mounts: Optional[tuple[Mount, ...]]
    checkpoint: Optional[Checkpoint]
    mini_clusters: Optional[MiniClusters]
    gpu: Optional[Gpu]
    nvlink: Optional[NvLink]
    affinity: Optional[Affinity]
    nic: Optional[Nic]
    rdma: Optional[Rdma]
    cpu: Cpu
    memory: Memory
    numa: Optional[Numa]
    kernel: Optional[Kernel]
    pcie: Optional[Pcie]
    clock: Clock
    disk: Disk
    nvme: Optional[Nvme]
    storage: Optional[Storage]
    kernel_log: KernelLog
    pytorch: PyTorch
    gpu_stress: Optional[GpuStress]
    telemetry: Optional[Telemetry]
    dcgm: Optional[Dcgm]
    nvbandwidth: Optional[Nvbandwidth]
    nvme_read: Optional[NvmeRead]
    nic_load: Optional[NicLoad]
    cpu_stress: Optional[CpuStress]
    memory_bandwidth: Optional[MemoryBandwidth]
    memory_latency: Optional[MemoryLatency]
    firmware: Optional[Firmware]
    bmc: Optional[Bmc]
    # Null where nobody says what a node draws.
    power: Optional[Power]
    gpu_stack: Optional[GpuStack]
    tools: Tools
    collective: Collectives

    def __post_init__(self) -> None:
        if self.gpu_stack and not (self.gpu and self.gpu.driver):
            raise ReadError("gpu.driver", "nothing", "a version, as gpu_stack is declared")
        domain = self.nvlink.domain if self.nvlink else None
        if self.gpu_stack and domain and domain.imex and IMEX_SERVICE not in self.gpu_stack.services:
            found = ", ".join(self.gpu_stack.services) or "none"
            raise ReadError(
                "gpu_stack.services", found, f"{IMEX_SERVICE} among them, as nvlink.domain.imex is declared"
            )
        rails = [rail.rail for rail in self.nic.rails] if self.nic else []
        slots = [part.slot for part in self.gpu.parts] if self.gpu else []
        for index, part in enumerate((self.affinity.parts if self.affinity else None) or ()):
            # Whoever declares other slots would lose the exact places of an inherited class unseen.
            if slots and part.slot not in slots:
                raise ReadError(f"affinity.parts[{index}].slot", shown(part.slot), "a slot of gpu.parts")
            if part.rail is not None and part.rail not in rails:
                raise ReadError(f"affinity.parts[{index}].rail", str(part.rail), "a rail of nic.rails")


@dataclass(frozen=True)
class NoSettings:
    """What a step of a burn-in profile sets for a stress that has no settings."""


def read_expectations(data: Any, key: str = "") -> Expectations:
    """Return the expectations in plain data; raises ReadError naming the key below ``key``, where they stand."""
    return read(Expectations, data, key)


def stated(value: Optional[T]) -> T:
    """Return a value that the class has; raises ReadError where it is null, so that nobody passes for it."""
    if value is None:
        raise ReadError("", "nothing", "a class that declares what is to be judged")
    return value


def gpu_subjects(expect: Expectations) -> dict[str, str]:
    """Return the name of each GPU part by PCI address: ``{"0000:1b:00.0": "gpu SXM1 0000:1b:00.0"}``."""
    return {part.address: f"gpu {part.slot} {part.address}" for part in expect.gpu.parts} if expect.gpu else {}


def _check_distinct(items: Sequence[Any], names: Sequence[str], key: str) -> None:
    """Raise ReadError if two items have the same value, other than None, in one of the fields."""
    for name in names:
        values = [getattr(item, name) for item in items]
        for index, value in enumerate(values):
            if value is not None and value in values[:index]:
                raise ReadError(f"{key}[{index}].{name}", f"{shown(value)} again", "each one once")
