"""Are the GPU's modes those of a compute node: ECC on, MIG off, open to every program, clocks free, persistence?

Compute modes: Default; Exclusive_Process and Exclusive_Thread turn a second program away, Prohibited every one. Set
clocks (application clocks) are judged against what they were at first; drivers from 580 on do not tell them any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, missing, unread
from ..probes.nvidia_smi import Gpu, Gpus
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_settings"
RULES = 3
PROBES: tuple[str, ...] = ("nvidia_smi",)
_CLOSED = {
    "Prohibited": "no program may use the GPU",
    "Exclusive_Process": "only one program at a time may use the GPU",
    "Exclusive_Thread": "only one thread at a time may use the GPU",
}


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Name the modes that are wrong now, or will be after the next reset."""

    report: Gpus = values["nvidia_smi"]
    boards = report.gpus

    def judge(subject: str, gpu: Gpu) -> Finding:
        with_ecc = stated(expect.gpu).ecc is not None
        wanted = _words(with_ecc, mig=False, persistence=stated(expect.gpu).persistence or None)
        found = _words(gpu.ecc, gpu.mig, gpu.persistence if stated(expect.gpu).persistence else None)
        wrong = [
            f"{mode} is {'on' if state else 'off'}{when}, expected {'on' if right else 'off'}"
            for mode, right, states in (
                ("ECC", with_ecc, ((gpu.ecc, ""), (gpu.ecc_pending, " after the next reset"))),
                ("MIG", False, ((gpu.mig, ""), (gpu.mig_pending, " after the next reset"))),
            )
            for state, when in states
            if state is not None and state is not right
        ]
        if wrong:
            # The driver changes both only when the GPU is reset.
            return Finding(NAME, subject, FAIL, found, wanted, "", "; ".join(wrong), "reset_gpu")
        if gpu.compute_mode in _CLOSED:
            why = f"compute mode is {gpu.compute_mode}: {_CLOSED[gpu.compute_mode]}, expected Default"
            return Finding(NAME, subject, FAIL, gpu.compute_mode, "Default", "", why, "investigate")
        why = _lowered(gpu, boards)
        if why:
            return Finding(NAME, subject, FAIL, gpu.clock_set_mhz, gpu.clock_default_mhz, "MHz", why, "investigate")
        if stated(expect.gpu).persistence and gpu.persistence is False:
            why = "persistence mode is off: nvidia-persistenced does not run, every job loads the driver again"
            return Finding(NAME, subject, FAIL, found, wanted, "", why, "investigate")
        # A driver tells both or neither.
        clocks = [clock for clock in (gpu.clock_set_mhz, gpu.clock_default_mhz) if clock is not None]
        why = missing(
            ECC=gpu.ecc,
            ECC_pending=gpu.ecc_pending,
            MIG=gpu.mig,
            MIG_pending=gpu.mig_pending,
            application_clocks_beside_their_default=None if len(clocks) == 1 else 0,
            compute_mode=gpu.compute_mode if gpu.compute_mode == "Default" else None,
            persistence=gpu.persistence if stated(expect.gpu).persistence else False,
        )
        if why:
            return unread(NAME, subject, why, wanted)
        return Finding(NAME, subject, PASS, found, wanted)

    return each_gpu(NAME, values, expect, judge)


def _lowered(gpu: Gpu, boards: Sequence[Gpu]) -> str:
    """Return why the GPU may not run as fast as it could, "" where nothing says so."""
    if (
        gpu.clock_set_mhz is not None
        and gpu.clock_default_mhz is not None
        and gpu.clock_set_mhz < gpu.clock_default_mhz
    ):
        return (
            f"application clocks are set to {gpu.clock_set_mhz} MHz, below their default of {gpu.clock_default_mhz} MHz"
        )
    highest, boost = gpu.clock_max_mhz, gpu.clock_max_boost_mhz
    if highest is None:
        return ""
    if boost is not None and highest < boost:
        return f"the highest clock is {highest} MHz, below the {boost} MHz that users may set"
    others = max(board.clock_max_mhz or 0 for board in boards)
    if highest < others:
        return f"the highest clock is {highest} MHz, other GPUs of the node have {others} MHz"
    return ""


def _words(ecc: bool | None, mig: bool | None, persistence: bool | None) -> str:
    states = {"ECC": ecc, "MIG": mig, "persistence": persistence}
    return ", ".join(f"{name} {'on' if state else 'off'}" for name, state in states.items() if state is not None)
