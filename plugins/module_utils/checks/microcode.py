"""Do all CPUs run the same stepping and microcode, and the declared one where one is declared?

CPUs of arm64 have no microcode that the system tells: their variant and revision are compared alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.cpuinfo import LogicalCpu
from ..probes.lscpu import cores_of
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "microcode"
RULES = 2
PROBES: tuple[str, ...] = ("cpuinfo",)
# Counts the cores where the class does not.
OPTIONAL_PROBES: tuple[str, ...] = ("lscpu",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the CPU."""
    return ["cpu"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the CPUs with each other, then with the class: mixed ones differ in speed and in faults worked around."""
    cpus: Sequence[LogicalCpu] = values["cpuinfo"]
    wanted, cores = expect.cpu.microcode, cores_of(values, expect)
    expected = wanted or "the same on all CPUs"
    for what, of in (("model", "model"), ("microcode", "microcode")):
        counts = Counter(getattr(cpu, of) for cpu in cpus)
        if len(set(counts) - {None}) > 1:
            usual = counts.most_common(1)[0][0]
            odd = next(cpu for cpu in cpus if getattr(cpu, of) not in (usual, None))
            found = f"{getattr(odd, of)} on CPU {odd.number} (socket {odd.socket}), {usual} on {counts[usual]} others"
            why = f"{what} differs between CPUs: {found}"
            return [Finding(NAME, "cpu", FAIL, str(getattr(odd, of)), expected, "", why, "investigate")]
    models = {cpu.model for cpu in cpus}
    if None in models and (len(models) > 1 or not expect.cpu.has_microcode):
        known = sum(cpu.model is not None for cpu in cpus)
        why = f"model of {known} of {len(cpus)} CPUs read"
        return [Finding(NAME, "cpu", INCOMPLETE, None, expected, "", why, "investigate")]
    if not expect.cpu.has_microcode:
        return [_without_microcode(cpus, cores)]
    versions = {cpu.microcode for cpu in cpus}
    if None in versions or cores is None or len(cpus) % cores:
        known = sum(cpu.microcode is not None for cpu in cpus)
        why = f"microcode of {known} CPUs read, expected some multiple of {cores or 'an unknown number of'} cores"
        return [Finding(NAME, "cpu", INCOMPLETE, None, expected, "", why, "investigate")]
    version = str(cpus[0].microcode)
    if wanted is None:
        why = "no version declared: CPUs compared with each other alone"
        return [Finding(NAME, "cpu", PASS, version, expected, "", why)]
    if version != wanted:
        return [Finding(NAME, "cpu", FAIL, version, wanted, "", "another version of microcode", "investigate")]
    return [Finding(NAME, "cpu", PASS, version, wanted)]


def _without_microcode(cpus: Sequence[LogicalCpu], cores: int | None) -> Finding:
    expected = "the same on all CPUs"
    if cores is None or len(cpus) % cores:
        why = f"model of {len(cpus)} CPUs read, expected some multiple of {cores or 'an unknown number of'} cores"
        return Finding(NAME, "cpu", INCOMPLETE, None, expected, "", why, "investigate")
    why = "arm64 has no microcode: variant and revision of the CPUs compared with each other"
    return Finding(NAME, "cpu", PASS, cpus[0].model, expected, "", why)
