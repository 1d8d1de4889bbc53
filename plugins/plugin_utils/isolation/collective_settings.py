"""What a hardware class asks of its collectives, and the words in which a measurement is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import bus_factor
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import MINI_CLUSTER_CHECK
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import (
    BusBandwidthFloor,
    Collectives,
    Expectations,
    Hold,
    LatencyCeiling,
    NodeCohort,
    Straggler,
    Train,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile

ALL_REDUCE, SENDRECV = "all_reduce", "sendrecv"
COLLECTIVES = (ALL_REDUCE, "all_gather", "reduce_scatter", "all_to_all")
UNIT = "GB/s"
# Up to this size a message is judged by its time (latency), above by its bandwidth.
SMALL_BYTES = 2**20


@dataclass(frozen=True)
class Phase:
    """How one kind of operation is measured; ``seconds`` is what planning counts for one of them."""

    sizes_bytes: tuple[int, ...]
    iterations: int
    warmup: int
    seconds: float = 0
    collectives: tuple[str, ...] = (SENDRECV,)


@dataclass(frozen=True)
class Settings:
    """What a hardware class asks of its collectives, and how a campaign may go about it.

    ``places`` tells the ``rack`` and ``pod`` of each node. ``baseline`` is what was adopted of a healthy fleet: GB/s by
    collective, nodes and size (see baseline.py); it stands in for peers where there are too few of them.
    ``mini_clusters`` is what groups as large as those that serve one model have to keep, None: nothing.
    ``most_gb_per_s`` is what no bus bandwidth exceeds (see most_of), None where that is not known. ``nvlink_racks``:
    NVLink joins the hosts of a rack, so that they are several times as fast with each other as with any others.
    ``far_floors`` says by how much all nodes could be slow together and reach every floor, if that is much.
    """

    ranks_per_node: int
    pairs: Phase
    groups: Phase
    floors: tuple[BusBandwidthFloor, ...]
    latency: tuple[LatencyCeiling, ...]
    step_seconds: float
    cohort: NodeCohort
    hold: Hold
    straggler: Straggler | None
    train: Train | None
    budget_minutes: float | None
    places: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    baseline: Mapping[tuple[str, int, int], float] = field(default_factory=dict)
    mini_clusters: LatencyProfile | None = None
    most_gb_per_s: float | None = None
    nvlink_racks: bool = False
    far_floors: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        collective: Collectives,
        places: Mapping[str, Mapping[str, str | None]] | None = None,
        baseline: Mapping[tuple[str, int, int], float] | None = None,
        mini_clusters: LatencyProfile | None = None,
    ) -> Settings:
        """Return the settings in a class' ``collective`` expectations."""
        pairs, groups = collective.pairs, collective.groups
        return cls(
            collective.ranks_per_node,
            Phase(pairs.sizes_bytes, pairs.iterations, pairs.warmup, pairs.seconds),
            Phase(groups.sizes_bytes, groups.iterations, groups.warmup, 0, groups.collectives),
            collective.floors,
            collective.latency,
            collective.step_seconds,
            collective.cohort,
            collective.hold,
            collective.straggler,
            collective.train,
            collective.budget_minutes,
            places or {},
            baseline or {},
            mini_clusters,
        )

    def floor(self, collective: str, nodes: int, size_bytes: int) -> float | None:
        """Return the floor in GB/s for a group of so many nodes: of those that hold, that of the largest groups."""
        return _least(self.floors, collective, nodes, size_bytes, lambda each: each.busbw_gb_per_s)

    def ceiling(self, collective: str, nodes: int, size_bytes: int) -> float | None:
        """Return the longest time in microseconds for a group of so many nodes, None where the class limits none."""
        return _least(self.latency, collective, nodes, size_bytes, lambda each: each.microseconds)

    def healthy(self, nodes: int, size_bytes: int, collective: str = SENDRECV) -> float | None:
        """Return the bandwidth of which the margin is taken where there are too few peers to tell it, else None.

        It follows from the class' floor, which is that bandwidth less the margin, and from the adopted baseline.
        """
        floor = self.floor(collective, nodes, size_bytes)
        known = [] if floor is None else [floor / (1 - self.cohort.margin)]
        adopted = self.baseline.get((collective, nodes, size_bytes))
        return max([*known, *([] if adopted is None else [adopted])], default=None)

    def fault(self) -> str:
        """Return why nothing can be judged by these settings, empty if everything can."""
        for floor in self.floors:
            measured = self.pairs if floor.collective == SENDRECV else self.groups
            if floor.size_bytes not in measured.sizes_bytes:
                return (
                    f"the hardware class has a floor for {floor.collective} at {size_text(floor.size_bytes)}, "
                    f"which is not in {'pairs' if measured is self.pairs else 'groups'}.sizes_bytes"
                )
        for ceiling in self.latency:
            measured = self.pairs if ceiling.collective == SENDRECV else self.groups
            if ceiling.size_bytes not in measured.sizes_bytes:
                what = f"{ceiling.collective} at {size_text(ceiling.size_bytes)}"
                return f"the hardware class limits the latency of {what}, which is not measured"
        if all(self.floor(SENDRECV, 2, size) is None for size in self.pairs.sizes_bytes):
            return "the hardware class has no sendrecv floor for two nodes (collective.floors)"
        return ""

    def checks(self) -> tuple[str, ...]:
        """Return the checks on which every node under test gets a finding."""
        small = min(self.pairs.sizes_bytes) <= SMALL_BYTES and len(self.pairs.sizes_bytes) > 1
        asked = {
            "pair_bandwidth": True,
            "rail_bandwidth": self.ranks_per_node > 1,
            "pair_latency": small or any(each.collective == SENDRECV for each in self.latency),
            "data": True,
            "group_bandwidth": True,
            "group_latency": any(each.collective != SENDRECV for each in self.latency),
            "straggler": self.straggler is not None,
            "train": self.train is not None,
            MINI_CLUSTER_CHECK: self.mini_clusters is not None,
        }
        return tuple(check for check, wanted in asked.items() if wanted)


def most_of(expect: Expectations) -> float | None:
    """Return what the bus bandwidth in GB/s of a class' GPUs cannot exceed, None where they have no declared NVLink.

    All that comes into a GPU comes over its NVLinks and its PCIe link, from its own host or another: NICs, and other
    hosts of one NVLink domain, are behind them. In an all-reduce a GPU takes in no less than its size, also where
    switches reduce (NVLS, SHARP), and bus bandwidth counts nearly twice that. Of the other collectives it counts what
    a GPU takes in or gives out. So twice what the links carry is more than can be; a local copy is faster.
    """
    if expect.collective.backend != "nccl" or expect.gpu is None or expect.nvlink is None:
        return None
    # A lane of generation 3 carries 8 GT/s, about 1 GB/s, each other one half or twice of the next; coding left out.
    width, generation = expect.gpu.pcie_width, expect.gpu.pcie_generation
    # Where the class states no PCIe link, its GPUs have a faster one to their processor: its share is within the twice.
    pcie = width * 2.0 ** (generation - 3) if width is not None and generation is not None else 0
    return 2 * (expect.nvlink.links * expect.nvlink.link_gb_per_s + pcie)


def places_of(fleet: Fleet) -> dict[str, Mapping[str, str | None]]:
    """Return the ``rack`` and ``pod`` of each host."""
    return {node.name: {"rack": node.rack, "pod": node.pod} for node in fleet.nodes}


def bus_bandwidth(collective: str, ranks: int, size_bytes: int, seconds: float) -> float:
    """Return a collective's bus bandwidth in GB/s, as nccl-tests defines it: independent of the number of ranks."""
    return bus_factor(collective, ranks) * size_bytes / seconds / 1e9


def size_text(size_bytes: int) -> str:
    """Return a message size as people write it (``8 MiB``)."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def _least(limits: Any, collective: str, nodes: int, size_bytes: int, value: Callable[[Any], float]) -> float | None:
    # What holds inside a node says nothing about nodes between which there is a network, nor the other way round.
    known = [
        each
        for each in limits
        if each.collective == collective
        and each.size_bytes == size_bytes
        and each.nodes_min <= nodes
        and (each.nodes_min > 1 or nodes == 1)
    ]
    return value(max(known, key=lambda each: each.nodes_min)) if known else None
