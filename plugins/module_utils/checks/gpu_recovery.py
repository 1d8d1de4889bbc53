"""Does the driver itself ask for a GPU to be reset or the host to be rebooted?

Drivers from 570 on name the action (``GPU Recovery Action``), 535 and 550 tell whether a reset is required or
recommended; any of them may say ``GPU requires reset`` in the place of a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, unread
from ..probes.nvidia_smi import Gpu
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_recovery"
RULES = 3
PROBES: tuple[str, ...] = ("nvidia_smi",)
# What a driver asks for, and what a person has to do then: nvmlDeviceGpuRecoveryAction_t of NVML 570 to 615, as
# nvidia-smi writes it. "Reset" and "Drain and Reset" stand for the older flags too.
_ACTIONS = {
    "reset": "reset_gpu",
    "gpu reset": "reset_gpu",
    "bus reset": "reset_gpu",
    "drain p2p": "reset_gpu",
    "drain and reset": "reset_gpu",
    "reboot": "reboot",
    "node reboot": "reboot",
    "system reboot": "reboot",
    "recover imex domain": "investigate",
}


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Pass on what the driver asks for."""

    def judge(subject: str, gpu: Gpu) -> Finding:
        asked = gpu.recovery_action
        if asked is None:
            return unread(NAME, subject, "could not be read: recovery action", "None")
        if asked.lower() == "none":
            return Finding(NAME, subject, PASS, asked, "None")
        action = _ACTIONS.get(asked.lower())
        if action is None:
            return unread(NAME, subject, f"the driver asks for {asked!r}, which is not known", "None")
        return Finding(NAME, subject, FAIL, asked, "None", "", f"the driver asks for: {asked}", action)

    return each_gpu(NAME, values, expect, judge)
