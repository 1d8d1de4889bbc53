"""Do all CPUs run under the declared frequency governor?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.lscpu import cores_of
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "cpu_governor"
RULES = 2
PROBES: tuple[str, ...] = ("cpufreq",)
# Counts the cores where the class does not.
OPTIONAL_PROBES: tuple[str, ...] = ("lscpu",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the CPU, unless the class has no frequency scaling (guests of a cloud)."""
    return [] if expect.cpu.governor is None else ["cpu"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare each CPU's governor; one slow CPU holds up a whole collective."""
    governors: Mapping[int, str] = values["cpufreq"]
    wanted, cores = expect.cpu.governor, cores_of(values, expect)
    wrong = {cpu: name for cpu, name in sorted(governors.items()) if name != wanted}
    if wrong:
        cpu, name = next(iter(wrong.items()))
        why = f"governor of {len(wrong)} of {len(governors)} CPUs is not {wanted}, of CPU {cpu} first"
        measured = ", ".join(sorted(Counter(wrong.values()))) if len(wrong) > 1 else name
        return [Finding(NAME, "cpu", FAIL, measured, wanted, "", why, "investigate")]
    if cores is None or len(governors) % cores:
        known = cores or "an unknown number of"
        why = f"governors of {len(governors)} CPUs read, expected some multiple of {known} cores"
        return [Finding(NAME, "cpu", INCOMPLETE, wanted, wanted, "", why, "investigate")]
    return [Finding(NAME, "cpu", PASS, wanted, wanted)]
