"""Has each GPU joined the NVSwitch fabric, and all of the host the same part of it?

Without it CUDA does not start (error 802, system not yet initialized), though every GPU looks healthy by itself.
States: Not Started, In Progress, Completed; only then does the status say how it ended. GPUs whose cluster and clique
differ have no NVLink between them (NVML, nvmlGpuFabricInfo).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_fabric"
RULES = 4
PROBES: tuple[str, ...] = ("nvidia_smi",)
_HEALTHY = ("healthy", "full", "false", "no", "none")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of a class whose GPUs register with a fabric (Hopper and later, with NVSwitch)."""
    return list(gpu_subjects(expect).values()) if expect.nvlink and expect.nvlink.fabric else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge state, status, and what the driver says of the fabric's health."""
    domain = expect.nvlink and expect.nvlink.domain
    places = Counter(filter(None, map(_place, values["nvidia_smi"].gpus)))
    usual, most = places.most_common(1)[0] if places else ("", 0)
    manager = "the fabric manager of the rack's NVSwitches" if domain else "the fabric manager"

    def judge(subject: str, gpu: Gpu) -> Finding:
        wanted = "Completed, Success"
        state, status = gpu.fabric_state, gpu.fabric_status
        found = ", ".join(text for text in (state, status) if text)
        if state is not None and state.lower() != "completed":
            why = f"fabric state is {state}: {manager} has not registered the GPU"
            return Finding(NAME, subject, FAIL, found, wanted, "", why, "investigate")
        if state is not None and status is not None and status.lower() != "success":
            why = f"the GPU could not join the fabric: {status}"
            return Finding(NAME, subject, FAIL, found, wanted, "", why, "reset_gpu")
        sick = {name: value for name, value in gpu.fabric_health.items() if value.lower() not in _HEALTHY}
        if sick:
            why = "fabric health: " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sick.items())
            return Finding(NAME, subject, FAIL, found, wanted, "", why, "reset_gpu")
        place = _place(gpu)
        # Which domain the GPUs of a rack must be in is for nvlink_domain to say.
        if place and place != usual and not domain:
            why = f"in {place} of the fabric, {most} GPUs of the host are in {usual}: no NVLink between them"
            return Finding(NAME, subject, FAIL, place, usual, "", why, "investigate")
        why = missing(fabric_state=state, fabric_status=status)
        if why:
            return unread(NAME, subject, why, wanted)
        return Finding(NAME, subject, PASS, found, wanted)

    return each_gpu(NAME, values, expect, judge)


def _place(gpu: Gpu) -> str | None:
    """Return cluster and clique, None where the driver tells no clique."""
    return None if gpu.clique_id is None else f"clique {gpu.clique_id} of cluster {gpu.cluster_uuid}"
