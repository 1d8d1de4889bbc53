"""Has HBM that failed been replaced by spare rows, and can more be?

NVIDIA's rule (A100 GPU memory error management): a pending remap takes effect at the next reset; the failure flag, not
a count, asks for the GPU's return. It is set when a bank had eight uncorrectable rows, a row failed again, or after
512.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu
from ..words.expectations import Expectations, RowRemap, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_row_remap"
RULES = 4
PROBES: tuple[str, ...] = ("nvidia_smi",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of a class whose GPUs have spare rows."""
    return list(gpu_subjects(expect).values()) if expect.gpu and expect.gpu.row_remap else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Fail on what waits for a reset or cannot be repaired; name what is to be watched."""
    return each_gpu(
        NAME, values, expect, lambda subject, gpu: _judged(subject, gpu, stated(stated(expect.gpu).row_remap))
    )


def _judged(subject: str, gpu: Gpu, limits: RowRemap) -> Finding:
    rows = gpu.remapped_rows
    if rows.failure:
        why = "a row of HBM could not be remapped: no spare row left where it failed"
        return Finding(NAME, subject, FAIL, "remapping failed", "no failure", "", why, "rma")
    if rows.uncorrectable is not None and rows.uncorrectable > limits.uncorrectable:
        why = f"{rows.uncorrectable} rows remapped after uncorrectable errors, class limit {limits.uncorrectable}"
        return Finding(NAME, subject, FAIL, rows.uncorrectable, limits.uncorrectable, "rows", why, "rma")
    if rows.pending:
        why = "a remapped row of HBM takes effect at the next reset; test the GPU again after it"
        return Finding(NAME, subject, FAIL, "remap pending", "none pending", "", why, "reset_gpu")
    why = missing(
        remapping_failure=rows.failure,
        remap_pending=rows.pending,
        rows_remapped_after_correctable_errors=rows.correctable,
        rows_remapped_after_uncorrectable_errors=rows.uncorrectable,
        banks_without_spare_rows=rows.banks_without_spare,
    )
    if why:
        return unread(NAME, subject, why, "no failure, none pending")
    counts = f"{rows.correctable} correctable, {rows.uncorrectable} uncorrectable"
    watched = []
    if rows.banks_without_spare:
        watched.append(f"{rows.banks_without_spare} banks have no spare row left: the next error there is a failure")
    if (rows.correctable or 0) > limits.correctable_watch:
        watched.append(
            f"{rows.correctable} rows remapped after correctable errors, more than {limits.correctable_watch}: "
            "such nodes tend to fail again"
        )
    if rows.uncorrectable:
        watched.append(f"{rows.uncorrectable} rows were remapped after uncorrectable errors")
    action = "investigate" if watched else "none"
    return Finding(NAME, subject, PASS, counts, "no failure, none pending", "rows", "; ".join(watched), action)
