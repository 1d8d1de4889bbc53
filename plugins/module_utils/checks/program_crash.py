"""Did programs die within NVIDIA's or NCCL's libraries since boot?

The log cannot tell a program's own fault from memory that went bad under it: while a host is burned in, either counts.
Formats: the kernel's arch/x86/mm/fault.c and, where debug.exception-trace is on, arch/arm64/kernel/traps.c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.log_faults import HOST, faults_in, findings_of, rule
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import FAIL, Finding

NAME = "program_crash"
RULES = 3
PROBES: tuple[str, ...] = ("kernel_log",)

_WORDS = ("segfault", "general protection", "trap", "unhandled exception")
_LIBRARY = r"in (?P<library>lib(?:nccl|cuda|cudart|cublas|nvidia|nvml)[\w.-]*)"
_RULES = (
    rule(r"\[\d+\]: segfault .* " + _LIBRARY, "a program crashed in {library}", FAIL, "investigate"),
    rule(r"\[\d+\]: unhandled exception: .* " + _LIBRARY, "a program crashed in {library}", FAIL, "investigate"),
    rule(
        r"traps: .* (?:general protection|trap) .* " + _LIBRARY, "a program crashed in {library}", FAIL, "investigate"
    ),
)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, where the class has GPUs."""
    return [HOST] if gpu_subjects(expect) else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host."""
    return findings_of(NAME, faults_in(values["kernel_log"], _RULES, _WORDS), [HOST])
