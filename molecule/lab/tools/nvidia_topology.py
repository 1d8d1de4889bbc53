"""`nvidia-smi topo -m` of a lab host, simulated: how its GPUs and NICs lie to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lab_tool

LINKS = 18
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


def topology(state: Mapping[str, Any]) -> str:
    """Return what it prints: the GPUs in bus order, the first half at NUMA node 0, a NIC beside each."""
    order = [gpu["slot"] for gpu in sorted(state["gpus"], key=lambda gpu: gpu["address"])]
    node = {slot: 0 if state["numa_off"] else place * 2 // len(order) for place, slot in enumerate(order)} | {"": 0}
    # Each part as its name in the matrix, its kind, and the slot of the GPU beside which it lies.
    parts = [(f"GPU{index}", "GPU", gpu["slot"]) for index, gpu in enumerate(lab_tool.gpus_of(state))]
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
