"""Generic resources (GRES): what slurm.conf says of a class' nodes, and what the class says of its GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, stated
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import shown
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import NONE, Scheduler

_GPUS = re.compile(r"gpu(?::(?P<type>[A-Za-z][\w.-]*))?(?::(?P<count>\d+))?(?:\([^)]*\))?")


@dataclass(frozen=True)
class SlurmGpus:
    """GPUs of one type on each node of a class; ``type`` is empty where Slurm knows none."""

    type: str
    count: int


@dataclass(frozen=True)
class Gpus:
    """GPUs of a hardware class: how many, and the directory that their device files lie below.

    ``places`` are the NUMA nodes of the GPUs in the order of their device files, of ``numa_nodes`` in all; empty where
    the class does not say.
    """

    count: int
    root: str
    numa_nodes: int = 0
    places: tuple[int, ...] = ()


def gpus_of(expect: Expectations) -> Gpus:
    """Return what a class with GPUs says of them."""
    gpu, affinity = stated(expect.gpu), expect.affinity
    nodes = {part.slot: part.numa_node for part in (affinity.parts if affinity else None) or ()}
    # The driver numbers device files in the order of PCI addresses ("Minor Number" in nvidia-smi -q of two hosts with
    # eight H100, drivers 535.183 and 570.86).
    slots = [part.slot for part in sorted(gpu.parts, key=lambda part: part.address)]
    known = tuple(nodes[slot] for slot in slots) if set(slots) <= set(nodes) else ()
    in_all = expect.numa.nodes if expect.numa else affinity.numa_nodes if affinity else 0
    return Gpus(gpu.count, expect.tools.root, in_all, known)


def generic_resources(scheduler: Scheduler, hardware_class: str, gpus: int | None) -> list[str]:
    """Return what ``Gres`` says of a node of a class with so many GPUs, such as ``gpu:8`` and ``nic:8``."""
    own = scheduler.node_parameters.get(hardware_class, {})
    made = f"gpu:{gpus}" if gpus and scheduler.gres != NONE else ""
    text = next((value for key, value in own.items() if key.lower() == "gres"), made)
    # What stands in brackets, such as (S:0-1), has no comma that parts two resources.
    return [each for each in re.split(r",(?![^(]*\))", str(text or "")) if each]


def check_gpus(scheduler: Scheduler, classes: Mapping[str, Expectations], file: str) -> None:
    """Raise FleetError where Slurm would hand out another number of GPUs than a class has: rounds test all of them."""
    for name, expect in classes.items():
        count = expect.gpu.count if expect.gpu else None
        resources = generic_resources(scheduler, name, count)
        declared = sum(each.count for each in slurm_gpus(resources))
        if count and declared != count and any(each.partition(":")[0] == "gpu" for each in resources):
            key = f"scheduler.node_parameters.{name}.Gres"
            raise FleetError(file, key, shown(",".join(resources)), f"{count} GPUs, as gpu.count of the class has")


def slurm_gpus(resources: list[str]) -> list[SlurmGpus]:
    """Return the GPUs among a class' resources."""
    found = filter(None, map(_GPUS.fullmatch, resources))
    return [SlurmGpus(each["type"] or "", int(each["count"] or 1)) for each in found]
