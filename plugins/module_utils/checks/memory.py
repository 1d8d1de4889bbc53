"""Is the host's memory of the declared size?

Where the class has GPU memory as NUMA nodes (Grace), the kernel's total has it too: the nodes with CPUs are added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.numa import Node
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "memory"
RULES = 2
PROBES: tuple[str, ...] = ("meminfo",)
# What of it is at which NUMA node.
OPTIONAL_PROBES: tuple[str, ...] = ("numa",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the size; the tolerance is what firmware and kernel may take for themselves."""
    mib: int = values["meminfo"].mib
    wanted, tolerance = expect.memory.mib, expect.memory.tolerance_percent
    if expect.numa and expect.numa.gpu_memory_nodes is not None:
        nodes: Mapping[int, Node] | None = values["numa"]
        if nodes is None:
            why = "could not be read: which part of the memory is the GPUs'"
            return [Finding(NAME, "host", INCOMPLETE, None, wanted, "MiB", why, "investigate")]
        mib = sum(node.mib for node in nodes.values() if node.cpus)
    if abs(mib - wanted) * 100 <= wanted * tolerance:
        return [Finding(NAME, "host", PASS, mib, wanted, "MiB")]
    why = f"{'less' if mib < wanted else 'more'} than declared by over {tolerance:g} %"
    return [Finding(NAME, "host", FAIL, mib, wanted, "MiB", why, "reseat" if mib < wanted else "investigate")]
