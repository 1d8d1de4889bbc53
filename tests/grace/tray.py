"""What the tools of a healthy GB200 tray print: the healthy host's outputs with other parts, and what differs by Grace.

Written after public facts: addresses, NUMA nodes and topology of trays as the class names them, arm64's /proc/cpuinfo
(Linux, arch/arm64/kernel/cpuinfo.c), lscpu's fields. No output of one whole tray was at hand.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import probes_of
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import listed
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, read_expectations
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.fuzz.sick import healthy as of_h100
from tests.placed import laid

CLASS = "gb200_nvl72"
UUID, CLIQUE = "9c6f5af3-53bf-49b5-a436-b66766c413c3", 4026
# By what the healthy host has in its place: the first two GPUs of each of its sockets, four of its rails.
GPUS = {"0000:04": "0008:01", "0000:05": "0009:01", "0000:84": "0018:01", "0000:85": "0019:01"}
RAILS = {"0000:1a": "0000:03", "0000:3c": "0002:03", "0000:4d": "0010:03", "0000:5e": "0012:03"}
GONE_GPUS = ("0000:0b", "0000:0c", "0000:8b", "0000:8c")
CPUS, GPU_NODES, NODES = 144, (2, 10, 18, 26), 34
CPU_NODE_MIB, GPU_NODE_MIB = 490000, 188416

# What a fleet declares of its trays. Cables, settings and the BMC are left out: nothing of them depends on Grace.
SITE: dict[str, Any] = {
    "nic": {
        "rails": [{"rail": rail, "address": f"{at}:00.0"} for rail, at in enumerate(RAILS.values())],
        "physical": None,
    },
    "gpu_stack": None,
}


def expectations(**over: Any) -> Expectations:
    """Return the class with the places of the site."""
    return read_expectations(expectations_of(CLASS, {CLASS: laid(SITE, over)}, "test"))


def outputs(stage: str) -> dict[str, Output]:
    """Return what each probe of a stage finds on a healthy tray."""
    return {name: output(name) for name in probes_of(stage)}


def output(probe: str) -> Output:
    """Return what one probe finds."""
    return OWN[probe]() if probe in OWN else Output(_moved(of_h100(probe)))


def _moved(text: str) -> str:
    """Return a text with the tray's addresses and model, without what it has fewer of."""
    for before, after in {**GPUS, **RAILS}.items():
        text = text.replace(f"{before}:00", f"{after}:00").replace(f"0000{before.upper()}:", f"0000{after}:")
    return text.replace("NVIDIA H100 80GB HBM3", "NVIDIA GB200")


def _nvidia_smi() -> Output:
    text = of_h100("nvidia_smi")
    for gone in GONE_GPUS:
        text = re.sub(rf'(?si)\t<gpu id="0000{gone}:00.0">.*?</gpu>\n', "", text)
    values = {"attached_gpus": len(GPUS), "clusterUuid": UUID, "cliqueId": CLIQUE}
    for name, value in values.items():
        text = re.sub(rf"<{name}>.*?</{name}>", f"<{name}>{value}</{name}>", text)
    text = text.replace("<total>81559 MiB", "<total>189471 MiB").replace("700.00 W", "1200.00 W")
    return Output(_moved(text))


def _cpuinfo() -> Output:
    fields = {
        **{"BogoMIPS": "2000.00", "Features": "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics sve"},
        **{"CPU implementer": "0x41", "CPU architecture": "8", "CPU variant": "0x0", "CPU part": "0xd4f"},
        "CPU revision": "0",
    }
    lines = "".join(f"{name}\t: {value}\n" for name, value in fields.items())
    text = "".join(f"processor\t: {cpu}\n{lines}\n" for cpu in range(CPUS))
    sockets = {
        f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id": Output(f"{cpu // 72}\n")
        for cpu in range(CPUS)
    }
    return listed({"/proc/cpuinfo": Output(text), **sockets})


def _lscpu() -> Output:
    fields = {
        **{"Architecture": "aarch64", "CPU op-mode(s)": "64-bit", "Byte Order": "Little Endian", "CPU(s)": "144"},
        **{"On-line CPU(s) list": "0-143", "Vendor ID": "ARM", "Model name": "Neoverse-V2", "Model": "0"},
        **{"Thread(s) per core": "1", "Core(s) per socket": "72", "Socket(s)": "2", "Stepping": "r0p0"},
        "NUMA node(s)": str(NODES),
    }
    return Output(json.dumps({"lscpu": [{"field": f"{name}:", "data": value} for name, value in fields.items()]}))


def numa(gpu_nodes: tuple[int, ...] = GPU_NODES) -> Output:
    """Return the NUMA nodes of a tray, of whose GPU memory these are online."""
    files = {}
    for node in range(NODES):
        mib = CPU_NODE_MIB if node < 2 else GPU_NODE_MIB * (node in gpu_nodes)
        cpus = f"{node * 72}-{node * 72 + 71}" if node < 2 else ""
        files[f"/sys/devices/system/node/node{node}/cpulist"] = Output(f"{cpus}\n")
        files[f"/sys/devices/system/node/node{node}/meminfo"] = Output(
            f"Node {node} MemTotal:       {mib * 1024} kB\nNode {node} MemFree:        {mib * 1000} kB\n"
        )
    return listed(files)


def _meminfo() -> Output:
    kib = (2 * CPU_NODE_MIB + len(GPU_NODES) * GPU_NODE_MIB) * 1024
    return Output(f"MemTotal:       {kib} kB\nMemAvailable:   {kib - 4096} kB\nSwapTotal:             0 kB\n")


def _cpufreq() -> Output:
    paths = [f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor" for cpu in range(CPUS)]
    return listed({path: Output("performance\n") for path in paths})


def _topology() -> Output:
    names = [f"GPU{index}" for index in range(4)] + [f"NIC{index}" for index in range(4)]
    beside = ["0-71\t0,3-9,11-17\t\t2", "0-71\t0,3-9,11-17\t\t10", "72-143\t1,19-25,27-33\t\t18"]
    beside += ["72-143\t1,19-25,27-33\t\t26", *[""] * 4]
    rows = [
        "\t".join([name, *(_cell(name, other) for other in names), place])
        for name, place in zip(names, beside, strict=True)
    ]
    heading = "\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    legend = "\n".join(f"  NIC{index}: mlx5_{index}" for index in range(4))
    return Output("\n".join([heading, *rows, "", "NIC Legend:", "", legend, ""]))


def _cell(name: str, other: str) -> str:
    if name == other:
        return " X "
    return "NV18" if name[:3] == other[:3] == "GPU" else "SYS"


def _nvlink() -> Output:
    kept = _uuids()
    parts = re.split(r"(?m)^(?=GPU \d+: )", of_h100("nvlink"))[1:]
    mine = [part for part in parts if any(uuid in part for uuid in kept)]
    text = "".join(re.sub(r"^GPU \d+:", f"GPU {index}:", part) for index, part in enumerate(mine))
    return Output(_moved(text).replace("26.562", "50"))


def _uuids() -> list[str]:
    return re.findall(r"<uuid>(GPU-.*?)</uuid>", _nvidia_smi().stdout)


OWN = {
    **{"nvidia_smi": _nvidia_smi, "cpuinfo": _cpuinfo, "lscpu": _lscpu, "numa": numa, "meminfo": _meminfo},
    **{"cpufreq": _cpufreq, "topology": _topology, "nvlink": _nvlink},
    "clocksource": lambda: Output("arch_sys_counter\n"),
    "cmdline": lambda: Output(
        "BOOT_IMAGE=/boot/vmlinuz root=/dev/nvme0n1p2 ro init_on_alloc=0 numa_balancing=disable "
        "acpi_power_meter.force_cap_on=y\n"
    ),
}
