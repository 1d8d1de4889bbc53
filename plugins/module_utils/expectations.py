"""What a hardware class expects of a host: every key there is, and the kind of value that stands there."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

TEXT = "text"
PATH = "an absolute path"
PCI_ADDRESS = "a PCI address such as 0000:1b:00.0"
COUNT = "a whole number of at least 0"
WHOLE = "a whole number"
POSITIVE = "a whole number of at least 1"
NUMBER = "a number of at least 0"
ABOVE_ZERO = "a number above 0"
FLAG = "true or false"
DIAG_LEVEL = "a level of dcgmi diag, 1 to 4"
BACKEND = "one of gloo, nccl"
DRIVER = "one of torch, nccl_tests"
COLLECTIVE = "one of all_reduce, all_gather, reduce_scatter, all_to_all"
MOVED = "one of sendrecv, all_reduce, all_gather, reduce_scatter, all_to_all"
TORCH_DEVICE = "one of cpu, cuda"
LINK_LAYER = "one of Ethernet, InfiniBand"
CONNECTION = "one of PIX, PXB, PHB, NODE, SYS"
BMC = "one of ipmitool, redfish"
ROCE_BACKEND = "one of doca, inbox"
FABRIC = "one of roce, infiniband"
TIER = "one of local, nfs, lustre, existing"
DATE = "a date such as 2026-01-31"


# Device Control register of PCI Express (base specification 7.5.3.4): 128 bytes doubled by each step of three bits.
READ_REQUEST_BYTES = tuple(128 << code for code in range(6))


class Nullable:
    """A value or section that a class may state as null: it has no such part, or declares no such value.

    A missing key is an error in any case, so that nothing goes unexpected by an oversight.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind


# Error counters of an RDMA port that a class may limit; null: not judged.
_PORT_COUNTERS = (
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
)

# Counters of an RDMA port whose growth during fabric rounds a class may limit; null: not judged.
RDMA_COUNTERS = (
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
)

# What every RoCE port of a host is set to; lists of eight are by buffer or priority. No DSCPs: best effort.
ROCE_PORT: dict[str, Any] = {
    "backend": ROCE_BACKEND,
    "mtu_bytes": POSITIVE,
    "dscp_priority": [{"dscp": COUNT, "priority": COUNT}],
    "lossless_priorities": [COUNT],
    # null: left as the NIC's firmware has it.
    "dcqcn": Nullable(FLAG),
    "cnp_dscp": Nullable(COUNT),
    "cnp_priority": Nullable(COUNT),
    "cm_tos": COUNT,
    "traffic_class": Nullable(COUNT),
    "rings": Nullable({"rx": POSITIVE, "tx": POSITIVE}),
    "buffers": Nullable({"sizes_bytes": [COUNT], "of_priority": [COUNT]}),
}

# Every class has all of these; a list holds values of the one kind in it. Checks read what they need by these names.
SCHEMA: dict[str, Any] = {
    "class": TEXT,
    # Follows from the fleet's fabric, no class states it: null where collectives use no RDMA rails. nccl_least: the
    # oldest NCCL that knows all variables which the fabric needs; null: any does. verify_cabling: whether every rail's
    # cable is held against the fleet's plan.
    "fabric": Nullable(
        {
            "kind": FABRIC,
            "routing": TEXT,
            "port": Nullable(ROCE_PORT),
            "nccl_least": Nullable(TEXT),
            "verify_cabling": FLAG,
        }
    ),
    # Follow from the fleet's storage, no class states them: null where it declares no tier. source: what is mounted,
    # null where only the host knows (a file system by its UUID) or nobody says; numa_node: of a node's own drives.
    "mounts": Nullable(
        [
            {
                "tier": TEXT,
                "kind": TIER,
                "path": PATH,
                "filesystem": TEXT,
                "source": Nullable(TEXT),
                "options": [TEXT],
                "numa_node": Nullable(COUNT),
                "stripe_count": Nullable(WHOLE),
                "write_ms": ABOVE_ZERO,
                "free_percent": NUMBER,
            }
        ]
    ),
    # Follows from the fleet's storage, too: what each rank of a checkpoint writes to which mount, and in what time all
    # of them have to; null where no checkpoint is declared.
    "checkpoint": Nullable(
        {"tier": TEXT, "path": PATH, "shard_bytes": POSITIVE, "ranks": POSITIVE, "target_seconds": ABOVE_ZERO}
    ),
    # Follows from the latency profile that the fleet's policy asks for: the longest p99 of groups of so many GPUs; null
    # where it asks for none.
    "mini_clusters": Nullable(
        {
            "profile": TEXT,
            "collective": COLLECTIVE,
            "sizes_bytes": [POSITIVE],
            "limits": [{"gpus": POSITIVE, "microseconds": ABOVE_ZERO}],
        }
    ),
    "gpu": Nullable(
        {
            "model": TEXT,
            "count": POSITIVE,
            "memory_mib": POSITIVE,
            "parts": [{"slot": TEXT, "address": PCI_ADDRESS}],
            # null: any version, but one VBIOS for all GPUs of the node.
            "driver": Nullable(TEXT),
            "vbios": Nullable(TEXT),
            "power_limit_watts": POSITIVE,
            # false: not asked for.
            "persistence": FLAG,
            "pcie_generation": POSITIVE,
            "pcie_width": POSITIVE,
            "pcie_replays": Nullable(COUNT),
            "idle_memory_mib": COUNT,
            # sram_threshold: whether the driver tells if the SRAM threshold is exceeded (Hopper and later).
            "ecc": {
                "sram_uncorrectable_aggregate": COUNT,
                "sram_correctable": COUNT,
                "dram_correctable": COUNT,
                "sram_threshold": FLAG,
            },
            # null: the GPU has no spare rows (before Ampere), or retires no pages (Ampere and later).
            "row_remap": Nullable({"uncorrectable": COUNT, "correctable_watch": COUNT}),
            "retired_pages": Nullable(COUNT),
            # The library that muster health asks on an idle node; null: none.
            "nvml": Nullable(TEXT),
        }
    ),
    # fabric: whether GPUs register with an NVSwitch fabric; fabric_manager: whether this host runs the service for it;
    # fabric_manager_log: null where it writes none of its own (LOG_USE_SYSLOG).
    "nvlink": Nullable(
        {
            "links": POSITIVE,
            "link_gb_per_s": NUMBER,
            "fabric": FLAG,
            "fabric_manager": FLAG,
            "fabric_manager_log": Nullable(PATH),
        }
    ),
    # nic_connection: the farthest that each GPU's NIC may be, null where NICs are not seen; parts: exact places.
    "affinity": Nullable(
        {
            "numa_nodes": POSITIVE,
            "nic_connection": Nullable(CONNECTION),
            "parts": Nullable([{"slot": TEXT, "numa_node": COUNT, "nic": Nullable(TEXT)}]),
        }
    ),
    "nic": Nullable(
        {
            "rails": [
                {"rail": COUNT, "device": TEXT, "address": Nullable(PCI_ADDRESS), "interface": Nullable(TEXT)},
            ],
            "model": Nullable(TEXT),
            "firmware": Nullable(TEXT),
            # What `mstconfig query` shows of each rail's NIC; the value by number, name, or both: 2, ETH, ETH(2).
            "firmware_settings": Nullable([{"key": TEXT, "wanted": TEXT}]),
            "link_layer": Nullable(LINK_LAYER),
            "speed_gbps": POSITIVE,
            "lanes": Nullable(POSITIVE),
            "mtu_bytes": Nullable(POSITIVE),
            "pcie": {"generation": POSITIVE, "width": POSITIVE},
            "frontend": [{"interface": TEXT, "speed_gbps": POSITIVE, "mtu_bytes": Nullable(POSITIVE)}],
            "physical": Nullable(
                {
                    "tool": TEXT,
                    "fec_histogram": FLAG,
                    "fec_watch_percent": NUMBER,
                    "raw_ber": NUMBER,
                    "raw_ber_watch": NUMBER,
                    "effective_ber": NUMBER,
                    "symbol_ber": NUMBER,
                    "module_celsius": NUMBER,
                }
            ),
            "errors": {name: Nullable(COUNT) for name in _PORT_COUNTERS},
            "growth": {name: Nullable(COUNT) for name in (*_PORT_COUNTERS, "carrier_changes", "rx_crc_errors")},
        }
    ),
    # What a rail must reach between two hosts, and looped back; null: the class has no RDMA rails. Bandwidths are parts
    # of nic.speed_gbps, latencies by where the other host is: at the same leaf switch, in the same pod, beyond it.
    "rdma": Nullable(
        {
            "bandwidth_percent": ABOVE_ZERO,
            "loopback_percent": ABOVE_ZERO,
            "latency_us": {"leaf": ABOVE_ZERO, "pod": ABOVE_ZERO, "across": ABOVE_ZERO},
            "bandwidth_bytes": POSITIVE,
            "latency_bytes": POSITIVE,
            "queue_pairs": POSITIVE,
            "seconds": POSITIVE,
            # Whether the memory of GPUs is used instead of the host's.
            "gpu_direct": FLAG,
            # How far from the median of its cohort a rail may lie: so many median absolute deviations, and never less
            # than so many percent.
            "cohort": {"deviations": ABOVE_ZERO, "percent": ABOVE_ZERO},
            # Traffic of another priority that counts as no mark of RDMA, in percent of the test's.
            "stray_percent": NUMBER,
            "counters": {name: Nullable(COUNT) for name in RDMA_COUNTERS},
        }
    ),
    "cpu": {
        "sockets": POSITIVE,
        "cores": POSITIVE,
        "threads_per_core": Nullable(POSITIVE),
        "model": Nullable(TEXT),
        "governor": Nullable(TEXT),
        "microcode": Nullable(TEXT),
    },
    "memory": {
        "mib": POSITIVE,
        "tolerance_percent": NUMBER,
        "dimms": Nullable(
            {
                "count": Nullable(POSITIVE),
                "size_mib": Nullable(POSITIVE),
                "speed_mts": Nullable(POSITIVE),
                "slots": Nullable([TEXT]),
            }
        ),
        "errors": Nullable({"correctable_per_dimm": COUNT, "uncorrectable": COUNT}),
        "swap_mib": Nullable(COUNT),
        "hugepages": Nullable(
            {"transparent": Nullable(TEXT), "reserved": [{"size_kib": POSITIVE, "count": COUNT}]},
        ),
    },
    "numa": Nullable({"nodes": POSITIVE, "memory_tolerance_percent": NUMBER}),
    "kernel": Nullable({"command_line": {"required": [TEXT], "forbidden": [TEXT]}}),
    "pcie": Nullable(
        {
            "acs_enabled": Nullable(FLAG),
            # Of the rails' NICs: largest read they ask for, and whether their writes may pass each other.
            "max_read_request_bytes": Nullable(POSITIVE),
            "relaxed_ordering": Nullable(FLAG),
            "devices": [{"name": TEXT, "address": PCI_ADDRESS, "speed_gts": NUMBER, "width": POSITIVE}],
            # Limits of what the kernel counts on GPUs, rails and drives; null where it cannot (a guest of a cloud).
            "errors": Nullable({"correctable": COUNT, "nonfatal": COUNT, "fatal": COUNT}),
        }
    ),
    "clock": {"offset_ms": NUMBER, "clocksource": Nullable(TEXT)},
    "disk": {"paths": [{"path": PATH, "free_gib": NUMBER}]},
    # Without addresses the drives of the model count, without a model all of them. media_errors, percentage_used and
    # temperature_celsius are limits of the drives' own health reports.
    "nvme": Nullable(
        {
            "count": POSITIVE,
            "addresses": Nullable([PCI_ADDRESS]),
            "model": Nullable(TEXT),
            "firmware": Nullable(TEXT),
            "link_gt_per_second": Nullable(NUMBER),
            "link_width": Nullable(POSITIVE),
            "media_errors": COUNT,
            "percentage_used": NUMBER,
            "temperature_celsius": NUMBER,
        }
    ),
    # What a node must reach in a checkpoint on shared storage, all nodes at the same time; null: the class has no
    # floors. slowest_over_median: how many times as long as the median of its cohort it may take.
    "storage": Nullable(
        {
            "write_gb_per_s": NUMBER,
            "read_gb_per_s": NUMBER,
            "metadata_p99_ms": ABOVE_ZERO,
            "slowest_over_median": ABOVE_ZERO,
        }
    ),
    # How many lines of one kind a boot's log may hold: corrected errors of one PCIe device, of one DIMM or CPU, and how
    # often a link may go down within 24 hours before it counts as flapping.
    "kernel_log": {"pcie_corrected_errors": NUMBER, "memory_corrected_errors": NUMBER, "link_flaps_per_day": POSITIVE},
    # Null: this class' GPUs are not loaded by the stress of these names, so nothing is owed by them.
    "gpu_stress": Nullable(
        {
            "device": TORCH_DEVICE,
            "python": PATH,
            # Where that Python finds torch, if not among its own packages.
            "python_path": Nullable(PATH),
            "bf16_floor_tflops": NUMBER,
            # Null: the device multiplies no fp8.
            "fp8_floor_tflops": Nullable(NUMBER),
            "spread_percent": Nullable(NUMBER),
            "memory_percent": NUMBER,
            "memory_copy_floor_gb_per_s": NUMBER,
        }
    ),
    "telemetry": Nullable(
        {
            "directory": PATH,
            "files": POSITIVE,
            "gap_seconds": NUMBER,
            "throttle_seconds": NUMBER,
            "power_percent": NUMBER,
            "power_spread_percent": Nullable(NUMBER),
            "clock_spread_percent": Nullable(NUMBER),
            "temperature_celsius": NUMBER,
            # Null: the driver tells no memory temperature.
            "memory_temperature_celsius": Nullable(NUMBER),
            "temperature_spread_celsius": Nullable(NUMBER),
            "ecc_corrected": COUNT,
            "ecc_uncorrected": COUNT,
            "pcie_replays_per_minute": NUMBER,
        }
    ),
    # Which tests each level of `dcgmi diag` must have passed (all lower levels' too), and whether the extended utility
    # diagnostic must be among those of level 4. nvlink_errors: what all links of a GPU may have counted; null: unread.
    "dcgm": Nullable(
        {
            "required": [{"level": DIAG_LEVEL, "tests": [TEXT]}],
            "eud_required": FLAG,
            "nvlink_errors": Nullable(COUNT),
        }
    ),
    # Which tests of nvbandwidth run, what each GPU must reach in them, and how far below the node's median it may lie.
    "nvbandwidth": Nullable({"floors": [{"testcase": TEXT, "gb_per_s": NUMBER}], "spread_percent": NUMBER}),
    # Raw drives are only read. ``file`` allows a file to be written: in its directory one is laid out, read, removed.
    "nvme_read": Nullable(
        {
            "block_bytes": POSITIVE,
            "jobs": POSITIVE,
            "queue_depth": POSITIVE,
            "kiops": Nullable(NUMBER),
            "margin_percent": NUMBER,
            "file": Nullable({"directory": PATH, "size_mib": POSITIVE}),
        }
    ),
    # How much of the memory that is available at its begin the stress may take.
    "cpu_stress": Nullable({"memory_percent": NUMBER}),
    "memory_bandwidth": Nullable({"nodes": POSITIVE, "read_gb_per_s": Nullable(NUMBER), "margin_percent": NUMBER}),
    # items: of the list that is followed, 88 bytes each; together they have to be more than the last cache holds.
    "memory_latency": Nullable(
        {"nodes": POSITIVE, "items": POSITIVE, "ns_per_item": Nullable(NUMBER), "margin_percent": NUMBER}
    ),
    "firmware": Nullable(
        {
            "system_product": Nullable(TEXT),
            "bios_vendor": Nullable(TEXT),
            "bios_version": Nullable(TEXT),
            "bmc_version": Nullable(TEXT),
        }
    ),
    # What a section states as null is not asked of the BMC. ``since`` leaves older log entries out.
    "bmc": Nullable(
        {
            "interface": BMC,
            "redfish": Nullable({"address": TEXT, "netrc": PATH, "certificate": Nullable(PATH), "documents": [PATH]}),
            "log": Nullable({"since": Nullable(DATE), "correctable_ecc_events": COUNT}),
            "sensors": Nullable({"count": POSITIVE, "required": [TEXT]}),
            "power_supplies": Nullable({"count": POSITIVE}),
            "inlet": Nullable({"sensor": TEXT, "limit_celsius": NUMBER}),
        }
    ),
    # What role gpu_stack installs with the driver gpu.driver; null where a site installs it by other means.
    "gpu_stack": Nullable({"packages": [{"name": TEXT, "version": TEXT}], "services": [TEXT]}),
    # PATH in which probes look for tools, and what stands before every path they read.
    "tools": {"path": TEXT, "root": PATH},
    # container: image in which the ranks inside a node run once; null: none. step_seconds and pairs.seconds are what
    # planning counts for starting a step and for one permutation. floors and latency hold from nodes_min nodes on, with
    # nodes_min 1 inside a node; sendrecv is between the same rails of two nodes.
    "collective": {
        "driver": DRIVER,
        "backend": BACKEND,
        "ranks_per_node": POSITIVE,
        "python": PATH,
        "container": Nullable(TEXT),
        # What NCCL's log must show on an RDMA fabric, beside the rails; null: no more than those. nvls null: either.
        "transport": Nullable({"gpu_direct": FLAG, "nvls": Nullable(FLAG)}),
        "step_seconds": ABOVE_ZERO,
        "pairs": {"sizes_bytes": [POSITIVE], "iterations": POSITIVE, "warmup": COUNT, "seconds": ABOVE_ZERO},
        "groups": {
            "collectives": [COLLECTIVE],
            "sizes_bytes": [POSITIVE],
            "iterations": POSITIVE,
            "warmup": COUNT,
        },
        # A small sharded transformer, whose gradients travel while it computes; null: none.
        "train": Nullable({"hidden": POSITIVE, "layers": POSITIVE, "steps": POSITIVE}),
        "floors": [{"collective": MOVED, "nodes_min": POSITIVE, "size_bytes": POSITIVE, "busbw_gb_per_s": ABOVE_ZERO}],
        # Ceilings of the worst of fewer than 100 iterations, of their 99th percentile otherwise.
        "latency": [{"collective": MOVED, "nodes_min": POSITIVE, "size_bytes": POSITIVE, "microseconds": ABOVE_ZERO}],
        # From how many peers on nodes are judged against each other, how far one may lie below them, and the smallest
        # slowdown that must be found; shares of 1.
        "cohort": {"peers": POSITIVE, "margin": ABOVE_ZERO, "smallest": ABOVE_ZERO},
        # So many nodes, and more than this share of a round, that are slow at once are held: suspect the fabric.
        "hold": {"nodes": POSITIVE, "share": ABOVE_ZERO},
        "straggler": Nullable({"p99_over_p50": ABOVE_ZERO, "last_share": ABOVE_ZERO}),
        # In how many minutes a campaign must end, whatever coverage that allows; null: as long as it takes.
        "budget_minutes": Nullable(ABOVE_ZERO),
    },
}

_CHOICES = {
    BMC: ("ipmitool", "redfish"),
    ROCE_BACKEND: ("doca", "inbox"),
    FABRIC: ("roce", "infiniband"),
    TIER: ("local", "nfs", "lustre", "existing"),
    BACKEND: ("gloo", "nccl"),
    DRIVER: ("torch", "nccl_tests"),
    COLLECTIVE: ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    MOVED: ("sendrecv", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    TORCH_DEVICE: ("cpu", "cuda"),
    LINK_LAYER: ("Ethernet", "InfiniBand"),
    CONNECTION: ("PIX", "PXB", "PHB", "NODE", "SYS"),
}
_ADDRESS = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?")


class ExpectationError(ValueError):
    """Expectations that cannot be judged by: key, what was found and what was expected."""

    def __init__(self, key: str, found: str, expected: str) -> None:
        self.key, self.found, self.expected = key, found, expected
        super().__init__(f"{key + ': ' if key else ''}found {found}, expected {expected}")


def pci_address(text: str) -> str | None:
    """Return a PCI address (``00000000:1B:00.0``, NVRM's ``0000:1b:00``) as ``0000:1b:00.0``, or None if it is none."""
    match = _ADDRESS.fullmatch(text.strip())
    if not match:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus.lower()}:{device.lower()}.{function or '0'}"


def gpu_subjects(expect: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of each GPU part by PCI address: ``{"0000:1b:00.0": "gpu SXM1 0000:1b:00.0"}``.

    A class without GPUs says so with ``gpu: null``; a missing key is an error (KeyError), not "no GPUs".
    """
    gpu = expect["gpu"]
    return {} if gpu is None else {part["address"]: f"gpu {part['slot']} {part['address']}" for part in gpu["parts"]}


def check_expectations(expect: Any, key: str = "") -> None:
    """Raise ExpectationError unless ``expect`` has every key of SCHEMA, each of its kind, and they agree.

    ``key`` is where the expectations stand in their file; errors name it.
    """
    check_kind(expect, SCHEMA, key)
    at = f"{key}." if key else ""
    parts = expect["gpu"]["parts"] if expect["gpu"] else ()
    if expect["gpu"] and len(parts) != expect["gpu"]["count"]:
        raise ExpectationError(f"{at}gpu.parts", f"{len(parts)} parts", f"{expect['gpu']['count']}, as gpu.count says")
    for field in ("slot", "address"):
        values = [part[field] for part in parts]
        for index, value in enumerate(values):
            if value in values[:index]:
                raise ExpectationError(f"{at}gpu.parts[{index}].{field}", f"{shown(value)} again", "each one once")
    if expect["bmc"] and expect["bmc"]["interface"] == "redfish" and expect["bmc"]["redfish"] is None:
        raise ExpectationError(f"{at}bmc.redfish", "nothing", "address, netrc, certificate and documents")
    if expect["gpu_stack"] and not (expect["gpu"] and expect["gpu"]["driver"]):
        raise ExpectationError(f"{at}gpu.driver", "nothing", "a version, as gpu_stack is declared")
    if expect["nvme"] and expect["nvme"]["addresses"] is not None:
        _check_addresses(expect["nvme"], f"{at}nvme.addresses")
    if expect["nic"]:
        _check_settings(expect["nic"]["firmware_settings"] or (), f"{at}nic.firmware_settings")
    if expect["pcie"] and expect["pcie"]["max_read_request_bytes"] not in (None, *READ_REQUEST_BYTES):
        where, known = f"{at}pcie.max_read_request_bytes", ", ".join(map(str, READ_REQUEST_BYTES))
        raise ExpectationError(where, shown(expect["pcie"]["max_read_request_bytes"]), f"one of {known}")
    _check_rails(expect["nic"]["rails"] if expect["nic"] else (), f"{at}nic.rails")
    _check_collective(expect["collective"], f"{at}collective")


def _check_collective(collective: Mapping[str, Any], key: str) -> None:
    """Raise ExpectationError unless all that is limited is measured, and in sizes that can be."""
    moves = {"pairs": collective["pairs"], "groups": collective["groups"]}
    for name, move in moves.items():
        sizes = move["sizes_bytes"]
        if not sizes or len(set(sizes)) != len(sizes) or any(size % 4 for size in sizes):
            raise ExpectationError(f"{key}.{name}.sizes_bytes", shown(sizes), "multiples of 4 bytes, each one once")
    if not collective["groups"]["collectives"]:
        raise ExpectationError(f"{key}.groups.collectives", "none", "one at least")
    for kind in ("floors", "latency"):
        for index, limit in enumerate(collective[kind]):
            where, name = f"{key}.{kind}[{index}]", "pairs" if limit["collective"] == "sendrecv" else "groups"
            # What is inside a node has sizes of its own: those that are limited.
            inside = limit["nodes_min"] == 1 and name == "groups"
            if limit["size_bytes"] not in moves[name]["sizes_bytes"] and not inside:
                raise ExpectationError(
                    f"{where}.size_bytes", shown(limit["size_bytes"]), f"one of collective.{name}.sizes_bytes"
                )
            if name == "groups" and limit["collective"] not in collective["groups"]["collectives"]:
                raise ExpectationError(
                    f"{where}.collective", shown(limit["collective"]), "one of collective.groups.collectives"
                )
    if collective["cohort"]["smallest"] < collective["cohort"]["margin"] or collective["cohort"]["smallest"] >= 1:
        found, least = shown(collective["cohort"]["smallest"]), collective["cohort"]["margin"]
        raise ExpectationError(f"{key}.cohort.smallest", found, f"at least the margin {least}, and less than 1")
    for index, limit in enumerate(collective["latency"]):
        if collective["driver"] == "nccl_tests" and limit["collective"] != "sendrecv":
            # It tells the mean of the iterations, which is no limit of the worst of them.
            raise ExpectationError(f"{key}.latency[{index}]", shown(limit["collective"]), "sendrecv with nccl_tests")


def _check_addresses(nvme: Mapping[str, Any], key: str) -> None:
    addresses = nvme["addresses"]
    if len(addresses) != nvme["count"]:
        raise ExpectationError(key, f"{len(addresses)} addresses", f"{nvme['count']}, as nvme.count says")
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            raise ExpectationError(f"{key}[{index}]", f"{shown(address)} again", "each one once")


def _check_settings(settings: Sequence[Mapping[str, str]], key: str) -> None:
    keys = [item["key"] for item in settings]
    for index, name in enumerate(keys):
        if name in keys[:index]:
            raise ExpectationError(f"{key}[{index}].key", f"{shown(name)} again", "each one once")
        # The tool takes its arguments as KEY=VALUE.
        if not re.fullmatch(r"[A-Z][A-Za-z0-9_]*", name, re.ASCII):
            raise ExpectationError(f"{key}[{index}].key", shown(name), "a name such as MAX_ACC_OUT_READ")
        if not re.fullmatch(r"[A-Za-z0-9_]+(\(\d+\))?", settings[index]["wanted"], re.ASCII):
            raise ExpectationError(
                f"{key}[{index}].wanted", shown(settings[index]["wanted"]), "such as 128, ETH or ETH(2)"
            )


def _check_rails(rails: Sequence[Mapping[str, Any]], key: str) -> None:
    for field in ("rail", "device", "address", "interface"):
        values = [rail[field] for rail in rails]
        for index, value in enumerate(values):
            if value is not None and value in values[:index]:
                raise ExpectationError(f"{key}[{index}].{field}", f"{shown(value)} again", "each one once")


def shown(value: Any) -> str:
    """Return a value as an error names it."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return json.dumps(value, ensure_ascii=False, default=str)


def check_kind(data: Any, kind: Any, key: str) -> None:
    """Raise ExpectationError unless ``data`` is of the kind, which is written as in SCHEMA."""
    if isinstance(kind, Nullable):
        if data is not None:
            check_kind(data, kind.kind, key)
    elif isinstance(kind, dict):
        _check_mapping(data, kind, key)
    elif isinstance(kind, list):
        if not isinstance(data, list):
            raise ExpectationError(key, shown(data), "a list")
        for index, value in enumerate(data):
            check_kind(value, kind[0], f"{key}[{index}]")
    elif not _fits(data, kind):
        raise ExpectationError(key, shown(data), kind)


def _check_mapping(data: Any, kinds: Mapping[str, Any], key: str) -> None:
    if not isinstance(data, Mapping):
        raise ExpectationError(key, shown(data), "a mapping")
    for name in data:
        if name not in kinds:
            known = f"one of {', '.join(kinds)}" if kinds else "no keys"
            near = difflib.get_close_matches(str(name), kinds, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ExpectationError(key, f"unknown key {shown(name)}", known + hint)
    for name, kind in kinds.items():
        where = f"{key}.{name}" if key else name
        if name not in data:
            raise ExpectationError(where, "nothing", "a value")
        check_kind(data[name], kind, where)


def _fits(value: Any, kind: str) -> bool:
    if kind == FLAG:
        return isinstance(value, bool)
    if kind in (COUNT, POSITIVE):
        return isinstance(value, int) and not isinstance(value, bool) and value >= (kind == POSITIVE)
    if kind == WHOLE:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == DIAG_LEVEL:
        return _fits(value, COUNT) and 1 <= value <= 4
    if kind in (NUMBER, ABOVE_ZERO):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        # NaN, infinity and what only an integer can hold are numbers to YAML and JSON, not to an operator.
        return number and 0 <= value <= sys.float_info.max and (kind == NUMBER or value > 0)
    if not isinstance(value, str) or not value:
        return False
    if kind == PATH:
        return value.startswith("/")
    if kind == DATE:
        return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII))
    if kind == PCI_ADDRESS:
        return pci_address(value) == value
    return kind not in _CHOICES or value in _CHOICES[kind]
