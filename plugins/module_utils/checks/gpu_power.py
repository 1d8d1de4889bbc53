"""Is each GPU allowed the power of its class, do its sensors answer, and is it no hotter than its driver allows?

Heat is judged against what nvidia-smi itself says (highest operating temperature, or what is left to it) and against
the class' limit under load: whoever is above it idle has no cooling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu, Heat
from ..words.expectations import Expectations, Telemetry, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_power"
RULES = 4
PROBES: tuple[str, ...] = ("nvidia_smi",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the default and the enforced power limit with the class."""

    def judge(subject: str, gpu: Gpu) -> Finding:
        wanted = stated(expect.gpu).power_limit_watts
        if gpu.sensor_errors:
            said = ", ".join(f"{sensor} says {error!r}" for sensor, error in gpu.sensor_errors.items())
            why = f"a sensor does not answer: {said}; reset the GPU, test again"
            return Finding(NAME, subject, FAIL, said, "numbers", "", why, "reset_gpu")
        hot = _hot(gpu.heat, expect.telemetry)
        if hot:
            measured, limit, why = hot
            return Finding(NAME, subject, FAIL, measured, limit, "C", f"{why}: check cooling", "investigate")
        why = missing(default_power_limit=gpu.power_default_watts, enforced_power_limit=gpu.power_enforced_watts)
        if why:
            return unread(NAME, subject, why, wanted, "W")
        if gpu.power_default_watts != wanted:
            why = f"default power limit is {gpu.power_default_watts:g} W, class limit {wanted} W: other board or VBIOS"
            return Finding(NAME, subject, FAIL, gpu.power_default_watts, wanted, "W", why, "investigate")
        if gpu.power_enforced_watts != wanted:
            why = f"enforced power limit is {gpu.power_enforced_watts:g} W, class limit {wanted} W: set it back"
            return Finding(NAME, subject, FAIL, gpu.power_enforced_watts, wanted, "W", why, "investigate")
        # A chip at 0 C or a board that draws nothing is one that does not measure.
        owes_memory = expect.telemetry is not None and expect.telemetry.memory_temperature_celsius is not None
        why = missing(
            temperature=gpu.heat.gpu or None,
            power_draw=gpu.power_watts or None,
            memory_temperature=(gpu.heat.memory or None) if owes_memory else 0,
        )
        if why:
            return unread(NAME, subject, why, wanted, "W")
        return Finding(NAME, subject, PASS, gpu.power_enforced_watts, wanted, "W")

    return each_gpu(NAME, values, expect, judge)


def _hot(heat: Heat, limits: Telemetry | None) -> tuple[float, float, str] | None:
    """Return what was measured, the limit and why, of the first limit that is exceeded."""
    of_class = (limits.temperature_celsius, limits.memory_temperature_celsius) if limits else (None, None)
    for what, celsius, most, whose in (
        ("GPU", heat.gpu, heat.gpu_most, "that nvidia-smi says itself"),
        ("memory", heat.memory, heat.memory_most, "that nvidia-smi says itself"),
        ("GPU", heat.gpu, of_class[0], "of the class"),
        ("memory", heat.memory, of_class[1], "of the class"),
    ):
        if celsius is not None and most is not None and celsius > most:
            return celsius, most, f"{what} at {celsius:g} C, above the {most:g} C {whose}"
    # NVIDIA counts T.Limit down to the highest operating temperature: 0 on every product that tells it.
    least = heat.left_least or 0
    if heat.left is not None and heat.left < least:
        why = f"{heat.left:g} C left to the GPU's highest operating temperature (T.Limit), at least {least:g}"
        return heat.left, least, why
    return None
