"""Which NVLink domain a host's GPUs say that they are in: the cluster's UUID and the clique within it."""

from __future__ import annotations

from ..probes.nvidia_smi import Gpu, Gpus

# What a GPU says that no fabric beyond the host has taken in.
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"


def domain_of(gpus: Gpus) -> str | None:
    """Return the domain of the host's GPUs, such as ``9c6f5af3-53bf-49b5-a436-b66766c413c3/4026``.

    Where they differ, each that is named, joined by ",". None where there is no GPU, or one is lost or does not tell.
    """
    domains = [gpu_domain(gpu) for gpu in gpus.gpus]
    known = sorted({domain for domain in domains if domain is not None})
    return ",".join(known) if known and None not in domains and gpus.whole else None


def gpu_domain(gpu: Gpu) -> str | None:
    """Return one GPU's domain, or None where it does not tell cluster and clique."""
    if gpu.cluster_uuid is None or gpu.clique_id is None:
        return None
    return f"{gpu.cluster_uuid}/{gpu.clique_id}"
