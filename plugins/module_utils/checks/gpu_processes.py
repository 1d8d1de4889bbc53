"""Is the GPU free: no process on it, and no memory held by one that is gone?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_processes"
RULES = 3
PROBES: tuple[str, ...] = ("nvidia_smi",)
# Under load the stress' own program is on the GPU.
IDLE_ONLY = True
# More names than these in one reason help nobody; the raw output is kept.
_NAMED = 5


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Name the processes on each GPU; without one, compare the memory in use with the class."""

    def judge(subject: str, gpu: Gpu) -> Finding:
        if gpu.processes:
            named = ", ".join(f"{one.pid} ({one.name or 'unknown'})" for one in gpu.processes[:_NAMED])
            why = f"other processes use the GPU: {named}"
            return Finding(NAME, subject, FAIL, len(gpu.processes), 0, "processes", why, "restart_app")
        limit = stated(expect.gpu).idle_memory_mib
        used = gpu.memory_used_mib
        if used is not None and used > limit:
            why = f"{used} MiB of memory in use and no process that uses it, class limit {limit} MiB"
            return Finding(NAME, subject, FAIL, used, limit, "MiB", why, "reset_gpu")
        why = missing(processes=gpu.processes, memory_in_use=used)
        if why:
            return unread(NAME, subject, why, limit, "MiB")
        return Finding(NAME, subject, PASS, used, limit, "MiB")

    return each_gpu(NAME, values, expect, judge)
