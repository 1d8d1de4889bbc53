"""Are there as many NUMA nodes as declared, each with its share of CPUs and memory?

Where the class has GPU memory as NUMA nodes (Grace), those without CPUs that hold memory are counted apart; their sizes
are the GPUs', which gpu_inventory judges. One without either is kept by the firmware for partitions of a GPU (MIG).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.numa import Node
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "numa"
RULES = 1
PROBES: tuple[str, ...] = ("numa",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, unless the class declares no NUMA nodes."""
    return [] if expect.numa is None else ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the number of nodes with the class, then the nodes with each other."""
    nodes: Mapping[int, Node] = values["numa"]
    wanted, tolerance = stated(expect.numa).nodes, stated(expect.numa).memory_tolerance_percent
    of_gpus = stated(expect.numa).gpu_memory_nodes
    if of_gpus is not None:
        found = [number for number, node in nodes.items() if node.mib and not node.cpus]
        nodes = {number: node for number, node in nodes.items() if node.cpus}
        if len(nodes) == wanted and len(found) != of_gpus:
            return [_of_gpus(found, of_gpus)]
    if len(nodes) != wanted:
        why = "another number of NUMA nodes: firmware setting (sub-NUMA clustering, NPS), numa=off, or a CPU is missing"
        return [Finding(NAME, "host", FAIL, len(nodes), wanted, "nodes", why, "investigate")]
    if not nodes:
        return [Finding(NAME, "host", FAIL, 0, wanted, "nodes", "no NUMA node has CPUs", "investigate")]
    cpus = {number: node.cpus for number, node in nodes.items()}
    if len(set(cpus.values())) > 1 or not all(cpus.values()):
        why = f"CPUs: spread across the host's NUMA nodes ({_shares(cpus)})"
        return [Finding(NAME, "host", FAIL, min(cpus.values()), "the same on all nodes", "CPUs", why, "investigate")]
    mib = {number: node.mib for number, node in nodes.items()}
    least = min(mib, key=lambda number: mib[number])
    if mib[least] * 100 < max(mib.values()) * (100 - tolerance) or not mib[least]:
        why = f"memory of node{least}: spread across the host's NUMA nodes, as with a DIMM missing ({_shares(mib)})"
        expected = f"at most {tolerance:g} % below the largest"
        return [Finding(NAME, "host", FAIL, mib[least], expected, "MiB", why, "reseat")]
    return [Finding(NAME, "host", PASS, len(nodes), wanted, "nodes")]


def _of_gpus(found: Sequence[int], wanted: int) -> Finding:
    why = f"NUMA nodes that hold a GPU's memory: {', '.join(f'node{number}' for number in found) or 'none'}"
    why += "; nvidia-persistenced brings it online, unless the driver keeps it to itself (NVreg_CoherentGPUMemoryMode)"
    return Finding(NAME, "host", FAIL, len(found), wanted, "nodes of GPU memory", why, "investigate")


def _shares(of: Mapping[int, int]) -> str:
    return ", ".join(f"node{number} {value}" for number, value in of.items())
