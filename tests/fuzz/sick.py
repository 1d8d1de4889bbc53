"""Outputs of sick hosts: a healthy output with one fault in it, and the check that must find the fault."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HEALTHY = Path(__file__).resolve().parents[1] / "healthy"
FAIL, INCOMPLETE = "fail", "incomplete"


# What the rails of the healthy outputs are set to.
FABRIC: dict[str, Any] = {
    "kind": "roce",
    "routing": "ecmp",
    "peer_memory": "dmabuf",
    "port": {
        "backend": "doca",
        "mtu_bytes": 9000,
        "dscp_priority": [{"dscp": 26, "priority": 3}, {"dscp": 46, "priority": 5}, {"dscp": 48, "priority": 6}],
        "lossless_priorities": [3, 5],
        "dcqcn": False,
        "cnp_dscp": None,
        "cnp_priority": None,
        "cm_tos": 104,
        "traffic_class": None,
        "rings": {"rx": 8192, "tx": 8192},
        "buffers": None,
    },
    "nccl_least": None,
    "verify_cabling": True,
    "ipoib": None,
}


# What the healthy outputs have mounted.
_MOUNT = {"options": [], "numa_node": None, "stripe_count": None, "write_ms": 1000, "free_percent": 5}
MOUNTS: list[dict[str, Any]] = [
    {**_MOUNT, "tier": "scratch", "kind": "local", "path": "/scratch", "filesystem": "xfs", "source": None},
    {
        **_MOUNT,
        **{"tier": "checkpoints", "kind": "nfs", "path": "/checkpoints", "filesystem": "nfs4"},
        "source": "10.3.0.10:/checkpoints",
    },
]


@dataclass(frozen=True)
class Variant:
    """A host that is healthy in another way: what its class has besides, and what its probes print instead.

    ``prints`` are replacements (regular expression, text) everywhere in a probe's healthy output.
    """

    expect: Mapping[str, Any] = field(default_factory=dict)
    prints: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)


_NOT_DECLARED = ((r"(?s)\A.*\Z", "not declared by the class\n"),)
VARIANTS: dict[str, Variant] = {
    "": Variant(prints=dict.fromkeys(("redfish", "redfish_manager"), _NOT_DECLARED)),
    "redfish": Variant(
        {
            "bmc": {
                "interface": "redfish",
                "redfish": {"address": "bmc", "netrc": "/etc/netrc", "certificate": None, "documents": ["/x"]},
                "sensors": {"count": 13},
                "airflow": {"fans": 8},
            }
        },
        dict.fromkeys(("ipmi_sdr", "ipmi_sel", "ipmi_mc", "ipmi_lan"), _NOT_DECLARED),
    ),
    # GPUs from before Ampere retire pages and remap no rows.
    "retired pages": Variant(
        {"gpu": {"retired_pages": 60}},
        {
            "nvidia_smi": (
                (r"(<retired_count>)N/A", r"\g<1>0"),
                (r"(<pending_retirement>|<pending_blacklist>)N/A", r"\g<1>No"),
            )
        },
    ),
    # The kernel's ring buffer begins after boot, and the last health run had read up to there.
    "ring": Variant(prints={"kernel_ring": ((r"\A(?:\[    [0-7]\..*\n)+", ""),)}),
    # Control is marked unlike data, which the installed NCCL has to know how to do.
    "marked": Variant(
        {
            "fabric": {"port": None, "nccl_least": "2.22.3"},
            "gpu_stack": {"packages": [{"name": "libnccl2", "version": "2.25.1-1+cuda12.8"}], "services": []},
            # Whoever declares packages declares the driver.
            "gpu": {"driver": "570.86.15"},
        }
    ),
    # A class that names its PyTorch.
    "pinned": Variant({"pytorch": {"version": "2.8.0+cu128"}}),
    # A fleet that declares storage tiers.
    "storage": Variant({"mounts": MOUNTS}),
    # NVSwitches that a NIC of the board manages.
    "subnet manager": Variant(
        {"nvlink": {"subnet_manager": True}},
        {
            "nvlsm": (
                (r"process <== \(exit status 1: \)\n", "process <==\n    0 Ssl\n"),
                (r"(?m) no$", " yes"),
            ),
            "nvswitch_nics": ((r"\A", "0000:a8:00.0 SW_MNG\n"), (r"8 in all", "9 in all")),
        },
    ),
    # GPUs in one NVLink domain with those of other hosts.
    "nvlink domain": Variant(
        {"nvlink": {"fabric_manager": False, "domain": {"hosts": 18, "imex": {"nodes": 18, "channels": 1}}}},
        {
            "nvidia_smi": (
                (r"(<clusterUuid>)[0-9-]+", r"\g<1>9c6f5af3-53bf-49b5-a436-b66766c413c3"),
                (r"(<cliqueId>)0", r"\g<1>4026"),
            )
        },
    ),
    "slots": Variant(
        {
            "memory": {"dimms": {"count": 32, "size_mib": 65536, "speed_mts": 4400, "slots": None}},
            "nvme": {"firmware": "GDC7302Q"},
        }
    ),
}


@dataclass(frozen=True)
class Sick:
    """``check`` finds the fault that replacing ``old`` (a regular expression, once) by ``new`` puts into ``probe``."""

    check: str
    probe: str
    old: str
    new: str
    # A log, or a list of what need not be there, tells faults by lines it has: nobody was told of one that is lost.
    log: bool = False
    verdict: str = FAIL
    variant: str = ""

    def text(self) -> str:
        """Return the sick output; raises ValueError where the healthy one has nothing to make sick."""
        return _sick(self.probe, self.variant, self.old, self.new)[0]

    def told(self, text: str) -> bool:
        """Return whether a text still tells of the fault: always, but for a log with all of its faulty lines."""
        if not self.log:
            return True
        usual, left = set(healthy(self.probe, self.variant).splitlines()), {line.rstrip() for line in text.splitlines()}
        return all(line.rstrip() in left for line in self.text().splitlines() if line not in usual)

    def place(self) -> int:
        """Return where in the text the fault begins."""
        return _sick(self.probe, self.variant, self.old, self.new)[1]


@functools.cache
def _sick(probe: str, variant: str, old: str, new: str) -> tuple[str, int]:
    before = healthy(probe, variant)
    text, times = re.subn(old, new, before, count=1, flags=re.MULTILINE)
    if not times:
        raise ValueError(f"{old!r} is not in the healthy output of {probe}")
    place = next(
        (index for index, (a, b) in enumerate(zip(before, text, strict=False)) if a != b), min(len(before), len(text))
    )
    return text, place


@functools.cache
def healthy(name: str, variant: str = "") -> str:
    """Return what a probe or stress prints on a healthy host."""
    (path,) = HEALTHY.glob(f"{name}.*")
    text = path.read_text(encoding="utf-8")
    for old, new in VARIANTS[variant].prints.get(name, VARIANTS[""].prints.get(name, ()) if not variant else ()):
        text = re.sub(old, new, text)
    return text


@functools.cache
def known() -> tuple[str, ...]:
    """Return the probes and stresses of which there is a healthy output."""
    return tuple(sorted(path.stem for path in HEALTHY.iterdir()))


_AT = "2026-11-20T08:00:00+0000 h kernel: "
_UP = "[  900.000000] "


def _logged(check: str, text: str, verdict: str = FAIL) -> Sick:
    return Sick(check, "kernel_log", r"\Z", f"{_AT}{text}\n", log=True, verdict=verdict)


def _rung(check: str, text: str) -> Sick:
    return Sick(check, "kernel_ring", r"\Z", f"{_UP}{text}\n", log=True)


def _xml(check: str, element: str, value: str, new: str, variant: str = "") -> Sick:
    """Return a GPU with another value in the first element of the name, such as ``volatile/sram_correctable``."""
    outer, _, inner = element.rpartition("/")
    before = rf"(<{outer}>(?:(?!</{outer}>)[\s\S])*?<{inner}>)" if outer else rf"(<{inner}>)"
    return Sick(check, "nvidia_smi", rf"{before}{value}(?=</{inner}>)", rf"\g<1>{new}", variant=variant)


def _unowed(row: Sick) -> Sick:
    """Return the row of a field that a driver need not have: nobody was told of one that is lost."""
    return replace(row, log=True)


def _gone(check: str, probe: str, place: str, left: int) -> Sick:
    """Return the row of a host that has no such directory, the last of its kind, and lists the ``left`` other files."""
    whole = rf"(?s:(?:{place}[^\n]*\n)+[0-9]+ in all(.*?)\n==> {place}.*)\Z"
    return Sick(check, probe, whole, rf"{left} in all\g<1>")


def _file(check: str, probe: str, path: str, new: str, variant: str = "") -> Sick:
    """Return a host on which the first file that ends so holds something else."""
    return Sick(check, probe, rf"({path} <==\n)[^\n]*", rf"\g<1>{new}", variant=variant)


def _qos(old: str, new: str) -> Sick:
    """Return a host whose second rail's ``mlnx_qos`` prints something else."""
    return Sick(
        "roce_settings", "roce_port", rf"(==> mlnx_qos -i rdma2 <==\n(?:.*\n)*?.*?){old}", rf"\g<1>{_next(new)}"
    )


def _next(new: str) -> str:
    """Return a replacement whose group 1 is the second."""
    return new.replace(r"\g<1>", r"\g<2>")


# Checks that cannot fail by what a probe prints, and why.
NO_FAULT = {
    "fingerprint": "it asks whether the host's parts could be read, and judges none of them",
}

SICK: tuple[Sick, ...] = (
    # --- storage tiers
    *(
        Sick("mounts", "mounts", old, new, verdict=verdict, variant="storage")
        for old, new, verdict in (
            (r'91 25 0:55 [^"]*', "", INCOMPLETE),
            (r'90 25 9:127 [^"]*', "", FAIL),
            (r"- xfs ", "- ext4 ", FAIL),
            (r"10\.3\.0\.10:/checkpoints", "10.3.0.11:/checkpoints", FAIL),
            (r"/scratch rw,noatime", "/scratch ro,noatime", FAIL),
            (r'"write_ms": 0\.412', '"write_ms": 1412.5', FAIL),
            (r'"write_ms": 2\.25', '"write_ms": 1412.5', INCOMPLETE),
            (r'"state": "clean"', '"state": "broken"', FAIL),
            (r'"present": 8', '"present": 7', FAIL),
            (r'"disks": 8, "present": 8', '"disks": 7, "present": 7', FAIL),
            (r'"free": 30000000000000', '"free": 1000000000000', FAIL),
            (r'"stuck": "", "version": "", "write_ms": 2\.25', '"stuck": "mount", "write_ms": null', INCOMPLETE),
            (r'"stuck": "", "version": "", "write_ms": 0\.412', '"stuck": "write", "write_ms": null', FAIL),
        )
    ),
    Sick("local_drives", "local_drives", r'"critical_warning": 0', '"critical_warning": 1', variant="storage"),
    # --- GPU, static
    Sick("gpu_inventory", "nvidia_smi", r"<product_name>NVIDIA H100 80GB HBM3", "<product_name>NVIDIA H100 PCIe"),
    _xml("gpu_inventory", "fb_memory_usage/total", "81559 MiB", "65247 MiB"),
    Sick("gpu_inventory", "nvidia_smi", r'<gpu id="00000000:05:00\.0">', '<gpu id="00000000:06:00.0">'),
    Sick(
        "gpu_inventory",
        "nvidia_smi",
        r'(<attached_gpus>)8([\s\S]*?)\t<gpu id="00000000:05:00\.0">[\s\S]*?</gpu>\n',
        r"\g<1>7\g<2>",
    ),
    Sick(
        "gpu_inventory",
        "nvidia_smi",
        r"(<serial>)([0-9]+)(</serial>[\s\S]*?<serial>)[0-9]+",
        r"\1\2\3\2",
        # A board need not have one (N/A): nobody was told of one that is lost.
        log=True,
    ),
    Sick("gpu_inventory", "nvidia_smi", r"(<uuid>)(GPU-[^<]+)(</uuid>[\s\S]*?<uuid>)GPU-[^<]+", r"\1\2\3\2"),
    Sick("gpu_inventory", "nvidia_smi", r"\Z", "WARNING: infoROM is corrupted at gpu 0000:05:00.0\n", log=True),
    Sick("gpu_inventory", "nvidia_smi", r"\Z", "WARNING: something else\n", log=True, verdict=INCOMPLETE),
    _xml("gpu_versions", "gsp_firmware_version", r"570\.86\.15", "550.90.07"),
    Sick("gpu_versions", "nvidia_smi", r"(<gsp_firmware_version>)[^<]+", r"\g<1>N/A", verdict=INCOMPLETE),
    _xml("gpu_versions", "vbios_version", r"96\.00\.A5\.00\.01", "96.00.30.00.01"),
    _xml("gpu_power", "gpu_power_readings/default_power_limit", r"700\.00 W", "500.00 W"),
    _xml("gpu_power", "gpu_power_readings/current_power_limit", r"700\.00 W", "650.00 W"),
    _xml("gpu_power", "temperature/gpu_temp", "32 C", "95 C"),
    _xml("gpu_power", "temperature/memory_temp", "38 C", "105 C"),
    _unowed(_xml("gpu_power", "temperature/gpu_temp_tlimit", "55 C", "-3 C")),
    _xml("gpu_power", "temperature/gpu_temp", "32 C", "Unknown Error"),
    _xml("gpu_power", "gpu_power_readings/power_draw", r"70\.00 W", "ERR!"),
    _unowed(_xml("gpu_power", "clocks/sm_clock", "[^<]+", "Unknown Error")),
    _unowed(_xml("gpu_power", "utilization/gpu_util", "[^<]+", "ERR!")),
    Sick("gpu_power", "nvidia_smi", r"(<gpu_temp>)[^<]+", r"\g<1>N/A", verdict=INCOMPLETE),
    Sick("gpu_power", "nvidia_smi", r"(<power_draw>)70[^<]+", r"\g<1>N/A", verdict=INCOMPLETE),
    _xml("gpu_settings", "compute_mode", "Default", "Prohibited"),
    _xml("gpu_settings", "compute_mode", "Default", "Exclusive_Process"),
    _unowed(_xml("gpu_settings", "applications_clocks/graphics_clock", "1980 MHz", "1200 MHz")),
    _unowed(_xml("gpu_settings", "max_clocks/sm_clock", "1980 MHz", "1410 MHz")),
    _xml("gpu_settings", "current_ecc", "Enabled", "Disabled"),
    _xml("gpu_settings", "pending_ecc", "Enabled", "Disabled"),
    _xml("gpu_settings", "current_mig", "Disabled", "Enabled"),
    _xml("gpu_settings", "pending_mig", "Disabled", "Enabled"),
    _xml("gpu_settings", "persistence_mode", "Enabled", "Disabled"),
    _xml("gpu_pcie", "link_widths/current_link_width", "16x", "8x"),
    _xml("gpu_pcie", "pcie_gen/max_link_gen", "5", "4"),
    _xml("gpu_pcie", "replay_counter", "0", "20000"),
    _xml("gpu_pcie", "bar1_memory_usage/total", "131072 MiB", "256 MiB"),
    Sick("gpu_nvlink", "nvlink", r"Link 7: 26\.562 GB/s", "Link 7: <inactive>"),
    Sick("gpu_nvlink", "nvlink", r"Link 17: 26\.562 GB/s", "Link 17: 13.281 GB/s"),
    Sick("gpu_nvlink_errors", "dcgmi_nvlink", r'("Link 3": {"children": {"CRC Data Error": {"value": )"0"', r'\1"12"'),
    Sick("gpu_nvlink_errors", "dcgmi_nvlink", r'("Link 0": {"children": .*?"Replay Error": {"value": )"0"', r'\1"900"'),
    _xml("gpu_fabric", "fabric/state", "Completed", "In Progress"),
    _xml("gpu_fabric", "fabric/status", "Success", "Insufficient Resources"),
    _unowed(_xml("gpu_fabric", "fabric/cliqueId", "0", "1")),
    Sick(
        "fabric_manager",
        "fabric_manager",
        "ActiveState=active\nSubState=running",
        "ActiveState=failed\nSubState=failed",
    ),
    Sick("fabric_manager", "fabric_manager", "LoadState=loaded", "LoadState=not-found"),
    Sick("fabric_manager", "fabric_manager", r"is : 570\.86\.15", "is : 550.90.07"),
    *(
        Sick("nvlink_subnet_manager", probe, old, new, variant="subnet manager")
        for probe, old, new in (
            ("nvlsm", r"process <==\n.*\n", "process <== (exit status 1: )\n"),
            ("nvlsm", "Ssl", "Zs"),
            ("nvlsm", "ib_umad yes", "ib_umad no"),
            ("nvswitch_nics", "SW_MNG", "none"),
        )
    ),
    Sick("nvlink_subnet_manager", "nvswitch_nics", "SW_MNG", "unread", verdict=INCOMPLETE, variant="subnet manager"),
    _xml("nvlink_domain", "clusterUuid", "9c6f5af3(.*)", r"9c6f5af4\g<2>", variant="nvlink domain"),
    _xml("nvlink_domain", "cliqueId", "4026", "4027", variant="nvlink domain"),
    Sick(
        "nvlink_domain",
        "nvidia_smi",
        r"(<clusterUuid>)[0-9a-f-]+",
        r"\g<1>00000000-0000-0000-0000-000000000000",
        variant="nvlink domain",
    ),
    *(
        Sick("imex", "imex", old, new, verdict=verdict, variant="nvlink domain")
        for old, new, verdict in (
            ("ActiveState=active\nSubState=running", "ActiveState=failed\nSubState=failed", FAIL),
            ("LoadState=loaded", "LoadState=not-found", FAIL),
            (r"is: 570\.86\.15", "is: 550.90.07", FAIL),
            (r".*/channel0\n1 in all", "0 in all", FAIL),
            (r"(own <==\n)READY", r"\g<1>INITIALIZING", FAIL),
            (r"(own <==\n)READY", r"\g<1>WAITING_FOR_PEERS", INCOMPLETE),
            (r"( \* +- )READY    ", r"\g<1>INIT_GPU ", FAIL),
            (r"^(       4       )(?: C  ){18}", r"\g<1>" + "!M! " * 4 + " C  " + "!M! " * 13, FAIL),
            (r"^(       4        C  ) C ", r"\g<1> N ", FAIL),
            ("State: UP", "State: DEGRADED", INCOMPLETE),
        )
    ),
    _xml("gpu_row_remap", "remapped_row_pending", "No", "Yes"),
    _xml("gpu_row_remap", "remapped_row_failure", "No", "Yes"),
    _xml("gpu_row_remap", "remapped_row_unc", "0", "513"),
    _xml("gpu_ecc", "sram_threshold_exceeded", "No", "Yes"),
    _xml("gpu_ecc", "volatile/dram_uncorrectable", "0", "3"),
    _xml("gpu_ecc", "volatile/sram_uncorrectable_parity", "0", "1"),
    _xml("gpu_ecc", "volatile/sram_correctable", "0", "20000"),
    _xml("gpu_ecc", "volatile/dram_correctable", "0", "30000000"),
    _xml("gpu_ecc", "aggregate/sram_uncorrectable_secded", "0", "9"),
    _xml("gpu_retired_pages", "double_bit_retirement/retired_count", "0", "70", variant="retired pages"),
    # Drivers print the same under both names.
    Sick(
        "gpu_retired_pages",
        "nvidia_smi",
        r"(<pending_blacklist>)No([\s\S]*?<pending_retirement>)No",
        r"\1Yes\2Yes",
        variant="retired pages",
    ),
    _xml("gpu_recovery", "gpu_recovery_action", "None", "Reset"),
    _xml("gpu_recovery", "gpu_recovery_action", "None", "Reboot"),
    _xml("gpu_recovery", "gpu_recovery_action", "None", "Drain and Reset"),
    _unowed(_xml("gpu_recovery", "drain_and_reset_recommended", "[^<]+", "Yes")),
    _unowed(_xml("gpu_recovery", "reset_required", "[^<]+", "Yes")),
    Sick("gpu_recovery", "nvidia_smi", r"(<gpu_recovery_action>)None", r"\g<1>Perhaps", verdict=INCOMPLETE),
    _xml("gpu_throttle", "clocks_event_reason_hw_slowdown", "Not Active", "Active"),
    _xml("gpu_throttle", "clocks_event_reason_hw_thermal_slowdown", "Not Active", "Active"),
    _xml("gpu_throttle", "clocks_event_reason_hw_power_brake_slowdown", "Not Active", "Active"),
    _xml("gpu_throttle", "clocks_event_reason_sw_thermal_slowdown", "Not Active", "Active"),
    Sick("gpu_affinity", "topology", r"^(GPU0\t X \t)NV18(.*\nGPU1\t)NV18", r"\1SYS\2SYS"),
    Sick("gpu_affinity", "topology", r"\t1(?=\t\tN/A$)", "\t0"),
    Sick("gpu_affinity", "topology", r"^(GPU0.*?\t)PIX([\s\S]*?^NIC0\t)PIX", r"\1NODE\2NODE"),
    Sick(
        "gpu_processes",
        "nvidia_smi",
        r"<processes>",
        "<processes>\n\t\t\t<process_info>\n\t\t\t\t<pid>4711</pid>\n\t\t\t\t<type>C</type>\n"
        "\t\t\t\t<process_name>python3</process_name>\n\t\t\t\t<used_memory>9000 MiB</used_memory>\n"
        "\t\t\t</process_info>",
        log=True,
    ),
    _xml("gpu_processes", "fb_memory_usage/used", "1 MiB", "2048 MiB"),
    _file("gpu_present", "gpu_sysfs", r"0000:0c:00\.0/current_link_width", "8"),
    _file("gpu_present", "gpu_sysfs", r"0000:0c:00\.0/vendor", "0xffff"),
    Sick("gpu_present", "gpu_sysfs", "GPU Excluded:\t No", "GPU Excluded:\t Yes"),
    # --- GPU, active
    Sick("dcgm_diag", "dcgm_diag", r'("name" : "memory",\n[^}]+"status" : )"Pass"', r'\1"Fail"'),
    Sick("dcgm_diag", "dcgm_diag", r'("entity_id" : 5,\s+"status" : )"Pass"', r'\1"Fail"'),
    Sick("dcgm_diag", "dcgm_diag", r'("entity_id" : 5,\s+"status" : )"Pass"', r'\1"Skip"', verdict=INCOMPLETE),
    # Nobody was told of a line that is lost.
    Sick(
        "dcgm_diag",
        "dcgm_diag",
        r'(\{\s*"DCGM Diagnostic")',
        r'{"error": "GPU 3 was lost", "DCGM Diagnostic"',
        log=True,
        verdict=INCOMPLETE,
    ),
    Sick("gpu_bandwidth", "nvbandwidth", r'"55\.42"', '"24.1"'),
    Sick("gpu_bandwidth", "nvbandwidth", r'"55\.13"', '"24.1"'),
    Sick("gpu_bandwidth", "nvbandwidth", r'"396\.03"', '"120"'),
    Sick("gpu_stress", "gpu_stress", r'("memory": \{.*?"wrong_words": )0', r"\g<1>4096"),
    Sick("gpu_stress", "gpu_stress", r'("event": "end".*?"tiles_wrong": )0', r"\g<1>3"),
    Sick("gpu_stress", "gpu_stress", r'("event": "end".*?"tflops": )\d+\.\d+', r"\g<1>412.5"),
    Sick("gpu_stress", "gpu_stress", r'("event": "end".*?"checksums": \{")\w+', r"\g<1>0123456789abcdef"),
    Sick("gpu_stress", "gpu_stress", r'("event": "end".*?"copy_gb_per_s": )\d+\.\d+', r"\g<1>1200.5"),
    Sick("gpu_stress", "gpu_stress", r'("memory": \{"bytes": )\d+', r"\g<1>8053063680", verdict=INCOMPLETE),
    Sick("gpu_telemetry", "gpu_telemetry", r'"ecc_uncorrected": \[0, 0, 0\]', '"ecc_uncorrected": [0, 64, 64]'),
    Sick("gpu_telemetry", "gpu_telemetry", r'"ecc_corrected": \[0, 0, 0\]', '"ecc_corrected": [0, 6400, 6400]'),
    Sick("gpu_telemetry", "gpu_telemetry", r'("reasons_seconds": \{)', r'\1"hw_thermal_slowdown": 93.0, '),
    Sick("gpu_telemetry", "gpu_telemetry", r'("temperature_celsius": \{"max": )\d+', r"\g<1>96"),
    Sick("gpu_telemetry", "gpu_telemetry", r'("memory_temperature_celsius": \{"max": )\d+', r"\g<1>105"),
    Sick("gpu_telemetry", "gpu_telemetry", r'("pcie_width": \{.*?"min": )16', r"\g<1>8"),
    Sick("gpu_telemetry", "gpu_telemetry", r'("replays": \{"0000:04:00.0": \[0, )0', r"\g<1>9000"),
    Sick(
        "gpu_telemetry",
        "gpu_telemetry",
        r'("power_watts": \{"max": )\d+, "median": \d+, "min": \d+, "p95": \d+',
        r'\g<1>310, "median": 300, "min": 118, "p95": 301',
    ),
    Sick("gpu_telemetry", "gpu_telemetry", r'("sm_clock_mhz": \{.*?"median": )\d+', r"\g<1>900"),
    Sick("gpu_telemetry", "gpu_telemetry", r'("gap_seconds": )2\.353', r"\g<1>61.0", verdict=INCOMPLETE),
    # --- Kernel log
    _logged("xid", "NVRM: Xid (PCI:0000:85:00): 79, lost."),
    _logged("xid", "NVRM: Xid (PCI:0000:0b:00): 94, pid=1, name=python, Contained: SM (0x1)."),
    _rung("xid", "NVRM: Xid (PCI:0000:85:00): 48, pid='<unknown>', name=<unknown>, DBE at 0x1"),
    _logged("sxid", "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"),
    _rung("sxid", "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"),
    _logged("gpu_log", "NVRM: GPU 0000:0b:00.0: RmInitAdapter failed! (0x23:0x65:1426)"),
    _logged("xid", "NVRM: Xid (PCI:0000:0b:00): 45, pid=1, name=python, Ch 00000001 caused by previous Xid 149"),
    _logged("xid", "NVRM: Xid (PCI:0000:0b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x1 0x0)"),
    *(
        _logged("gpu_log", f"NVRM: {text}")
        for text in (
            "nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned",
            "GPU3 rpcRmApiAlloc_GSP: GspRmAlloc failed: hClient=0xc1d00001; status=0x00000062",
            "_issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 76!",
            "GPU3 _kgspRpcRecvPoll: GSP RM heartbeat timed out",
            "GPU3 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
            "kfspPollForResponse_IMPL: FSP command timed out",
            "knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask!",
            "nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover.",
            "GPU6 kgmmuCheckMemSubsysError_IMPL: Memory Subsystem Error detected. kbusSendSysmembarSingle failed.",
            "GPU0 _kgspRpcGspEventPmuHalted: Received signal from GSP that PMU has halted.",
            "Attempting to remove minor device 0 with non-zero usage count!",
        )
    ),
    _logged("gpu_log", "nvidia 0000:0b:00.0: probe with driver nvidia failed with error -1"),
    _rung("gpu_log", "NVRM: API mismatch: the client has the version 550.90.07, but"),
    _logged(
        "pcie_errors", "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer"
    ),
    _rung("pcie_errors", "pcieport 0000:00:01.0: DPC: containment event, status:0x1f01 source:0x0000"),
    _logged("machine_check", "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 7: be00000000800400"),
    _logged("machine_check", "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)"),
    _rung("machine_check", "Memory failure: 0x12345: recovery action for dirty page: Failed"),
    *(
        _logged("filesystem_log", text)
        for text in (
            "Aborting journal on device md0-8.",
            "EXT4-fs (md0): error count since last fsck: 12",
            "XFS (md127): log mount/recovery failed: error -117",
            "BTRFS info (device sdb): forced readonly",
            "sd 0:0:0:0: [sda] tag#12 Sense Key : Hardware Error [current]",
            "md/raid:md0: raid level 5 active with 7 out of 8 devices, algorithm 2",
        )
    ),
    _rung("kernel_crash", "BUG: kernel NULL pointer dereference, address: 0000000000000008"),
    _logged("kernel_crash", "divide error: 0000 [#1] SMP"),
    _logged("machine_check", "MCE: Killing python3:4711 due to hardware memory corruption fault at 7f0a"),
    _logged("machine_check", "[Hardware Error]: CPU:2 (19:11:1) MC17_STATUS[Over|UE|MiscV|-|PCC|-|UECC]: 0xfe2a"),
    _logged("pcie_errors", "nvidia 0000:0b:00.0: AER: aer_uncor_severity: 0x00462030"),
    _logged("pcie_errors", "pci 0000:0b:00.0: unknown header type 7f, ignoring device"),
    _logged("pcie_errors", "pciehp 0000:00:01.0:pcie24: slot(6): Link Down event"),
    _logged("gpu_log", "nvidia: disagrees about version of symbol module_layout"),
    _logged("nic_log", "mlx5_core 0000:1a:00.0: Port module event[error]: module 0, Cable error, High Temperature"),
    *(
        _logged("nic_log", text)
        for text in (
            "mlx5_core 0000:1a:00.0: print_health_info:425:(pid 9): Health issue observed, ICM fetch PCI error, "
            "severity(2) CRITICAL:",
            "mlx5_core 0000:1a:00.0: print_health_info:520:(pid 0): synd 0x8: unrecoverable hardware error",
            "mlx5_core 0000:1a:00.0: temp_warn:170:(pid 0): High temperature on sensors with bit set 0 1",
            "mlx5_core 0000:1a:00.0: probe_one:1465:(pid 7): mlx5_init_one failed with error code -22",
            "mlx5_core: probe of 0000:1a:00.0 failed with error -22",
            "mlx5_core.rdma: probe of mlx5_core.rdma.0 failed with error -12",
            "mlx5_core 0000:1a:00.0: wait_fw_init:199:(pid 7): Firmware over 120000 MS in pre-initializing state, "
            "aborting",
            "mlx5_core 0000:1a:00.0: mlx5_pci_init:901: Cannot enable PCI device, aborting",
        )
    ),
    _rung("nic_log", "NETDEV WATCHDOG: rdma0 (mlx5_core): transmit queue 3 timed out"),
    _logged("nic_log", "bond0: now running without any active interface!", INCOMPLETE),
    _logged("nic_log", "bnxt_en: probe of 0000:19:00.0 failed with error -12"),
    _logged("nic_log", "ixgbe 0000:03:00.0 eth1: Detected Tx Unit Hang"),
    _logged("nvme_log", "nvme nvme3: I/O 23 QID 4 timeout, aborting"),
    _logged("nvme_log", "nvme3n1: Read(0x2) @ LBA 8, 8 blocks, Internal Error (sct 0x0 / sc 0x6) DNR "),
    _logged("nvme_log", "nvme nvme9: Reconnecting in 10 seconds...", INCOMPLETE),
    _logged("nvme_log", "nvme nvme9: Removing controller..."),
    _logged("nvme_log", "nvme 0000:03:00.0: probe with driver nvme failed with error -5"),
    _rung("nvme_log", "critical medium error, dev nvme3n1, sector 4711 op 0x0:(READ) flags 0x0"),
    _logged("nvme_log", "operation not supported error, dev nvme3n1, sector 0 op 0x0:(READ) flags 0x0"),
    _logged("filesystem_log", "sd 0:0:0:0: Device offlined - not ready after error recovery"),
    _logged("filesystem_log", "mpt3sas_cm0: fault_state(0x5862)!"),
    _logged("mount_log", "libceph: mon2 (1)10.0.0.247:6789 session lost, hunting for new mon", INCOMPLETE),
    _logged("filesystem_log", "timeout error, dev sdb, sector 4711 op 0x0:(READ) flags 0x0"),
    _logged("mount_log", "nfs: server nfs-1 not responding, still trying", INCOMPLETE),
    _logged(
        "mount_log",
        "LNet: 3:0:(o2iblnd_cb.c:3174:kiblnd_check_conns()) Timed out tx for 10.0.0.9@o2ib: 403 seconds",
        INCOMPLETE,
    ),
    _logged("mount_log", "LustreError: 99:0:(osc_cache.c:1141:osc_extent_make_ready()) LBUG"),
    _logged("oom_log", "Out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB"),
    _logged("filesystem_log", "EXT4-fs error (device md0): ext4_find_entry:1455: inode #2: comm ls: reading directory"),
    _rung("filesystem_log", "XFS (md1): Metadata corruption detected at xfs_agf_read_verify, xfs_agf block 0x1"),
    _logged("kernel_crash", "watchdog: BUG: soft lockup - CPU#17 stuck for 26s! [python3:4711]"),
    _rung("kernel_crash", "INFO: task kworker/3:1:4711 blocked for more than 120 seconds."),
    _logged(
        "program_crash", "python3[4711]: segfault at 0 ip 00007f rsp 00007f error 4 in libnccl.so.2.25.1[7f00+1000]"
    ),
    # --- Host
    Sick("cpu", "lscpu", r'("Socket\(s\):",\s+"data": )"2"', r'\1"1"'),
    Sick("cpu", "lscpu", r'("Core\(s\) per socket:",\s+"data": )"48"', r'\1"44"'),
    Sick(
        "cpu",
        "lscpu",
        r'("On-line CPU\(s\) list:",\s+"data": )"0-191"',
        r'\1"0-190"\n      },{\n         "field": "Off-line CPU(s) list:",\n         "data": "191"',
        log=True,
    ),
    _file("cpu_governor", "cpufreq", "cpu17/cpufreq/scaling_governor", "powersave"),
    Sick("microcode", "cpuinfo", r"^(processor\t: 17\n(?:.+\n)*?microcode\t: )0x2b000603", r"\g<1>0x2b000461"),
    Sick(
        "microcode", "cpuinfo", r"^(processor\t: 90\n(?:.+\n)*?model name\t: ).*", r"\g<1>Intel(R) Xeon(R) Gold 6442Y"
    ),
    Sick("memory", "meminfo", r"MemTotal: +\d+", "MemTotal:       1981808640"),
    Sick("dimms", "dmidecode_memory", r"Size: 64 GB", "Size: 32 GB"),
    Sick("dimms", "dmidecode_memory", r"Size: 64 GB", "Size: No Module Installed"),
    Sick("dimms", "dmidecode_memory", r"Configured Memory Speed: 4400 MT/s", "Configured Memory Speed: 4000 MT/s"),
    Sick("dimms", "dmidecode_memory", r"Size: 64 GB", "Size: 32 GB", variant="slots"),
    Sick("dimms", "dmidecode_memory", r"Size: 64 GB", "Size: No Module Installed", variant="slots"),
    _file("memory_errors", "edac", "mc1/dimm2/dimm_ce_count", "999"),
    _file("memory_errors", "edac", "mc1/dimm2/dimm_ue_count", "1"),
    _file("memory_errors", "edac", "mc3/ue_count", "2"),
    _gone("numa", "numa", "/sys/devices/system/node/node1/", 2),
    _file("numa", "numa", "node1/cpulist", "48-95"),
    Sick("numa", "numa", r"(Node 1 MemTotal: +)1056964608", r"\g<1>990904320"),
    Sick("swap", "meminfo", r"SwapTotal:             0 kB", "SwapTotal:       8388604 kB"),
    _file("hugepages", "hugepages", "hugepages-2048kB/nr_hugepages", "512"),
    Sick("kernel_command_line", "cmdline", r"iommu=pt", "iommu=strict"),
    Sick("kernel_command_line", "cmdline", r"quiet", "quiet pci=noaer", log=True),
    Sick(
        "pcie_links", "lspci", r"(^0000:0b:00\.0 3D[\s\S]*?LnkSta:\tSpeed )32GT/s \(ok\)", r"\g<1>16GT/s (downgraded)"
    ),
    Sick("pcie_links", "lspci", r"(^0000:0b:00\.0 3D.*)\(rev a1\)", r"\1(rev ff) (prog-if ff)", log=True),
    Sick("pcie_links", "lspci", r"(^0000:0b:00\.0 3D.*\n)(?:\s.*\n)+?\n", "\\1\t!!! Unknown header type 7f\n\n"),
    # A device that logs no errors (access denied) is as healthy: nobody was told of one whose line is lost.
    Sick("pcie_links", "lspci", r"(^0000:0b:00\.0 3D[\s\S]*?DevSta:.* FatalErr)-", r"\1+", log=True),
    Sick("pcie_links", "lspci", r"(^0000:1a:00\.0 Eth[\s\S]*?DevSta:.* FatalErr)-", r"\1+", log=True),
    Sick("pcie_links", "lspci", r"(^0000:1a:00\.0 Eth[\s\S]*?LnkSta:.*?Width )x16 \(ok\)", r"\g<1>x8 (downgraded)"),
    # A bridge need not have the capability: where all of it is lost, nobody was told.
    Sick("acs", "lspci", r"ACSCtl:\tSrcValid-", "ACSCtl:\tSrcValid+", log=True),
    Sick("clock", "chrony", r"0\.000030000", "0.412000000"),
    Sick("clock", "chrony", r",Normal", ",Not synchronised"),
    Sick("clocksource", "clocksource", "tsc", "hpet"),
    # Without its line a file system is no mount of its own, as on a host that has one for all.
    Sick("disk", "disk_free", r"475805671424( +)1%", r"1073741824\g<1>99%", log=True),
    _file("nvme", "nvme_sysfs", "nvme2/state", "dead"),
    _file("nvme", "nvme_sysfs", "nvme2/device/current_link_width", "2"),
    _file("nvme", "nvme_sysfs", "nvme2/device/current_link_speed", "8.0 GT/s PCIe"),
    _file("nvme", "nvme_sysfs", "nvme2/firmware_rev", "GDC7102Q", "slots"),
    _gone("nvme", "nvme_sysfs", "/sys/class/nvme/nvme7/", 63),
    Sick("nvme_smart", "smartctl", r'"passed": true', '"passed": false'),
    Sick("nvme_smart", "smartctl", r'"critical_warning": 0', '"critical_warning": 4'),
    Sick("nvme_smart", "smartctl", r'"media_errors": 0', '"media_errors": 12'),
    Sick("nvme_smart", "smartctl", r'"available_spare": 100', '"available_spare": 5'),
    Sick("nvme_smart", "smartctl", r'"percentage_used": 0', '"percentage_used": 93'),
    Sick("nvme_smart", "smartctl", r'"temperature": 38', '"temperature": 88'),
    Sick("nvme_smart", "smartctl", r'"critical_comp_time": 0', '"critical_comp_time": 7'),
    Sick("nvme_speed", "nvme_read", r'("iops" : )\d+\.\d+', r"\g<1>400000.0"),
    Sick(
        "cpu_stress",
        "cpu_stress",
        r"==> stress-ng <==([\s\S]*?)successful run",
        r"==> stress-ng <== (exit status 2: )\1unsuccessful run",
    ),
    Sick(
        "cpu_stress",
        "cpu_stress",
        r"==> stress-ng <==((?:.*\n){3})([\s\S]*?)successful run",
        r"==> stress-ng <== (exit status 2: )\1stress-ng: fail:  [2102] vm: detected 2 bit errors\n\2unsuccessful run",
    ),
    Sick(
        "cpu_stress",
        "cpu_stress",
        r"^(stress-ng: metrc: \[2101\] vm +)918273645",
        r"\g<1>        0",
        verdict=INCOMPLETE,
    ),
    Sick(
        "memory_bandwidth",
        "memory_bandwidth",
        r"(==> numa 1 <==[\s\S]*?memory rate: )11900\.00",
        r"\g<1>2000.00",
    ),
    # --- BMC and firmware
    Sick("firmware", "dmidecode", r"Version: 1\.4", "Version: 1.2"),
    Sick("firmware", "ipmi_mc", r"Firmware Revision         : 1\.01", "Firmware Revision         : 1.00"),
    Sick("firmware", "redfish", r'"FirmwareVersion": "1.01"', '"FirmwareVersion": "1.00"', variant="redfish"),
    Sick(
        "bmc_log",
        "ipmi_sel",
        r"(Entries          : )1([\s\S]*)\Z",
        r"\g<1>2\g<2>   2 | 11/20/2026 | 08:00:00 UTC | Memory #0x53 | Uncorrectable ECC | Asserted\n",
    ),
    *(
        Sick(
            "bmc_log",
            "ipmi_sel",
            r"(Entries          : )1([\s\S]*)\Z",
            rf"\g<1>2\g<2>   2 | 11/20/2026 | 08:00:00 UTC | {said} | Asserted\n",
            log=True,
        )
        for said in (
            "Power Supply PS2 Status | Power Supply AC lost",
            "Power Supply PS2 Status | Power Supply Fan Fail",
            "Power Supply PS Redundancy | Non-Redundant: Sufficient from Redundant",
            "Battery VBAT | Failed",
            "Slot / Connector #0x21 | Fault Status",
            "Processor CPU1 | Disabled",
            "Critical Interrupt #0x12 | Bus Timeout",
        )
    ),
    # A list alone is understood too (as people save it), and tells of no overflow.
    Sick("bmc_log", "ipmi_sel", "Overflow         : false", "Overflow         : true", verdict=INCOMPLETE, log=True),
    Sick(
        "bmc_log",
        "redfish",
        r'"Severity": "OK",\s+"Message": "Log area.*"',
        '"Severity": "Critical",\n   "Message": "CPU 1 IERR"',
        variant="redfish",
    ),
    Sick(
        "bmc_sensors",
        "ipmi_sdr",
        r"(?<=CPU1 Temp        \| 0Eh \| )ok  (\|  3\.1 \|) 44 degrees C",
        r"cr  \1 99 degrees C",
    ),
    Sick("bmc_sensors", "ipmi_sdr", r"(?<=FAN3             \| 43h \| )ok  (\| 29\.3 \|) 5040 RPM", r"nr  \1 0 RPM"),
    Sick(
        "bmc_sensors",
        "redfish",
        r'("ReadingCelsius": )44([^}]*?"Health": )"OK"',
        r'\g<1>97\2"Critical"',
        variant="redfish",
    ),
    # No class requires it: a sensor that does not tell its health is a remark.
    Sick(
        "bmc_sensors",
        "redfish",
        r'("Name": "FAN3"[^}]*?"Health": )"OK"',
        r'\1"Critical"',
        log=True,
        variant="redfish",
    ),
    Sick(
        "power_supplies",
        "ipmi_sdr",
        r"(?<=PS3 Status       \| 73h \| ok  \| 10\.3 \| ).*",
        "Presence detected, Failure detected",
    ),
    Sick("power_supplies", "ipmi_sdr", r"^PS6 Status.*\n", ""),
    Sick("power_supplies", "redfish", r'("Name": "PSU3"[^}]*?"Health": )"OK"', r'\1"Critical"', variant="redfish"),
    # What a supply says beside its health, which it need not.
    Sick(
        "power_supplies",
        "redfish",
        r'("Name": "PSU3",)',
        r'\1\n   "LineInputStatus": "LossOfInput",',
        log=True,
        variant="redfish",
    ),
    Sick("inlet_temperature", "ipmi_sdr", r"(?<=7\.1 \| )23 degrees C", "41 degrees C"),
    Sick("inlet_temperature", "redfish", r'("ReadingCelsius": )23', r"\g<1>41", variant="redfish"),
    Sick("airflow", "ipmi_sdr", r"(?<=7\.1 \| )39 degrees C", "61 degrees C"),
    Sick("airflow", "ipmi_sdr", r"(?<=FAN3             \| 43h \| ok  \| 29\.3 \| )5040 RPM", "0 RPM"),
    Sick("airflow", "ipmi_sdr", r"(?<=7\.1 \| )39 degrees C", "12 degrees C", verdict=INCOMPLETE),
    Sick("airflow", "redfish", r'("ReadingCelsius": )39', r"\g<1>61", variant="redfish"),
    Sick("airflow", "redfish", r'("Name": "FAN3",\s+"Reading": )5040', r"\g<1>0", variant="redfish"),
    # --- NIC
    _file("nic_inventory", "infiniband", "mlx5_2/hca_type", "MT4125"),
    Sick("nic_inventory", "rail_names", r"0000:4d:00\.0(/infiniband/mlx5_2)", r"0000:4e:00.0\g<1>"),
    # The line that was added is the fault: without it the host is as it was.
    Sick("nic_inventory", "rail_names", r"(.*/infiniband/)mlx5_2$", r"\g<0>\n\g<1>mlx5_9", log=True),
    Sick("nic_inventory", "nvswitch_nics", r"4d:00\.0 none", "4d:00.0 SW_MNG", variant="subnet manager"),
    Sick(
        "nic_inventory", "nvswitch_nics", "4d:00.0 none", "4d:00.0 unread", verdict=INCOMPLETE, variant="subnet manager"
    ),
    _file("nic_link", "infiniband", "mlx5_2/ports/1/state", "1: DOWN"),
    _file("nic_link", "infiniband", "mlx5_2/ports/1/phys_state", "3: Disabled"),
    _file("nic_link", "infiniband", "mlx5_2/ports/1/rate", r"200 Gb/sec (4X HDR)"),
    _file("nic_link", "infiniband_ports", "mlx5_2/ports/1/rate", r"200 Gb/sec (4X HDR)"),
    _file("nic_link", "infiniband_ports", "mlx5_2/ports/1/state", "2: INIT"),
    _file("nic_link", "infiniband", "mlx5_2/ports/1/link_layer", "InfiniBand"),
    _file("nic_interface", "net_devices", "rdma2/operstate", "down"),
    _file("nic_interface", "net_devices", "rdma2/speed", "200000"),
    _file("nic_interface", "net_devices", "rdma2/mtu", "1500"),
    Sick("nic_interface", "rail_names", r"^.*/net/rdma2\n", ""),
    Sick("nic_link", "rail_names", r"^.*/infiniband/mlx5_2\n", "", verdict=INCOMPLETE),
    _file("nic_pcie", "infiniband", "mlx5_2/device/current_link_width", "8"),
    _file("nic_pcie", "infiniband", "mlx5_2/device/current_link_speed", "16.0 GT/s PCIe"),
    _file("nic_firmware", "infiniband", "mlx5_2/fw_ver", "28.39.1002"),
    Sick("nic_firmware_settings", "nic_config", r"(MAX_ACC_OUT_READ +0 +)128( +)128", r"\g<1>44\g<2>44"),
    Sick("nic_firmware_settings", "nic_config", r"(MAX_ACC_OUT_READ +0 +)128( +128)", r"\g<1>44\g<2>"),
    Sick("nic_firmware_settings", "nic_config", r"(LINK_TYPE_P1 +\S+ +)\S+( +)\S+", r"\g<1>IB(1)\g<2>IB(1)"),
    Sick("nic_pcie_settings", "lspci", r"(?s)(4d:00\.0 Ethernet.*?MaxReadReq )4096", r"\g<1>512"),
    Sick("nic_pcie_settings", "lspci", r"(?s)(4d:00\.0 Ethernet.*?RlxdOrd)\+", r"\g<1>-"),
    Sick("nic_physical", "mlxlink", r'"Effective Physical BER" : "15E-255"', '"Effective Physical BER" : "3E-9"'),
    Sick("nic_physical", "mlxlink", r'"Raw Physical BER" : "5E-10"', '"Raw Physical BER" : "4E-4"'),
    Sick("nic_physical", "mlxlink", r'"State" : "Active"', '"State" : "Polling"'),
    Sick("nic_physical", "mlxlink", r'"Speed" : "400G"', '"Speed" : "200G"'),
    Sick("nic_physical", "mlxlink", r'"Ready state"', '"LowPwr state"', log=True, verdict=INCOMPLETE),
    Sick("nic_physical", "mlxlink", r'"DPActivated"', '"DPInit"', log=True),
    Sick("nic_physical", "mlxlink", r'"Temperature \[C\]" : "58', '"Temperature [C]" : "79'),
    Sick("nic_physical", "mlxlink", r'("\[15\]",\s+)"0"', r'\1"77"'),
    # Flags and limits of the module itself, which not every module or version tells.
    *(
        Sick("nic_physical", "mlxlink", rf'"{field}" : "0"', f'"{field}" : "1"', log=True)
        for field in ("Module FW Fault", "DataPath FW Fault")
    ),
    *(
        Sick("nic_physical", "mlxlink", rf'("{field} \[per lane\]" : \{{\s+"values" : \[\s+)"0"', r'\g<1>"1"', log=True)
        for field in ("Tx Fault", "Tx LOS", "Rx LOS", "Tx CDR LOL", "Rx CDR LOL", "Tx Adaptive EQ Fault")
    ),
    Sick("nic_physical", "mlxlink", r'"Voltage \[mV\]" : "3235', '"Voltage [mV]" : "2235', log=True),
    Sick("nic_physical", "mlxlink", r'"Bias Current \[mA\]" : "265', '"Bias Current [mA]" : "12', log=True),
    Sick("nic_physical", "mlxlink", r'"Temperature \[C\]" : "58', '"Temperature [C]" : "-12', verdict=INCOMPLETE),
    Sick(
        "nic_physical",
        "mlxlink",
        r'"Loopback Mode" : "No Loopback"',
        '"Loopback Mode" : "PHY Local Loopback"',
        log=True,
    ),
    Sick("nic_physical", "mlxlink", r'"FEC" : "[^"]*"', '"FEC" : "No FEC"', log=True),
    Sick(
        "nic_physical",
        "mlxlink",
        r'(Raw Physical BER Per Lane" : \{\s+"values" : \[\s+)"[^"]*"',
        r'\g<1>"1E-3"',
        log=True,
    ),
    Sick(
        "nic_physical",
        "mlxlink",
        r'"Effective Physical Errors" : "0"',
        '"Effective Physical Errors" : "5000"',
        verdict=INCOMPLETE,
        log=True,
    ),
    # Not every version has it: nic_errors owes the same counter from sysfs.
    Sick("nic_physical", "mlxlink", r'"Link Down Counter" : "0"', '"Link Down Counter" : "44"', log=True),
    _file("nic_errors", "infiniband", "mlx5_2/ports/1/counters/symbol_error", "500"),
    _file("nic_errors", "infiniband", "mlx5_2/ports/1/counters/link_downed", "40"),
    _file("nic_errors", "infiniband", "mlx5_2/ports/1/counters/port_rcv_errors", "9000"),
    _file("nic_counter_growth", "nic_counters", "==> after .*mlx5_2/ports/1/counters/symbol_error", "500"),
    _file("nic_counter_growth", "nic_counters", "==> after .*mlx5_2/ports/1/counters/link_downed", "1"),
    Sick(
        "nic_load",
        "nic_load",
        r'("rail2": \{.*?"numa 0": \{"count": 7, )[^}]*',
        r'\g<1>"max": 182.4, "median": 180.4, "min": 177.9',
    ),
    Sick(
        "nic_load",
        "nic_load",
        r'("rail2": \{.*?"gpu": \{"count": 7, )[^}]*',
        r'\g<1>"max": 281.5, "median": 280.5, "min": 277.1',
    ),
    Sick("nic_load", "nic_load", r'("rail3": .*?"errors": )\{\}', r'\1{"gpu": ["Completion with error at client"]}'),
    Sick("nic_load", "nic_load", r'(?<="missing": )""', '"rail 0 has no RDMA device"', verdict=INCOMPLETE),
    Sick("nic_load", "nic_load", r"(?<=\"numa\": )\[0, 1\]", "[0]", verdict=INCOMPLETE),
    # --- RoCE ports
    _qos(r"DCBX mode: OS", "DCBX mode: Firmware"),
    _qos(r"Priority trust state: dscp", "Priority trust state: pcp"),
    _qos(r"(\tprio:3 dscp:.*)26,", r"\g<1>"),
    _qos(r"(enabled {5}0   0   0   )1", r"\g<1>0"),
    _file("roce_settings", "roce_port", "class/net/rdma2/mtu", "4200"),
    _file("roce_settings", "roce_port", "rdma2/ecn/roce_rp/enable/3", "1"),
    _file("roce_settings", "roce_port", "conf/rdma2/arp_announce", "0"),
    _file("roce_settings", "roce_port", "cma_roce_tos -d mlx5_2", "0"),
    Sick("roce_settings", "roce_port", r"(?s)(ethtool -g rdma2 <==.*?Current.*?RX:\t\t)8192", r"\g<1>1024"),
    # A class that is unset is an empty file: nobody was told of one whose line is lost.
    Sick(
        "roce_settings",
        "roce_port",
        r"(mlx5_2/tc/1/traffic_class <==\n)",
        r"\g<1>Global tclass=106\n",
        log=True,
    ),
    *(
        _file("roce_gid", probe, f"mlx5_2/ports/1/{path}", new)
        for probe in ("roce_port", "roce_gids")
        for path, new in (
            ("gid_attrs/types/3", "IB/RoCE v1"),
            ("gid_attrs/ndevs/3", "bond0"),
            ("gids/3", "fe80:0000:0000:0000:0e42:a1ff:fe00:0002"),
        )
    ),
    # --- Counters and logs beside them
    Sick(
        "pcie_aer",
        "pcie_aer",
        r"(0000:05:00\.0/aer_dev_fatal <==\n(?:.+\n)*?)DLP 0\n((?:.+\n)*?TOTAL_ERR_FATAL) 0",
        r"\1DLP 2\n\2 2",
    ),
    Sick(
        "pcie_aer",
        "pcie_aer",
        r"(0000:05:00\.0/aer_dev_correctable <==\n)RxErr 0\n((?:.+\n)*?TOTAL_ERR_COR) 0",
        r"\1RxErr 90000\n\2 90000",
    ),
    Sick("memory_latency", "memory_latency", r"randlist {16}62 ", "randlist                31 "),
    Sick(
        "fabric_manager_log",
        "fabric_manager_log",
        r"\Z",
        "[Nov 20 2026 08:00:00] [ERROR] [tid 841] detected NVSwitch fatal error 20034\n",
        log=True,
    ),
    Sick(
        "fabric_manager_log",
        "fabric_manager_log",
        r"\Z",
        "Nov 20 08:00:00 h nvidia-fabricmanager-start.sh[9]: request to query NVSwitch device information from "
        "NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n",
        log=True,
    ),
    Sick(
        "fabric_manager_log",
        "fabric_manager_log",
        r"\Z",
        "[Nov 20 2026 08:00:00] [WARNING] [tid 841] GPU physical id 4 is working in degraded mode\n",
        log=True,
    ),
    # --- NCCL
    Sick("nccl_version", "nccl", r"2\.25\.1", "2.21.5", log=True, variant="marked"),
    # --- pytorch
    Sick("pytorch", "pytorch", r'"torch": "[^"]*"', '"torch": null', verdict=INCOMPLETE),
    Sick("pytorch", "pytorch", r'"numpy": "[^"]*"', '"numpy": null', verdict=INCOMPLETE),
    Sick("pytorch", "pytorch", r"(?s)\{.*\}", '{"absent": "No such file or directory"}', verdict=INCOMPLETE),
    Sick("pytorch", "pytorch", r'"cuda": "[^"]*"', '"cuda": null'),
    Sick("pytorch", "pytorch", r'"cuda": "12\.8"', '"cuda": "13.0"'),
    Sick("pytorch", "pytorch", r'"2\.8\.0', '"2.8.1', variant="pinned"),
    # --- perftest
    Sick("perftest", "perftest", r"      --use_cuda_dmabuf.*\n", ""),
    Sick("perftest", "perftest", r"(      --use_cuda.*\n)+", ""),
    # --- RDMA modules
    Sick("rdma_modules", "rdma_modules", r"version: +25.07-0.9.7", "version:         25.10-1.2.8"),
    Sick("rdma_modules", "rdma_modules", r"(mlx5_core/srcversion <==\n)\w+", r"\g<1>0123456789ABCDEF0123456"),
    # --- Health
    Sick("nvml", "nvml", r'"remap_failure": 0', '"remap_failure": 1'),
    Sick("nvml", "nvml", r'"ecc_uncorrected": 0', '"ecc_uncorrected": 2'),
    Sick("boot_preflight", "preflights", r"11111111-2222", "99999999-2222", verdict=INCOMPLETE),
    Sick("boot_preflight", "preflights", r'"finished": [\d.]+', '"finished": null', verdict=INCOMPLETE),
    Sick("boot_preflight", "boot_id", r"11111111", "99999999", verdict=INCOMPLETE),
    _file("counter_growth", "error_counters", "mlx5_2/ports/1/counters/link_downed", "9"),
    _file("counter_growth", "error_counters", "mc1/ce_count", "99"),
    _file("counter_growth", "error_counters", "mc1/ue_count", "1"),
    Sick("log_continuity", "heartbeat", r'("log_seconds": )14\.6', r"\g<1>3.2", verdict=INCOMPLETE, variant="ring"),
    Sick("log_continuity", "heartbeat", r'("log_lost": )false', r"\g<1>true", verdict=INCOMPLETE, variant="ring"),
    Sick(
        "log_continuity",
        "kernel_ring",
        r"\A(?:\[ .*\n)+\[   14\.6\d+\]",
        "[   90.000000]",
        verdict=INCOMPLETE,
        variant="ring",
    ),
)
