"""Is each GPU connected to the other GPUs, to a NIC and to the processors as in its class?

A GPU whose NIC hangs on another socket, or a kernel that was told not to know NUMA (``numa=off``), costs bandwidth in
every job and no test of a single part sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..host.rail_names import NamedRail, Names, no_device
from ..judging.gpu_parts import addresses_of, unread
from ..nic.declared_nics import named_rails
from ..probes.topology import Row, Topology
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_affinity"
RULES = 4
PROBES: tuple[str, ...] = ("topology",)
# What the tool calls the rails of the class.
OPTIONAL_PROBES: tuple[str, ...] = ("nvidia_smi", "rail_names")
# Closest first, in the words of nvidia-smi's legend.
CONNECTIONS = ("PIX", "PXB", "PHB", "NODE", "SYS")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts, and the host for its NUMA nodes."""
    parts = gpu_subjects(expect) if expect.affinity else {}
    return [*parts.values(), "host"] if parts else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge each GPU's row of the matrix, and how the GPUs are spread over NUMA nodes."""
    topology: Topology = values["topology"]
    addresses = addresses_of([row.index for row in topology.gpus], values, expect)
    rows = {address: row for address, row in zip(addresses, topology.gpus) if address}
    declared = gpu_subjects(expect)
    findings = []
    for part in stated(expect.gpu).parts:
        address, subject = part.address, declared[part.address]
        if address in rows:
            findings.append(_judged(subject, part.slot, rows[address], values.get("rail_names"), expect))
        else:
            why = f"nvidia-smi topo lists {len(topology.gpus)} GPUs, and none is known to be this one"
            findings.append(unread(NAME, subject, why))
    return [*findings, _spread(topology, expect)]


def _judged(subject: str, slot: str, row: Row, names: Names | None, expect: Expectations) -> Finding:
    wanted = stated(expect.affinity)
    if expect.nvlink:
        link = f"NV{expect.nvlink.links}"
        others = {index: found for index, found in row.gpus.items() if found != link}
        if others:
            found = ", ".join(f"{kind} to GPU{index}" for index, kind in others.items())
            why = f"connected by {found}, the class has {link} to every GPU"
            return Finding(NAME, subject, FAIL, next(iter(others.values())), link, "", why, "investigate")
    node = _numa_node(row, expect)
    if node is None or row.cpus is None:
        return unread(NAME, subject, "could not be read: the processors or NUMA node next to the GPU")
    place = next((part for part in wanted.parts or () if part.slot == slot), None)
    if place and node != place.numa_node:
        why = f"lies at NUMA node {node}, declared {place.numa_node}"
        return Finding(NAME, subject, FAIL, node, place.numa_node, "NUMA node", why, "investigate")
    beside = None if place is None or place.rail is None else _rail(place.rail, names, expect)
    return _nearest(subject, row, f"NUMA node {node}", wanted.nic_connection, beside)


def _numa_node(row: Row, expect: Expectations) -> int | None:
    """Return the NUMA node whose CPUs lie beside a GPU; None where none is told, or several.

    Where GPU memory is NUMA nodes of its own, these are listed as well. Those with CPUs come first (ACPI's SRAT).
    """
    if expect.numa is None or expect.numa.gpu_memory_nodes is None:
        return row.numa_node
    with_cpus = [node for node in row.numa_nodes or () if node < expect.numa.nodes]
    return with_cpus[0] if len(with_cpus) == 1 else None


def _rail(number: int, names: Names | None, expect: Expectations) -> NamedRail | str:
    """Return a rail of the class, or why nobody knows what the tool calls its NIC."""
    if names is None:
        return f"could not be read: the name of rail {number}"
    rail = next(rail for rail in named_rails(expect, names) if rail.rail == number)
    return rail if rail.device else no_device(rail, names)


def _nearest(subject: str, row: Row, node: str, limit: str | None, beside: NamedRail | str | None) -> Finding:
    if limit is None:
        return Finding(NAME, subject, PASS, node, None)
    rail = None if isinstance(beside, str) else beside
    nic = rail.device if rail else None
    expected = f"{rail or 'a NIC'} at {limit} or closer"
    if not row.nics:
        why = "nvidia-smi sees no NIC: RDMA drivers not loaded, or the NICs are gone"
        return Finding(NAME, subject, FAIL, "no NIC", expected, "", why, "investigate")
    if isinstance(beside, str):
        return unread(NAME, subject, beside, expected)
    ranked = sorted(
        (CONNECTIONS.index(kind), device)
        for device, kind in row.nics.items()
        if kind in CONNECTIONS and nic in (None, device)
    )
    if not ranked:
        what = f"connection to {rail}" if nic in row.nics else f"{rail or 'connection to any NIC'}"
        return unread(NAME, subject, f"could not be read: {what}", expected)
    rank, device = ranked[0]
    measured = f"{device} at {CONNECTIONS[rank]}"
    if rank > CONNECTIONS.index(limit):
        why = f"its nearest NIC is {measured}, class limit {limit}"
        return Finding(NAME, subject, FAIL, measured, expected, "", why, "investigate")
    return Finding(NAME, subject, PASS, f"{measured}, {node}", expected)


def _spread(topology: Topology, expect: Expectations) -> Finding:
    wanted = stated(expect.affinity).numa_nodes
    nodes = [_numa_node(row, expect) for row in topology.gpus]
    if None in nodes or len(nodes) != stated(expect.gpu).count:
        why = (
            f"NUMA nodes of {sum(node is not None for node in nodes)} of {stated(expect.gpu).count} GPUs could be read"
        )
        return unread(NAME, "host", why, wanted, "NUMA nodes")
    found = Counter(nodes)
    if len(found) == 1 < wanted:
        why = f"all GPUs lie at one NUMA node, class has {wanted}: numa=off, or the BIOS interleaves memory"
        return Finding(NAME, "host", FAIL, 1, wanted, "NUMA nodes", why, "investigate")
    if len(found) != wanted or len(set(found.values())) != 1:
        spread = ", ".join(f"{times} at node {node}" for node, times in sorted(found.items(), key=str))
        why = f"GPUs are spread unlike the class (the same number at each of {wanted} nodes): {spread}"
        return Finding(NAME, "host", FAIL, len(found), wanted, "NUMA nodes", why, "investigate")
    return Finding(NAME, "host", PASS, wanted, wanted, "NUMA nodes")
