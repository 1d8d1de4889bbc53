"""Can the installed perftest test the rails as the class asks: out of the memory of GPUs, by the fabric's way there?

Distributions build it without CUDA. Stage fabric would find out after it took the node from the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nic.peer_memory import DMABUF
from ..rail_test.perftest import CUDA, CUDA_DMABUF
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "perftest"
RULES = 2
PROBES: tuple[str, ...] = ("perftest",)
SUBJECT = "perftest"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the one part where rails are tested out of the memory of GPUs."""
    rails = expect.fabric is not None and expect.nic is not None
    return [SUBJECT] if rails and expect.gpu is not None and stated(expect.rdma).gpu_direct else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the options that it has with those that the test will use."""
    if not subjects(expect):
        return []
    options: frozenset[str] = values["perftest"]
    wanted = (CUDA, CUDA_DMABUF) if stated(expect.fabric).peer_memory == DMABUF else (CUDA,)
    found = [option for option in wanted if option in options]
    compared = (" ".join(found) or "none", " ".join(wanted))
    if len(found) == len(wanted):
        return [Finding(NAME, SUBJECT, PASS, *compared)]
    lacks = f"has no {CUDA_DMABUF}, which fabric.peer_memory asks for" if CUDA in found else "was built without CUDA"
    why = f"ib_write_bw {lacks}: declare perftest in gpu_stack_tools (role gpu_stack)"
    return [Finding(NAME, SUBJECT, FAIL, *compared, "", why, "investigate")]
