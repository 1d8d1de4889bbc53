"""Is each GPU allowed the power of its class, by its own default and by what holds now?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_power"
RULES = 2
PROBES: tuple[str, ...] = ("nvidia_smi",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the default and the enforced power limit with the class."""

    def judge(subject: str, gpu: Gpu) -> Finding:
        wanted = stated(expect.gpu).power_limit_watts
        why = missing(default_power_limit=gpu.power_default_watts, enforced_power_limit=gpu.power_enforced_watts)
        if why:
            return unread(NAME, subject, why, wanted, "W")
        if gpu.power_default_watts != wanted:
            why = f"default power limit is {gpu.power_default_watts:g} W, class limit {wanted} W: other board or VBIOS"
            return Finding(NAME, subject, FAIL, gpu.power_default_watts, wanted, "W", why, "investigate")
        if gpu.power_enforced_watts != wanted:
            why = f"enforced power limit is {gpu.power_enforced_watts:g} W, class limit {wanted} W: set it back"
            return Finding(NAME, subject, FAIL, gpu.power_enforced_watts, wanted, "W", why, "investigate")
        return Finding(NAME, subject, PASS, gpu.power_enforced_watts, wanted, "W")

    return each_gpu(NAME, values, expect, judge)
