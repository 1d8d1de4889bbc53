"""The lines of gres.conf for GPUs: by their device files, or found by a plugin of slurmd."""

from __future__ import annotations

from itertools import groupby

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import EXPLICIT
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.generic_resources import Gpus, SlurmGpus


def gpu_lines(how: str, asked: SlurmGpus, gpus: Gpus | None, cores: int) -> list[str]:
    """Return what gres.conf says of a class' GPUs behind ``NodeName=``.

    ``how`` is ``explicit`` or the plugin that finds them; ``asked`` is what slurm.conf says of them, ``gpus`` what the
    class does, and ``cores`` how many its nodes have, 0 where slurm.conf does not say.
    """
    if how != EXPLICIT:
        return [f"AutoDetect={how}"]
    if gpus is None:
        return []
    kind, root = f" Type={asked.type}" if asked.type else "", gpus.root.rstrip("/")
    lines = []
    for first, last, beside in _by_place(gpus, asked.count, cores):
        files = f"{root}/dev/nvidia{first if first == last else f'[{first}-{last}]'}"
        lines.append(f"Name=gpu{kind} File={files}{beside} Flags=nvidia_gpu_env")
    return lines


def _by_place(gpus: Gpus, count: int, cores: int) -> list[tuple[int, int, str]]:
    """Return the numbers of the first and last device file of GPUs at one NUMA node, and `` Cores=`` beside them.

    Slurm counts cores socket by socket, as hwloc does, so those of a NUMA node follow each other (gres.conf(5)). All
    GPUs are one entry, and no cores are named, where the fleet file has not declared what this takes.
    """
    nodes = gpus.numa_nodes
    if len(gpus.places) != count or max(gpus.places) >= nodes or not cores or cores % nodes:
        return [(0, count - 1, "")]
    each, found = cores // nodes, list[tuple[int, int, str]]()
    for node, files in groupby(range(count), key=gpus.places.__getitem__):
        numbers = list(files)
        found.append((numbers[0], numbers[-1], f" Cores={node * each}-{(node + 1) * each - 1}"))
    return found
