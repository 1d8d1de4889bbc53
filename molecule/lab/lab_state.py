"""What the simulated hardware of a lab host shows: defaults of a healthy host, and the faults laid over them."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import lab_gpus
from lab_roce import IGNORED

# Where no hardware class says otherwise: the addresses of SXM1 to SXM8 in the class lab_h100.
BUSES = ("0b", "05", "0c", "04", "8b", "85", "8c", "84")
PARTS = tuple({"slot": f"SXM{slot}", "address": f"0000:{bus}:00.0"} for slot, bus in enumerate(BUSES, 1))
# Where no hardware class says otherwise: the rails of the class lab_h100.
NIC_BUSES = ("1a", "3c", "4d", "5e", "9c", "bc", "cc", "dc")
RAILS = tuple({"rail": rail, "address": f"0000:{bus}:00.0"} for rail, bus in enumerate(NIC_BUSES))
# A card that is no rail, before all of them on the bus.
EXTRA_NIC = "extra"
EXTRA_NIC_ADDRESS = "0000:19:00.0"
DIMM_MIB = 65536
DIMMS = tuple(
    {"slot": f"{socket}{slot}", "size_mib": DIMM_MIB, "speed_mts": 4400} for socket in "AB" for slot in range(1, 17)
)
# Data drives, by number: the kernel's nvme0 is drive 1.
NVME = tuple(f"0000:{bus}:00.0" for bus in ("18", "3a", "4b", "5c", "9a", "ba", "ca", "da"))

HEALTHY: dict[str, Any] = {
    "gpus_missing": [],
    # Those of which the driver gives no handle; those that it lists and whose every value is "GPU is lost".
    "gpus_lost": [],
    "gpus_lost_listed": [],
    "gpu_serials": {},
    # By slot what the driver says of a GPU, by the names of lab_gpus.py; "N/A" and "GPU is lost" are values too.
    "gpu_values": {},
    # Whether NICs are called as rdma-core and systemd name them by their bus (rocep26s0, enp26s0np0), and not as the
    # kernel counts them (mlx5_0, rdma0); whether a further card is counted before the rails.
    "persistent_names": False,
    "extra_nic": False,
    # NICs by their rails: [rail3].
    "nics_missing": [],
    "nics_down": [],
    "nic_values": {},
    # Whether the kernel's own RDMA modules are loaded still, as between an installation of DOCA-OFED and the reboot.
    "doca_not_loaded": False,
    # By rail what its tools take and forget ({"rail2": ["--pfc", "cma_roce_tos"]}); those without a GID of their IP.
    "roce_ignores": {},
    "roce_no_gid": [],
    # Two rails of the host whose cables are exchanged; those that hear no neighbour over LLDP.
    "lldp_swapped": [],
    "lldp_silent": [],
    # By rail what it reaches in perftest, if not what a healthy one does: Gb/s and microseconds.
    "rail_slow": {},
    "rail_latency": {},
    # By rail the priority with which the port takes what it receives, whatever its mark says.
    "wrong_priority": {},
    # Options that its perftest has not: ["--use_cuda", "--use_cuda_dmabuf"] for one that was built without CUDA.
    "perftest_lacks": [],
    # By rail how many packets each test of it loses.
    "retransmits": {},
    # As trust and buffers are set on the ports: priority by DSCP.
    "dscp_priority": {"26": 3, "48": 6},
    "gpu_processes": {},
    "gpu_nic_connections": {},
    # By slot and link its speed in MB/s, 0 for one that is down: {"SXM4": {"7": 0}}.
    "nvlinks": {},
    "numa_off": False,
    # active and sub null: no such unit; version null: the driver's.
    "fabric_manager": {"active": "active", "sub": "running", "version": None},
    # Lines that its log has since the service's last start, such as "[ERROR] [tid 841] detected NVSwitch fatal ...".
    "fabric_manager_log": [],
    # The lab's nvidia-smi is that of its branch: 550 or 535.
    "driver": "550.163.01",
    "kernel": "5.15.0-1063-nvidia",
    "kernel_log": [],
    # How many lines the ring buffer still holds; None: all.
    "ring_lines": None,
    # By slot: other texts of the GPU's files in sysfs (current_link_width, ...).
    "gpu_files": {},
    "kernel_command_line": "BOOT_IMAGE=/boot/vmlinuz root=/dev/md0 ro quiet intel_iommu=on iommu=pt",
    # What the kernel shows with all modules there; each one missing takes its size away.
    "memory_mib": 2064384,
    "dimms": list(DIMMS),
    "dimms_missing": [],
    # By slot: size_mib, speed_mts and serial of another module; correctable and uncorrectable errors.
    "dimm_values": {},
    "dimm_errors": {},
    "swap_mib": 0,
    # Pages set aside by size in KiB ("2048": 512).
    "hugepages": {},
    "transparent_hugepage": "madvise",
    "cpu": {"sockets": 2, "cores": 96},
    # As Debian's kernels start; role host_base sets the one of the hardware class.
    "cpu_governor": "schedutil",
    # By number of the CPU ("7": "0x2b000590").
    "cpu_microcode": {},
    # None: one for each socket.
    "numa_nodes": None,
    "clocksource": "tsc",
    "nvme": list(NVME),
    # By address of a GPU, NIC or drive the link (speed_gts, width); those with access control in the bridge above.
    "pci_links": {},
    "acs_enabled": [],
    # By address of a GPU, NIC or drive max_read_request_bytes and relaxed_ordering; "ignored": setpci has no effect.
    "pci_control": {},
    # By rail other firmware settings: {"rail3": {"MAX_ACC_OUT_READ": "0"}}, ["0", "128"] for one that waits for its
    # reboot, "ignored" for one that the device never takes.
    "nic_config": {},
    # By rail the CPUs to which its interrupts go: {"rail3": "0"}.
    "nic_interrupts": {},
    # By address of a GPU, NIC or drive the PCIe errors counted: {"correctable": {"RxErr": 250}, "fatal": {"DLP": 1}}.
    "pcie_errors": {},
    "clock_offset_ms": 0.03,
    "clock_synchronised": True,
    # By drive number: which are gone, files of its sysfs directory, fields of its SMART health report.
    "nvme_missing": [],
    "nvme_files": {},
    "nvme_smart": {},
    # What BIOS and BMC say of themselves; sensors by name: [status, reading] of ipmitool, null for one that is gone;
    # lines of the event log from the date on.
    "firmware": {"system_product": "Lab HGX", "bios_vendor": "Lab", "bios_version": "1.4", "bmc_version": "1.01"},
    # uuid, serial and bmc_mac of another board than the host's own.
    "board": {},
    "bmc_sensors": {},
    "bmc_log": [],
    "tool_faults": {},
    # How long the load of a tool takes: {"dcgmi": 2.5}.
    "tool_seconds": {},
    # What a test of dcgmi diag gives instead of a pass, by slot or "all" and by test:
    # {"SXM6": {"memory": "Skip", "targeted_power": {"status": "Fail", "warning": "...", "error_severity": 1}}}.
    "dcgm_results": {},
    "dcgm_runtime_error": None,
    # What a link has counted, by slot, link number and counter: {"SXM6": {"3": {"CRC Data Error": 12}}}.
    "nvlink_errors": {},
    # GB/s of a GPU in a test case of nvbandwidth: {"host_to_device_memcpy_ce": {"SXM6": 24.1}}.
    "gpu_bandwidths": {},
    # How nvbandwidth ends instead of measuring.
    "nvbandwidth_error": None,
    "network_mbps": None,
}
NVBANDWIDTH_ERRORS = (None, "wrong data", "not initialized")
DIAG_STATUSES = ("Pass", "Fail", "Skip")
TOOL_FAULTS = ("hang", "crash", "truncate", "empty", "missing", "garble")


class StateError(ValueError):
    """A fault that cannot be simulated: key, found, expected."""


def gpus_of(host: str, parts: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the GPUs of a host, each with a serial number and UUID that are its own and never change."""
    gpus = []
    for part in parts:
        digest = hashlib.sha256(f"{host} {part['slot']}".encode()).hexdigest()
        uuid = f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
        serial = f"165{int(digest[32:44], 16) % 10**10:010d}"
        gpus.append({"slot": part["slot"], "address": part["address"].lower(), "serial": serial, "uuid": uuid})
    return gpus


def nvme_of(state: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the drives that are there by number, each with its controller's name, address and serial number."""
    missing = {str(number) for number in state["nvme_missing"]}
    drives = {}
    for number, address in enumerate(NVME, 1):
        digest = hashlib.sha256(f"{state['host']} nvme {number}".encode()).hexdigest()
        serial = f"LAB{int(digest[:12], 16) % 10**9:09d}"
        if str(number) not in missing:
            drives[str(number)] = {"controller": f"nvme{number - 1}", "address": address, "serial": serial}
    return drives


def nics_of(host: str, rails: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the NICs of a host by their rails, each with a cable whose serial number is its own and never changes."""
    return [
        {
            **_nic(host, f"rail{rail['rail']}", rail["address"].lower()),
            "switch": rail.get("switch"),
            "port": rail.get("port"),
            "ip": rail.get("ip") or f"172.{16 + int(rail['rail'])}.0.1",
        }
        for rail in rails
    ]


def _nic(host: str, rail: str, address: str) -> dict[str, Any]:
    digest = hashlib.sha256(f"{host} {rail}".encode()).hexdigest()
    return {
        "rail": rail,
        "address": address,
        "cable": f"LAB{digest[:8].upper()}",
        "guid": ":".join(digest[index : index + 4] for index in range(8, 24, 4)),
    }


def _named(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the NICs that the state asks for, with what the system calls their RDMA device and network interface."""
    nics = [nic for nic in state["nics"] if nic["rail"] != EXTRA_NIC]
    if state["extra_nic"]:
        extra = _nic(state["host"], EXTRA_NIC, EXTRA_NIC_ADDRESS)
        nics.append({**extra, "switch": None, "port": None, "ip": "192.0.2.1"})
    order = sorted(nic["address"] for nic in nics)
    found = []
    for nic in nics:
        number, (bus, slot) = order.index(nic["address"]), (int(part[:2], 16) for part in nic["address"].split(":")[1:])
        device, interface = f"mlx5_{number}", f"rdma{number}"
        if state["persistent_names"]:
            device, interface = f"rocep{bus}s{slot}", f"enp{bus}s{slot}np0"
        found.append({**nic, "device": device, "interface": interface})
    return found


def declared(
    host: str,
    parts: Sequence[Mapping[str, str]] | None,
    faults: Mapping[str, Any],
    network_mbps: float | None = None,
    rails: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the state that the inventory gives a host; raise StateError for a fault that is none."""
    state = healthy(host, parts or PARTS, rails or RAILS)
    state.update(copy.deepcopy(dict(faults)))
    if network_mbps is not None:
        state["network_mbps"] = network_mbps
    state["nics"] = _named(state)
    check(state)
    return state


def healthy(
    host: str, parts: Sequence[Mapping[str, str]], rails: Sequence[Mapping[str, Any]] = RAILS
) -> dict[str, Any]:
    """Return the state of a host without a fault."""
    return {**copy.deepcopy(HEALTHY), "host": host, "gpus": gpus_of(host, parts), "nics": nics_of(host, rails)}


def assignments(host: str, state: Mapping[str, Any], texts: Sequence[str], now: int) -> dict[str, Any]:
    """Return ``state`` with ``key=JSON`` laid over it; ``null`` makes a key healthy again.

    A kernel log line that was not there before is given the time ``now`` (seconds since 1970).
    """
    new = copy.deepcopy(dict(state))
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign:
            raise StateError(f"found {text!r}, expected KEY=JSON")
        try:
            new[key] = json.loads(value)
        except ValueError as exc:
            raise StateError(f"{key}: found {value!r}, expected JSON ({exc})") from exc
        if new[key] is None:
            new[key] = copy.deepcopy(HEALTHY.get(key))
    check(new)
    new["nics"] = _named(new)
    known = {_message(line): line for line in state["kernel_log"]}
    new["kernel_log"] = [
        line if isinstance(line, dict) else known.get(line, {"seconds": now, "message": line})
        for line in new["kernel_log"]
    ]
    return new


def _message(line: str | Mapping[str, Any]) -> str:
    return line if isinstance(line, str) else str(line["message"])


def changed(host: str, state: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """Yield the keys in which ``state`` is not that of a healthy host, in the order of HEALTHY."""
    for key, value in HEALTHY.items() if state else ():
        if state is not None and state.get(key, value) != value:
            yield key, state[key]


def _check_gpus(state: Mapping[str, Any]) -> None:
    slots = {gpu["slot"] for gpu in state["gpus"]}
    for key in (
        "gpus_missing",
        "gpus_lost",
        "gpus_lost_listed",
        "gpu_serials",
        "gpu_values",
        "gpu_files",
        "gpu_processes",
        "gpu_nic_connections",
        "nvlinks",
    ):
        if unknown := sorted(set(state[key]) - slots):
            raise StateError(f"{key}: found {', '.join(unknown)}, expected slots of {', '.join(sorted(slots))}")
    check_gpu_loads(state, slots)
    for slot, values in state["gpu_values"].items():
        for name, value in values.items():
            if expected := lab_gpus.expected_of(name, value):
                raise StateError(f"gpu_values.{slot}.{name}: found {value!r}, expected {expected}")
    for slot, links in state["nvlinks"].items():
        numbers = [str(link) for link in range(lab_gpus.LINKS)]
        if not all(link in numbers and isinstance(speed, int) for link, speed in links.items()):
            raise StateError(f"nvlinks.{slot}: found {links!r}, expected MB/s by link, 0 to {lab_gpus.LINKS - 1}")
    for processes in state["gpu_processes"].values():
        if not all(set(process) == {"pid", "name", "memory_mib"} for process in processes):
            raise StateError(f"gpu_processes: found {processes!r}, expected pid, name and memory_mib of each")
    if set(state["fabric_manager"]) != set(HEALTHY["fabric_manager"]):
        known = ", ".join(HEALTHY["fabric_manager"])
        raise StateError(f"fabric_manager: found {state['fabric_manager']!r}, expected {known}")


def check(state: Mapping[str, Any]) -> None:
    """Raise StateError when a value could not be shown by the simulated tools."""
    allowed = {*HEALTHY, "host", "gpus", "nics"}
    if unknown := sorted(set(state) - allowed):
        raise StateError(f"unknown state {', '.join(unknown)}, expected {', '.join(HEALTHY)}")
    _check_gpus(state)
    rails = {nic["rail"] for nic in state["nics"]}
    for key in (
        "nics_missing",
        "nics_down",
        "nic_values",
        "nic_config",
        "nic_interrupts",
        "roce_ignores",
        "roce_no_gid",
        "rail_slow",
        "rail_latency",
        "wrong_priority",
        "retransmits",
        "lldp_swapped",
        "lldp_silent",
    ):
        if unknown := sorted(set(state[key]) - rails):
            raise StateError(f"{key}: found {', '.join(unknown)}, expected {', '.join(sorted(rails))}")
    if len(state["lldp_swapped"]) not in (0, 2):
        raise StateError(f"lldp_swapped: found {state['lldp_swapped']!r}, expected two rails")
    for rail, ignored in state["roce_ignores"].items():
        if unknown := sorted(set(ignored) - set(IGNORED)):
            raise StateError(f"roce_ignores.{rail}: found {', '.join(unknown)}, expected {', '.join(IGNORED)}")
    _check_drives(state)
    _check_bmc(state)
    for tool, fault in state["tool_faults"].items():
        if fault not in TOOL_FAULTS:
            raise StateError(f"tool_faults.{tool}: found {fault!r}, expected one of {', '.join(TOOL_FAULTS)}")
    for key, numbers in (
        ("memory_mib", [state["memory_mib"]]),
        ("swap_mib", [state["swap_mib"]]),
        ("clock_offset_ms", [state["clock_offset_ms"]]),
        ("network_mbps", [1 if state["network_mbps"] is None else state["network_mbps"]]),
        ("ring_lines", [1 if state["ring_lines"] is None else state["ring_lines"]]),
        ("cpu", [state["cpu"].get("sockets"), state["cpu"].get("cores")]),
    ):
        if not all(isinstance(number, int | float) for number in numbers):
            raise StateError(f"{key}: found {state[key]!r}, expected a number")
    check_parts(state)
    for key in ("kernel_log", "fabric_manager_log"):
        if not isinstance(state[key], list):
            raise StateError(f"{key}: found {state[key]!r}, expected a list of lines")


def _check_drives(state: Mapping[str, Any]) -> None:
    drives = {str(number) for number in range(1, len(NVME) + 1)}
    for key in ("nvme_missing", "nvme_files", "nvme_smart"):
        if unknown := sorted({str(number) for number in state[key]} - drives):
            raise StateError(f"{key}: found {', '.join(unknown)}, expected drives 1 to {len(NVME)}")


def _check_bmc(state: Mapping[str, Any]) -> None:
    if set(state["firmware"]) != set(HEALTHY["firmware"]):
        raise StateError(f"firmware: found {', '.join(state['firmware'])}, expected {', '.join(HEALTHY['firmware'])}")
    if unknown := sorted(set(state["board"]) - {"uuid", "serial", "bmc_mac"}):
        raise StateError(f"board: found {', '.join(unknown)}, expected uuid, serial, bmc_mac")
    for name, shown in state["bmc_sensors"].items():
        if shown is not None and (not isinstance(shown, list) or len(shown) != 2):
            raise StateError(f"bmc_sensors.{name}: found {shown!r}, expected [status, reading] or null")
    if not isinstance(state["bmc_log"], list):
        raise StateError(f"bmc_log: found {state['bmc_log']!r}, expected a list of lines")


def check_gpu_loads(state: Mapping[str, Any], slots: set[str]) -> None:
    """Raise StateError for what dcgmi diag and nvbandwidth could not show."""
    for slot, tests in state["dcgm_results"].items():
        if slot not in {*slots, "all"}:
            raise StateError(f"dcgm_results: found {slot}, expected all or slots of {', '.join(sorted(slots))}")
        for test, result in tests.items():
            status = result.get("status") if isinstance(result, Mapping) else result
            if status not in DIAG_STATUSES:
                where = f"dcgm_results.{slot}.{test}"
                raise StateError(f"{where}: found {status!r}, expected one of {', '.join(DIAG_STATUSES)}")
    if unknown := sorted(set(state["nvlink_errors"]) - slots):
        raise StateError(f"nvlink_errors: found {', '.join(unknown)}, expected slots of {', '.join(sorted(slots))}")
    for testcase, values in state["gpu_bandwidths"].items():
        if unknown := sorted(set(values) - slots):
            raise StateError(f"gpu_bandwidths.{testcase}: found {', '.join(unknown)}, expected slots")
        if not all(value is None or isinstance(value, int | float) for value in values.values()):
            raise StateError(f"gpu_bandwidths.{testcase}: found {values!r}, expected numbers")
    if state["nvbandwidth_error"] not in NVBANDWIDTH_ERRORS:
        expected = ", ".join(map(str, NVBANDWIDTH_ERRORS))
        raise StateError(f"nvbandwidth_error: found {state['nvbandwidth_error']!r}, expected one of {expected}")
    if not all(isinstance(seconds, int | float) and seconds >= 0 for seconds in state["tool_seconds"].values()):
        raise StateError(f"tool_seconds: found {state['tool_seconds']!r}, expected numbers of seconds")


def check_parts(state: Mapping[str, Any]) -> None:
    """Raise StateError for memory modules, PCI devices and CPUs that the host does not have."""
    dimms = {dimm["slot"] for dimm in state["dimms"]}
    addresses = {part["address"] for part in (*state["gpus"], *state["nics"])} | set(state["nvme"])
    for keys, known, what in (
        (("dimms_missing", "dimm_values", "dimm_errors"), dimms, "slots of dimms"),
        (("pci_links", "pci_control", "acs_enabled", "pcie_errors"), addresses, "addresses of gpus, nics or nvme"),
    ):
        for key in keys:
            if unknown := sorted(set(state[key]) - known):
                raise StateError(f"{key}: found {', '.join(unknown)}, expected {what}")
    for key, fields in (
        ("dimm_values", {"serial", "size_mib", "speed_mts"}),
        ("dimm_errors", {"correctable", "uncorrectable"}),
        ("pci_links", {"speed_gts", "width"}),
        ("pci_control", {"max_read_request_bytes", "relaxed_ordering", "ignored"}),
        ("pcie_errors", {"correctable", "nonfatal", "fatal"}),
    ):
        for part, values in state[key].items():
            if not isinstance(values, dict) or not values or set(values) - fields:
                raise StateError(f"{key}.{part}: found {values!r}, expected {' and '.join(sorted(fields))}")
    cpus = 2 * state["cpu"]["cores"] if isinstance(state["cpu"].get("cores"), int) else 0
    if unknown := sorted(set(state["cpu_microcode"]) - {str(number) for number in range(cpus)}):
        raise StateError(f"cpu_microcode: found {', '.join(unknown)}, expected numbers of CPUs")
    if state["numa_nodes"] not in (None, *range(1, 65)):
        raise StateError(f"numa_nodes: found {state['numa_nodes']!r}, expected a number of nodes")
    for size, count in state["hugepages"].items():
        if size not in ("2048", "1048576") or not isinstance(count, int):
            raise StateError(f"hugepages: found {size}: {count!r}, expected 2048 or 1048576 and a number of pages")
