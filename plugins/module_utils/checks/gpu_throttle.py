"""Does anything but idleness or the power limit slow a GPU down?

At full load the power limit (SW power cap) is what holds a healthy GPU back, and an idle one lowers its clocks. Heat
and the power brake (a signal of the host's power supply) are faults of the host or the part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_throttle"
RULES = 3
PROBES: tuple[str, ...] = ("nvidia_smi",)
# Under load a short dip is no fault: gpu_telemetry counts the seconds.
IDLE_ONLY = True

_FAULTS = {
    "hw_power_brake_slowdown": "power brake (the host's power supply asks for it)",
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "sw_thermal_slowdown": "software thermal slowdown",
    "hw_slowdown": "hardware slowdown",
}


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Name the reasons that hold now and should not."""

    def judge(subject: str, gpu: Gpu) -> Finding:
        found = [words for reason, words in _FAULTS.items() if gpu.throttle.get(reason)]
        if found:
            at = "" if gpu.heat.gpu is None else f" at {gpu.heat.gpu:g} C"
            why = f"slowed down{at} by {', '.join(found)}: check cooling and power, test again under load"
            return Finding(NAME, subject, FAIL, ", ".join(found), "none", "", why, "investigate")
        why = missing(**{reason: gpu.throttle.get(reason) for reason in _FAULTS})
        if why:
            return unread(NAME, subject, why, "none")
        return Finding(NAME, subject, PASS, "none", "none")

    return each_gpu(NAME, values, expect, judge)
