"""What nvidia-smi printed on real machines, and what the static GPU checks must say of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

from .row import Row

# Every check that judges the state of a GPU by itself, whatever runs on it.
STATE = (
    "gpu_inventory",
    "gpu_versions",
    "gpu_power",
    "gpu_settings",
    "gpu_pcie",
    "gpu_fabric",
    "gpu_row_remap",
    "gpu_ecc",
    "gpu_recovery",
)
# An idle machine: nothing throttles, nothing runs.
IDLE = (*STATE, "gpu_throttle", "gpu_processes")
MEMORY = ("gpu_row_remap", "gpu_ecc", "gpu_throttle")

AICR = ("04", "05", "0b", "0c", "84", "85", "8b", "8c")
GPUD = ("53", "64", "75", "86", "97", "a8", "b9", "ca")
H200 = {"model": "NVIDIA H200", "memory_mib": 143771}
# The GPU of Ampere tells no SRAM threshold.
AMPERE_ECC = {"sram_threshold": False}


def gpus(addresses: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return the part of a class that says which GPUs there are."""
    parts = [{"slot": f"GPU{index}", "address": address} for index, address in enumerate(addresses)]
    return {"gpu": {"count": len(parts), "parts": parts, **more}}


def hosted(buses: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return the same for GPUs on these buses of domain 0."""
    return gpus([f"0000:{bus}:00.0" for bus in buses], **more)


def section(name: str) -> Callable[[bytes], Output]:
    """Return what cuts one section out of a capture of several commands."""

    def run(data: bytes) -> Output:
        ruler = "#" * 80 + "\n"
        parts = data.decode().split(ruler)
        at = next(number for number, part in enumerate(parts) if part.startswith(f"# {name}\n"))
        return Output(parts[at + 1].strip("\n") + "\n")

    return run


def excerpt(data: bytes) -> Output:
    """Return the report of the one GPU that was left in; its heading still counts those that were cut out."""
    lines = data.decode().splitlines(keepends=True)
    return Output("".join(f"{line.split(':')[0]}: 1\n" if line.startswith("Attached") else line for line in lines))


def block(data: bytes) -> Output:
    """Return the report of which a block was quoted without its headings."""
    return Output("Attached GPUs : 1\nGPU 00000000:04:00.0\n" + data.decode())


def one_of_four(data: bytes) -> Output:
    """Return the XML of the one GPU that was left in of four."""
    return Output(data.decode().replace("<attached_gpus>4<", "<attached_gpus>1<"))


def _capture(file: str, address: str, **card: Any) -> list[Row]:
    single = gpus([address], **card)
    nic_less = {**single, "affinity": {"numa_nodes": 1, "nic_connection": None}}
    idle, load = section("idle :: query (-q)"), section("load :: query (-q)")
    return [
        Row(file, "nvidia_smi", ("gpu_inventory",), "fail", why="one GPU, the class has eight", run=idle),
        Row(file, "nvidia_smi", IDLE, "pass", single, "declared as the one-GPU machine that it is", idle),
        Row(file, "nvidia_smi", (*STATE, "gpu_throttle"), "pass", single, "under load", load),
        Row(file, "nvidia_smi", ("gpu_processes",), "fail", single, "the synthetic load is on the GPU", load),
        Row(file, "nvlink", ("gpu_nvlink",), "pass", single, run=section("capabilities :: nvlink -s")),
        Row(file, "topology", ("gpu_affinity",), "pass", nic_less, run=section("capabilities :: topo -m")),
    ]


NO_NIC = {"affinity": {"nic_connection": None}}
PAGES = gpus([f"000{domain}:00:00.0" for domain in range(1, 9)], retired_pages=59, row_remap=None)
ONE = hosted(("09",))

ROWS = [
    *_capture("nvidia-smi/capture-h100-1gpu-590.48.01.txt", "0000:00:09.0"),
    *_capture("nvidia-smi/capture-h200-1gpu-590.48.01.txt", "0000:83:00.0", **H200),
    Row(
        "nvidia-smi/qx-h100x8-570.86.15.xml",
        "nvidia_smi",
        IDLE,
        "pass",
        hosted(AICR, persistence=False, pcie_generation=4),
        "declared with Gen4 slots and without persistence, as it is",
    ),
    Row(
        "nvidia-smi/qx-h100x8-570.86.15.xml",
        "nvidia_smi",
        ("gpu_pcie",),
        "fail",
        hosted(AICR),
        "where the class has Gen5, slots that can do Gen4 at most are a fault",
    ),
    Row("nvidia-smi/q-h100-idle-590.48.01.txt", "nvidia_smi", IDLE, "pass", gpus(["0000:00:09.0"])),
    Row(
        "nvidia-smi/q-h100-load-590.48.01.txt",
        "nvidia_smi",
        (*STATE, "gpu_throttle"),
        "pass",
        gpus(["0000:00:09.0"]),
        "under load",
    ),
    Row(
        "nvidia-smi/q-h100x8-one-gpu-sw-thermal-535.183.01.txt",
        "nvidia_smi",
        ("gpu_throttle",),
        "fail",
        hosted(GPUD),
        "power brake and software thermal slowdown on one GPU",
    ),
    Row(
        "nvidia-smi/q-h100x8-one-gpu-sw-thermal-535.183.01.txt",
        "nvidia_smi",
        STATE,
        "pass",
        hosted(GPUD),
        "all but the throttling is as it should be",
    ),
    Row(
        "nvidia-smi/q-a100-row-remap-pending-xid63-excerpt.txt",
        "nvidia_smi",
        ("gpu_row_remap",),
        "fail",
        gpus(["0000:10:1c.0"]),
        "remap pending: reset, test again",
        excerpt,
    ),
    Row(
        "nvidia-smi/q-a100-row-remap-pending-xid63-excerpt.txt",
        "nvidia_smi",
        ("gpu_row_remap",),
        "fail",
        gpus(["0000:10:1c.0"]),
        "as it is, the report describes one GPU of the eight that it counts: what it says of this one stands",
    ),
    Row(
        "nvidia-smi/q-ecc-sram-uncorrectable-excerpt.txt",
        "nvidia_smi",
        ("gpu_ecc",),
        "fail",
        hosted(("04",), ecc=AMPERE_ECC),
        "more than four uncorrectable SRAM errors in the GPU's life",
        block,
    ),
    Row(
        "nvidia-smi/q-page-retirement-8gpu-bad.txt",
        "nvidia_smi",
        ("gpu_retired_pages",),
        "fail",
        PAGES,
        "retirement pending on four GPUs, more than 60 pages retired on four",
    ),
    Row("nvidia-smi/q-page-retirement-8gpu-orig.txt", "nvidia_smi", ("gpu_retired_pages",), "pass", PAGES),
    Row(
        "nvidia-smi/qx-a100-sxm4-v12.xml",
        "nvidia_smi",
        ("gpu_inventory", "gpu_power", "gpu_pcie", "gpu_ecc", "gpu_throttle", "gpu_recovery"),
        "pass",
        hosted(
            ("01",),
            model="NVIDIA A100-SXM4-80GB",
            memory_mib=81920,
            power_limit_watts=500,
            pcie_generation=4,
            ecc=AMPERE_ECC,
        ),
        "clean; MIG is on, so that remapped rows are not told",
        one_of_four,
    ),
    Row(
        "nvidia-smi/qx-a10g.xml",
        "nvidia_smi",
        ("gpu_inventory", "gpu_pcie", *MEMORY),
        "pass",
        gpus(
            ["0000:00:1e.0"],
            model="NVIDIA A10G",
            memory_mib=23028,
            pcie_generation=4,
            pcie_width=8,
            ecc=AMPERE_ECC,
        ),
        "x8 is what this cloud gives, Gen1 is idleness",
    ),
    Row(
        "nvidia-smi/nvlink-status-a100x8.txt",
        "nvlink",
        ("gpu_nvlink",),
        "pass",
        {"nvlink": {"links": 12, "link_gb_per_s": 25}},
    ),
    Row("nvidia-smi/nvlink-status-h100.txt", "nvlink", ("gpu_nvlink",), "pass", ONE),
    Row(
        "nvidia-smi/nvlink-status-h100-mig.txt",
        "nvlink",
        ("gpu_nvlink",),
        "incomplete",
        ONE,
        "NVLinks are not told in MIG mode",
    ),
    Row(
        "nvidia-smi/topo-a100x8-nv12-reformatted.txt",
        "topology",
        ("gpu_affinity",),
        "pass",
        {**NO_NIC, "nvlink": {"links": 12}},
    ),
    Row(
        "nvidia-smi/topo-h100-1gpu-ansi-escapes.txt",
        "topology",
        ("gpu_affinity",),
        "pass",
        {**ONE, "affinity": {"numa_nodes": 1, "nic_connection": None}},
    ),
    Row("nvidia-smi/topo-h100x8-nv18-no-nics.txt", "topology", ("gpu_affinity",), "pass", NO_NIC),
    Row(
        "nvidia-smi/topo-h100x8-nv18-no-nics.txt",
        "topology",
        ("gpu_affinity",),
        "fail",
        why="no NIC seen, where the class has one beside each GPU",
    ),
    Row("nvidia-smi/topo-h100x8-nv18-smt.txt", "topology", ("gpu_affinity",), "pass", NO_NIC),
    Row("nvidia-smi/topo-h20x8-11nics-bond.txt", "topology", ("gpu_affinity",), "pass"),
    Row(
        "nvidia-smi/topo-nv18x8-12nics-tabs-numa-off.txt",
        "topology",
        ("gpu_affinity",),
        "fail",
        why="numa=off: one NUMA node for both sockets",
    ),
]

# A workstation's GPU without ECC, HBM and NVLink, with a program on it.
PRO_6000 = gpus(
    ["0000:61:00.0"],
    model="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    memory_mib=97887,
    power_limit_watts=300,
    pcie_generation=4,
    ecc=None,
    row_remap=None,
)

ROWS += [
    Row(
        "nvidia-smi/qx-pro-6000-maxq-blackwell-v13.xml",
        "nvidia_smi",
        (*(check for check in STATE if check not in ("gpu_fabric", "gpu_row_remap", "gpu_settings")), "gpu_throttle"),
        "pass",
        {**PRO_6000, "telemetry": {"memory_temperature_celsius": None}},
        "declared without ECC, as it is; Gen1 is idleness",
    ),
    Row(
        "nvidia-smi/qx-pro-6000-maxq-blackwell-v13.xml",
        "nvidia_smi",
        ("gpu_settings",),
        "incomplete",
        {"gpu": {**PRO_6000["gpu"], "persistence": False}},
        "ECC is as declared, MIG is not told",
    ),
    Row(
        "nvidia-smi/qx-pro-6000-maxq-blackwell-v13.xml",
        "nvidia_smi",
        ("gpu_settings",),
        "fail",
        {"gpu": {**PRO_6000["gpu"], "ecc": AMPERE_ECC}},
        "where the class has ECC, one without is a fault",
    ),
    Row(
        "nvlink/v100-two-links-inactive-gpu3.txt",
        "nvlink",
        ("gpu_nvlink",),
        "fail",
        {"nvlink": {"links": 6, "link_gb_per_s": 25.781}},
        "links 3 and 5 of GPU 3 are down, wherever that GPU lies",
    ),
    Row(
        "nvidia-smi/query-gpu-vbios-h100.csv",
        "nvidia_smi",
        ("gpu_versions",),
        "incomplete",
        gpus(["0000:04:00.0", "0000:8b:00.0"]),
        "one VBIOS on all; the driver was not asked for",
        lambda data: Output(data.decode().replace("[...]\n", "")),
    ),
    Row(
        "nvidia-smi/query-gpu-h100-idle.csv",
        "nvidia_smi",
        (*(check for check in STATE if check != "gpu_pcie"), "gpu_throttle"),
        "pass",
        gpus(["0000:00:09.0"]),
        "every field that can be asked for; the size of BAR1 is none",
    ),
    Row(
        "dcgmi/nvlink-s-a100x8-all-up.txt",
        "nvlink",
        ("gpu_nvlink",),
        "incomplete",
        {"nvlink": {"links": 12, "link_gb_per_s": 25}},
        "all are up, and nobody says how fast",
    ),
]

_TABLE = "the table for people leaves out what decides (fabric, remapped rows, links): nvidia-smi -q -x is asked"
NOT_COVERED = {}
