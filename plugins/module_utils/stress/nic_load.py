"""``muster nic-load`` on the node: what every rail reached with each memory, turned round inside the NIC.

The program is ours (rail_test/nic_load_program.py), so the format is as well: one JSON object. A value of another type
than it writes, or an object that is cut, makes the output unreadable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Optional

from ..host.host import Host, Output, Unreadable
from ..nic.declared_nics import gpus_beside, rails_of
from ..nic.peer_memory import DMABUF
from ..probes import numa
from ..rail_test.nic_load_program import FORMAT, START_SECONDS
from ..words.expectations import Expectations, NoSettings, stated
from ..words.reader import AboveZero, Count, Number, ReadError, Rule, plain, read

NAME = "nic_load"
RULES = 1
SETTINGS = NoSettings
PROGRAM = "/usr/libexec/muster/muster"
# Imports, and killing what hangs.
SPARE_SECONDS = 60.0


@dataclass(frozen=True)
class Rate:
    """Of ``count`` rounds with one memory, in Gb/s."""

    count: Annotated[int, Rule("more than 0", lambda count: count > 0)]
    min: AboveZero
    median: AboveZero
    max: AboveZero

    def __post_init__(self) -> None:
        if not self.min <= self.median <= self.max:
            raise ReadError("", f"min {self.min}, median {self.median}, max {self.max}", "rising rates")


@dataclass(frozen=True)
class RailLoad:
    """One rail, by memory (``numa 0``, ``gpu``): rates, how often none came about, and what was said of that.

    ``distances`` are those from the rail's own NUMA node, which is None where the system does not tell it. ``missing``
    says why the rail was not loaded at all.
    """

    device: str
    numa_node: Optional[Count]  # noqa: UP045 -- read at run time, by Python 3.9 too
    distances: Mapping[str, Count]
    missing: str
    rates: Mapping[str, Rate]
    failed: Mapping[str, Count]
    errors: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class NicLoads:
    """The rails by name (``rail0``), and the NUMA nodes whose memory was used."""

    format: Annotated[int, Rule(str(FORMAT), FORMAT.__eq__)]
    seconds: Number
    lasted: Number
    round_seconds: Count
    rounds: Count
    numa: tuple[Count, ...]
    rails: Mapping[str, RailLoad]


def loads_gpus(expect: Expectations) -> bool:
    """Return whether the memory of GPUs is used as well."""
    return expect.gpu is not None and stated(expect.rdma).gpu_direct


def collect(host: Host, expect: Expectations, seconds: float, settings: NoSettings) -> Output:
    """Run the program on the rails of the class, with every NUMA node that has CPUs and memory."""
    own, rdma = stated(expect.nic_load), stated(expect.rdma)
    try:
        nodes = [number for number, node in numa.parse(numa.collect(host, expect)).items() if node.cpus and node.mib]
    except Unreadable as exc:
        return Output(rc=None, error=f"nic_load: NUMA nodes: {exc}")
    gpus = gpus_beside(expect) if loads_gpus(expect) else {}
    spec = {
        "rails": [{**plain(rail), "gpu": gpus.get(rail.rail)} for rail in rails_of(expect)],
        "numa": nodes,
        "message_bytes": own.message_bytes,
        "queue_pairs": rdma.queue_pairs,
        "round_seconds": own.round_seconds,
        "dmabuf": stated(expect.fabric).peer_memory == DMABUF,
        "path": expect.tools.path,
        "root": expect.tools.root,
    }
    argv = [PROGRAM, "nic-load", f"--spec={json.dumps(spec, sort_keys=True)}", f"--seconds={seconds:g}"]
    # The first round with each memory is run to its end, however short the time.
    longest = (len(nodes) + 1) * (2 * START_SECONDS + own.round_seconds)
    return host.run(argv, seconds + longest + SPARE_SECONDS)


def parse(output: Output) -> NicLoads:
    """Return what each rail reached; raises Unreadable."""
    if output.rc:
        tail = (output.stderr.strip().splitlines() or ["nothing said"])[-1]
        raise Unreadable(f"exit status {output.rc}: {tail[:200]}, expected 0")
    try:
        data: Any = json.loads(output.stdout)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"{output.stdout[-60:]!r} at the end, expected one JSON object") from exc
    if isinstance(data, dict) and data.get("error"):
        raise Unreadable(str(data["error"])[:400])
    try:
        return read(NicLoads, data, "nic-load", extra=True)
    except ReadError as exc:
        raise Unreadable(str(exc)) from exc
