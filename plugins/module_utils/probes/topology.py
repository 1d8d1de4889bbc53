"""``nvidia-smi topo -m``: how GPUs and NICs are connected to each other, and to which processors and NUMA node.

Format: drivers 450 to 590. The heading may be underlined by terminal escapes; columns stand between tabs, empty ones at
the end of a NIC's row. NICs have columns of their own where the driver sees any: ``NIC0`` with a legend (since driver
515), before that the device's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "topology"
ARGV = ("nvidia-smi", "topo", "-m")
TIMEOUT_SECONDS = 60.0

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PART = re.compile(r"GPU\d+|NIC\d+|[a-z]\w*")
_LEGEND = re.compile(r"\s*(NIC\d+):\s+(\S+)\s*")
_NODES = re.compile(r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*", re.ASCII)
_CPUS = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")


@dataclass(frozen=True)
class Row:
    """One GPU: its connection to each other GPU by index and to each NIC by device name (``NV18``, ``PIX``, ``SYS``),
    its processors (``0-47,96-143``) and its NUMA nodes; None where the tool gives none.

    On a host with coherent GPU memory (Grace) they are the node of the CPUs and those without CPUs: ``0,3-9,11-17``.
    """

    index: int
    gpus: Mapping[int, str]
    nics: Mapping[str, str]
    cpus: str | None
    numa_nodes: tuple[int, ...] | None

    @property
    def numa_node(self) -> int | None:
        """Return the only one, None where there are several."""
        return self.numa_nodes[0] if self.numa_nodes and len(self.numa_nodes) == 1 else None


@dataclass(frozen=True)
class Topology:
    """The GPUs by rising index, which is the order of PCI addresses, and the device names of the NICs.

    nvidia-smi 580 leaves out one that is lost, 535 and 550 then print no matrix.
    """

    gpus: tuple[Row, ...]
    nics: tuple[str, ...]


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> Topology:
    """Return the matrix; raises Unreadable when it is not whole or contradicts itself."""
    require_success(output)
    lines = _ESCAPE.sub("", output.stdout).split("\n")
    start = next((at for at, line in enumerate(lines) if line.split()[:1] == ["GPU0"]), None)
    if start is None:
        raise Unreadable("no line that begins with GPU0, expected the heading of a matrix")
    if sum(line.split()[:1] == ["GPU0"] for line in lines) > 2:
        raise Unreadable("more than one heading and one row of GPU0: several matrices")
    columns = _columns(lines[start])
    rows: dict[str, list[str]] = {}
    for line in lines[start + 1 :]:
        cells = line.split()
        if not cells or cells[0] not in columns:
            break
        if cells[0] in rows:
            raise Unreadable(f"two rows for {cells[0]}")
        rows[cells[0]] = _row(cells, columns)
    # A name in a line without its end may have been cut off.
    legend = {match.group(1): match.group(2) for match in map(_LEGEND.fullmatch, lines[:-1]) if match}
    _consistent(rows, columns)
    gpus = {name: int(name[3:]) for name in columns if name.startswith("GPU")}
    if list(gpus.values()) != sorted(set(gpus.values())):
        raise Unreadable(f"GPUs {', '.join(gpus)}, expected GPU0, GPU1, ... each once")
    nics = {name: legend.get(name, name) for name in columns if name not in gpus}
    if len(set(nics.values())) != len(nics):
        raise Unreadable("the legend names one NIC twice")
    found = []
    for name, index in gpus.items():
        if name not in rows:
            raise Unreadable(f"no row for {name} of {len(gpus)} GPUs")
        cells, rest = rows[name][: len(columns)], rows[name][len(columns) :]
        seen = dict(zip(columns, cells))
        found.append(
            Row(
                index,
                {at: seen[other] for other, at in gpus.items() if other != name},
                {device: seen[nic] for nic, device in nics.items()},
                rest[0] if rest and _CPUS.fullmatch(rest[0]) else None,
                _numbers(rest[1]) if len(rest) > 1 else None,
            )
        )
    return Topology(tuple(found), tuple(nics.values()))


def _numbers(text: str) -> tuple[int, ...] | None:
    """Return the numbers of a list such as ``0,3-9``."""
    if not _NODES.fullmatch(text):
        return None
    ranges = [part.partition("-") for part in text.split(",")]
    return tuple(number for first, _, last in ranges for number in range(int(first), int(last or first) + 1))


def _columns(heading: str) -> list[str]:
    # "CPU Affinity", "NUMA Affinity" and "GPU NUMA ID" follow the parts.
    before, found, _ = heading.partition("CPU Affinity")
    columns = before.split()
    if not found or not all(_PART.fullmatch(name) for name in columns) or len(set(columns)) != len(columns):
        raise Unreadable(f"heading is {heading.strip()[:200]!r}, expected GPU0, GPU1, ... CPU Affinity")
    return columns


def _row(cells: Sequence[str], columns: Sequence[str]) -> list[str]:
    name, values = cells[0], list(cells[1:])
    if len(values) < len(columns):
        raise Unreadable(f"row {name} has {len(values)} cells, expected at least {len(columns)}")
    if [at for at, value in enumerate(values[: len(columns)]) if value == "X"] != [columns.index(name)]:
        raise Unreadable(f"row {name} has its X in another place than column {name}")
    return values


def _consistent(rows: Mapping[str, Sequence[str]], columns: Sequence[str]) -> None:
    for name, cells in rows.items():
        for other, cell in zip(columns, cells):
            back = rows[other][columns.index(name)] if other in rows else cell
            if back != cell:
                raise Unreadable(f"{name} to {other} is {cell}, {other} to {name} is {back}")
