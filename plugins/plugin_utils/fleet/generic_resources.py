"""Generic resources (GRES) of nodes, as the NodeName lines of slurm.conf declare them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import NONE, Scheduler

_GPUS = re.compile(r"gpu(?::(?P<type>[A-Za-z][\w.-]*))?(?::(?P<count>\d+))?(?:\([^)]*\))?")


@dataclass(frozen=True)
class SlurmGpus:
    """GPUs of one type on each node of a class; ``type`` is empty where Slurm knows none."""

    type: str
    count: int


def generic_resources(scheduler: Scheduler, hardware_class: str, gpus: int | None) -> list[str]:
    """Return what ``Gres`` says of a node of a class with so many GPUs, such as ``gpu:8`` and ``nic:8``."""
    own = scheduler.node_parameters.get(hardware_class, {})
    made = f"gpu:{gpus}" if gpus and scheduler.gres != NONE else ""
    text = next((value for key, value in own.items() if key.lower() == "gres"), made)
    # What stands in brackets, such as (S:0-1), has no comma that parts two resources.
    return [each for each in re.split(r",(?![^(]*\))", str(text or "")) if each]


def slurm_gpus(resources: list[str]) -> list[SlurmGpus]:
    """Return the GPUs among a class' resources."""
    found = filter(None, map(_GPUS.fullmatch, resources))
    return [SlurmGpus(each["type"] or "", int(each["count"] or 1)) for each in found]
