"""Are the GPU's modes those of a compute node: ECC on, MIG off, the driver kept loaded (persistence)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_settings"
RULES = 2
PROBES: tuple[str, ...] = ("nvidia_smi",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Name the modes that are wrong now, or will be after the next reset."""

    def judge(subject: str, gpu: Gpu) -> Finding:
        wanted = _words(ecc=True, mig=False, persistence=stated(expect.gpu).persistence or None)
        found = _words(gpu.ecc, gpu.mig, gpu.persistence if stated(expect.gpu).persistence else None)
        wrong = [
            f"{mode} is {'on' if state else 'off'}{when}, expected {'on' if right else 'off'}"
            for mode, right, states in (
                ("ECC", True, ((gpu.ecc, ""), (gpu.ecc_pending, " after the next reset"))),
                ("MIG", False, ((gpu.mig, ""), (gpu.mig_pending, " after the next reset"))),
            )
            for state, when in states
            if state is not None and state is not right
        ]
        if wrong:
            # The driver changes both only when the GPU is reset.
            return Finding(NAME, subject, FAIL, found, wanted, "", "; ".join(wrong), "reset_gpu")
        if stated(expect.gpu).persistence and gpu.persistence is False:
            why = "persistence mode is off: nvidia-persistenced does not run, every job loads the driver again"
            return Finding(NAME, subject, FAIL, found, wanted, "", why, "investigate")
        why = missing(
            ECC=gpu.ecc,
            ECC_pending=gpu.ecc_pending,
            MIG=gpu.mig,
            MIG_pending=gpu.mig_pending,
            persistence=gpu.persistence if stated(expect.gpu).persistence else False,
        )
        if why:
            return unread(NAME, subject, why, wanted)
        return Finding(NAME, subject, PASS, found, wanted)

    return each_gpu(NAME, values, expect, judge)


def _words(ecc: bool | None, mig: bool | None, persistence: bool | None) -> str:
    states = {"ECC": ecc, "MIG": mig, "persistence": persistence}
    return ", ".join(f"{name} {'on' if state else 'off'}" for name, state in states.items() if state is not None)
