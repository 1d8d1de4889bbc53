"""Has each GPU joined the NVSwitch fabric?

Without it CUDA does not start (error 802, system not yet initialized), though every GPU looks healthy by itself.
States: Not Started, In Progress, Completed; only then does the status say how it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_fabric"
RULES = 3
PROBES: tuple[str, ...] = ("nvidia_smi",)
_HEALTHY = ("healthy", "full", "false", "no", "none")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of a class whose GPUs register with a fabric (Hopper and later, with NVSwitch)."""
    return list(gpu_subjects(expect).values()) if expect.nvlink and expect.nvlink.fabric else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge state, status, and what the driver says of the fabric's health."""
    domain = expect.nvlink and expect.nvlink.domain
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
        why = missing(fabric_state=state, fabric_status=status)
        if why:
            return unread(NAME, subject, why, wanted)
        return Finding(NAME, subject, PASS, found, wanted)

    return each_gpu(NAME, values, expect, judge)
