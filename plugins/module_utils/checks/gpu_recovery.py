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
RULES = 2
PROBES: tuple[str, ...] = ("nvidia_smi",)


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
        action = "reboot" if "reboot" in asked.lower() else "reset_gpu"
        return Finding(NAME, subject, FAIL, asked, "None", "", f"the driver asks for: {asked}", action)

    return each_gpu(NAME, values, expect, judge)
