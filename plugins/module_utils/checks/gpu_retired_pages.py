"""Has a GPU from before Ampere retired too many pages, or some that wait for the driver to be loaded anew?

Later GPUs remap rows instead (gpu_row_remap) and tell no retired pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_retired_pages"
RULES = 3
PROBES: tuple[str, ...] = ("nvidia_smi",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of a class whose GPUs retire pages."""
    return list(gpu_subjects(expect).values()) if expect.gpu and expect.gpu.retired_pages is not None else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the retired pages of both kinds with the class."""

    def judge(subject: str, gpu: Gpu) -> Finding:
        pages, limit = gpu.retired_pages, stated(stated(expect.gpu).retired_pages)
        total = (pages.single_bit or 0) + (pages.double_bit or 0)
        if total > limit:
            why = f"{pages.single_bit} pages retired for single, {pages.double_bit} for double bit errors, class limit"
            return Finding(NAME, subject, FAIL, total, limit, "pages", f"{why} {limit} in all", "rma")
        if pages.pending:
            why = "retired pages take effect when the driver is loaded again"
            return Finding(NAME, subject, FAIL, "pending", "none pending", "", why, "reset_gpu")
        why = missing(
            pages_of_single_bit_errors=pages.single_bit,
            pages_of_double_bit_errors=pages.double_bit,
            retirement_pending=pages.pending,
        )
        if why:
            return unread(NAME, subject, why, limit, "pages")
        return Finding(NAME, subject, PASS, total, limit, "pages")

    return each_gpu(NAME, values, expect, judge)
