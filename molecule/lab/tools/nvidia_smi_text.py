"""What nvidia-smi of a lab host prints as text: `-q` in the layout of driver 590, `nvlink --status`, `topo -m`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import lab_tool

LINKS = 18
LINK_GB_PER_S = "26.562"
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

"""


def query(state: Mapping[str, Any], attached: int, gpus: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """Return what `-q` prints for GPUs, each with its XML element."""
    template = (lab_tool.PLACE / "lib" / "gpu.txt.in").read_text(encoding="utf-8").splitlines()
    lines = ["", "==============NVSMI LOG==============", ""]
    lines.append(_line("Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")))
    lines += [_line("Driver Version", state["driver"]), _line("CUDA Version", "12.8"), ""]
    lines.append(_line("Attached GPUs", attached))
    for gpu, xml in gpus:
        values = leaves(xml)
        lines.append(f"GPU {values['pci/pci_bus_id']}")
        for row in template:
            label, tab, path = row.partition("\t")
            if path == "processes":
                lines += _processes(state["gpu_processes"].get(gpu["slot"], []))
            else:
                lines.append(_line(label, _shown(path, values[path])) if tab else label)
        lines.append("")
    return "\n".join(lines) + "\n"


def _line(label: str, value: object) -> str:
    return f"{label:<54} : {value}"


def _shown(path: str, value: str) -> str:
    # In the text these are hexadecimal numbers, in the XML their bare digits.
    return f"0x{value}" if path.startswith("pci/pci_") and "link" not in path and "bus_id" not in path else value


def _processes(processes: Sequence[Mapping[str, Any]]) -> list[str]:
    if not processes:
        return [_line("    Processes", "None")]
    lines = ["    Processes"]
    for process in processes:
        for label, value in (
            ("        GPU instance ID", "N/A"),
            ("        Compute instance ID", "N/A"),
            ("        Process ID", process["pid"]),
            ("            Type", "C"),
            ("            Name", process["name"]),
            ("            Used GPU Memory", f"{process['memory_mib']} MiB"),
        ):
            lines.append(f"{label:<41} : {value}")
    return lines


def leaves(xml: str) -> dict[str, str]:
    """Return the text of each element of a <gpu> element by path; the tool puts each element on a line of its own."""
    found: dict[str, str] = {}
    path: list[str] = []
    for line in xml.split("\n"):
        leaf = re.fullmatch(r"\t+<(\w+)>(.*)</\w+>", line)
        if leaf:
            found.setdefault("/".join([*path[1:], leaf[1]]), leaf[2])
        elif re.fullmatch(r"\t+</\w+>", line):
            path.pop()
        elif opening := re.fullmatch(r"\t+<(\w+)[^/]*>", line):
            path.append(opening[1])
    return found


def nvlink_status(state: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]], model: str) -> str:
    """Return what `nvlink --status` prints."""
    lines = []
    for gpu in gpus:
        lines.append(f"GPU {gpu['index']}: {model} (UUID: {gpu['uuid']})")
        if state["gpu_values"].get(gpu["slot"], {}).get("mig_mode/current_mig") == "Enabled":
            lines.append("Nvlink queries are not supported for Devices in MIG mode")
            continue
        changed = state["nvlinks"].get(gpu["slot"], {})
        for link in range(LINKS):
            lines.append(f"\t Link {link}: {changed.get(str(link), f'{LINK_GB_PER_S} GB/s')}")
    return "\n".join(lines) + "\n"


def topology(state: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]) -> str:
    """Return what `topo -m` prints: the GPUs in bus order, the first half at NUMA node 0, a NIC beside each."""
    order = [gpu["slot"] for gpu in sorted(state["gpus"], key=lambda gpu: gpu["address"])]
    node = {slot: 0 if state["numa_off"] else place * 2 // len(order) for place, slot in enumerate(order)} | {"": 0}
    # Each part as its name in the matrix, its kind, and the slot of the GPU beside which it lies.
    parts = [(f"GPU{gpu['index']}", "GPU", gpu["slot"]) for gpu in gpus]
    # In bus order too. One that is no rail has no GPU beside it, and lies at the first node.
    nics = sorted(state["nics"], key=lambda nic: nic["address"])
    rails = [nic["rail"] for nic in nics if nic["rail"].startswith("rail")]
    beside = dict(zip(rails, order, strict=False))
    parts += [(f"NIC{number}", "NIC", beside.get(nic["rail"], "")) for number, nic in enumerate(nics)]

    def connection(first: tuple[str, str, str], second: tuple[str, str, str]) -> str:
        if first == second:
            return " X "
        if first[1] == second[1] == "GPU":
            return f"NV{LINKS}"
        if first[2] == second[2]:
            return str(state["gpu_nic_connections"].get(first[2], "PIX"))
        return "NODE" if node[first[2]] == node[second[2]] else "SYS"

    headings = [*(name for name, _, _ in parts), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    rows = ["\t\x1b[4m" + "\t".join(headings) + "\x1b[0m"]
    for part in parts:
        cells = [part[0], *(connection(part, other) for other in parts)]
        near = _processors(state, node[part[2]])
        rows.append("\t".join([*cells, *([near, str(node[part[2]]), "", "N/A"] if part[1] == "GPU" else [""] * 4)]))
    devices = "".join(f"  NIC{number}: {nic['device']}\n" for number, nic in enumerate(nics))
    return "\n".join(rows) + "\n" + LEGEND + "NIC Legend:\n\n" + devices + "\n"


def _processors(state: Mapping[str, Any], node: int) -> str:
    """Return the processors of a NUMA node, two threads for each core, as the tool lists them."""
    cores = state["cpu"]["cores"]
    if state["numa_off"]:
        return f"0-{2 * cores - 1}"
    first, last = node * cores // 2, (node + 1) * cores // 2 - 1
    return f"{first}-{last},{cores + first}-{cores + last}"
