"""The lines of gres.conf for GPUs: by their device files, or found by a plugin of slurmd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import EXPLICIT
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.generic_resources import Gpus, SlurmGpus


def gpu_lines(how: str, asked: Sequence[SlurmGpus], gpus: Gpus | None, cores: int) -> list[str]:
    """Return what gres.conf says of a class' GPUs behind ``NodeName=``.

    ``how`` is ``explicit`` or the plugin that finds them; ``asked`` is what slurm.conf says of them, ``gpus`` what the
    class does, and ``cores`` how many its nodes have, 0 where slurm.conf does not say.
    """
    if how != EXPLICIT:
        return [f"AutoDetect={how}"] if asked else []
    if gpus is None:
        return []
    root, lines, start = gpus.root.rstrip("/"), list[str](), 0
    for each in asked:
        kind = f" Type={each.type}" if each.type else ""
        for first, last, beside in _by_place(gpus, range(start, start + each.count), cores):
            files = f"{root}/dev/nvidia{first if first == last else f'[{first}-{last}]'}"
            lines.append(f"Name=gpu{kind} File={files}{beside} Flags=nvidia_gpu_env")
        start += each.count
    return lines


def _by_place(gpus: Gpus, files: range, cores: int) -> Iterator[tuple[int, int, str]]:
    """Yield the numbers of the first and last device file of GPUs at one NUMA node, and `` Cores=`` beside them.

    Slurm counts cores socket by socket, as hwloc does, so those of a NUMA node follow each other (gres.conf(5)). All
    GPUs are one entry, and no cores are named, where the fleet file has not declared what this takes.
    """
    nodes = gpus.numa_nodes
    if len(gpus.places) != gpus.count or max(gpus.places) >= nodes or not cores or cores % nodes:
        yield files[0], files[-1], ""
        return
    each = cores // nodes
    for node, together in groupby(files, key=gpus.places.__getitem__):
        numbers = list(together)
        yield numbers[0], numbers[-1], f" Cores={node * each}-{(node + 1) * each - 1}"
