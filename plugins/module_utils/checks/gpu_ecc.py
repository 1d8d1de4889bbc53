"""Do the GPU's memory error counters stay within what NVIDIA and others accept?

Volatile counters begin at the last load of the driver, aggregate ones at the board's birth. An uncorrectable error in
HBM costs a row (gpu_row_remap), one in SRAM (caches, registers) has no spare: too many of them end the board's life.
HBM errors of the past ask for no return by themselves: rows that could not be replaced do (NVIDIA, GPU memory error
management, "RMA Policy Thresholds for Row-Remapping"). They are a remark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu
from ..words.expectations import Ecc, Expectations, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_ecc"
RULES = 4
PROBES: tuple[str, ...] = ("nvidia_smi",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give the worst that each GPU's counters say."""
    return each_gpu(NAME, values, expect, lambda subject, gpu: _judged(subject, gpu, stated(expect.gpu).ecc))


def _judged(subject: str, gpu: Gpu, limits: Ecc | None) -> Finding:
    now, ever = gpu.volatile, gpu.aggregate

    def fail(measured: Any, expected: Any, unit: str, why: str, action: str) -> Finding:
        return Finding(NAME, subject, FAIL, measured, expected, unit, why, action)

    if gpu.sram_threshold_exceeded:
        return fail("exceeded", "not exceeded", "", "SRAM errors exceed the driver's threshold (NVIDIA: RMA)", "rma")
    if gpu.memory_unrepairable:
        return fail("unrepairable", "repairable", "", "the driver calls the GPU's memory unrepairable", "rma")
    most = limits.sram_uncorrectable_aggregate if limits else None
    if most is not None and ever.sram_uncorrectable is not None and ever.sram_uncorrectable > most:
        why = f"{ever.sram_uncorrectable} uncorrectable SRAM errors in the GPU's life, class limit {most}: ask for RMA"
        return fail(ever.sram_uncorrectable, most, "errors", why, "rma")
    for memory, count in (
        ("SRAM ", now.sram_uncorrectable),
        ("HBM ", now.dram_uncorrectable),
        ("", now.uncorrectable),
    ):
        if count:
            why = f"{count} uncorrectable {memory}errors since the driver was loaded, class limit 0: reset, test again"
            return fail(count, 0, "errors", why, "reset_gpu")
    if gpu.repair_pending:
        why = "a repair of memory channel or processor cluster takes effect at the next reset"
        return fail("repair pending", "none pending", "", why, "reset_gpu")
    unclear = f"neither Yes nor No: {', '.join(gpu.not_understood)}" if gpu.not_understood else ""
    if limits is None:
        # Without ECC nothing is counted; what the driver says of the memory itself counts all the same.
        if unclear:
            return unread(NAME, subject, unclear)
        return Finding(NAME, subject, PASS, "no ECC", "no ECC")
    for memory, count, limit in (
        ("SRAM", now.sram_correctable, limits.sram_correctable),
        ("HBM", now.dram_correctable, limits.dram_correctable),
    ):
        if count is not None and count > limit:
            why = f"{count} corrected {memory} errors since the driver was loaded, class limit {limit}"
            return fail(count, limit, "errors", why, "investigate")
    why = missing(
        volatile_uncorrectable_SRAM_errors=now.sram_uncorrectable,
        volatile_uncorrectable_HBM_errors=now.dram_uncorrectable,
        volatile_corrected_SRAM_errors=now.sram_correctable,
        volatile_corrected_HBM_errors=now.dram_correctable,
        aggregate_uncorrectable_SRAM_errors=ever.sram_uncorrectable,
        SRAM_threshold=gpu.sram_threshold_exceeded if limits.sram_threshold else False,
    )
    why = "; ".join(filter(None, (why, unclear)))
    if why:
        return unread(NAME, subject, why, 0, "errors")
    past = [
        f"{n} uncorrectable {memory}"
        for memory, n in (("SRAM", ever.sram_uncorrectable), ("HBM", ever.dram_uncorrectable))
        if n
    ]
    if past:
        why = f"{' and '.join(past)} errors in the GPU's life, none since the driver was loaded"
        return Finding(NAME, subject, PASS, 0, 0, "errors", why, "investigate")
    return Finding(NAME, subject, PASS, 0, 0, "errors")
