"""Does NVML see every GPU of an idle node, without memory errors and without an action that the driver asks for?

A node whose GPUs are in use is not asked: a library call would wait behind the job's own, and the kernel's log tells of
its faults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import missing, unread
from ..probes.nvml import LOST, RESET_REQUIRED, Nvml, NvmlGpu
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "nvml"
RULES = 3
PROBES: tuple[str, ...] = ("nvml",)
IDLE_ONLY = True
# nvmlGpuRecoveryAction_t of nvml.h.
_RECOVERY = {1: ("GPU reset", "reset_gpu"), 2: ("node reboot", "reboot"), 3: ("drain P2P", "reset_gpu")}
_RECOVERY[4] = ("drain and reset", "reset_gpu")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of a class that names NVML's library."""
    return list(gpu_subjects(expect).values()) if expect.gpu and expect.gpu.nvml else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for each GPU."""
    answer: Nvml = values["nvml"]
    parts = gpu_subjects(expect)
    if answer.busy:
        why = f"the GPUs are in use by {answer.busy}"
        return [unread(NAME, part, why, "no error") for part in parts.values()]
    remaps = stated(expect.gpu).row_remap is not None
    return [
        _judged(part, answer.gpus[address], remaps) if address in answer.gpus else _unseen(part, answer.refused)
        for address, part in parts.items()
    ]


def _unseen(part: str, refused: Sequence[int]) -> Finding:
    """Return the finding on a GPU that did not answer: one that gives no handle is known by its absence alone."""
    why = "NVML does not see it"
    if refused:
        lost = f", {refused.count(LOST)} as lost" if LOST in refused else ""
        why += f", and refuses {len(refused)} of the GPUs that it counts{lost}"
    return Finding(NAME, part, FAIL, "absent", "present", "", why, "reboot")


def _judged(part: str, gpu: NvmlGpu, remaps: bool) -> Finding:
    if gpu.status == LOST:
        return Finding(NAME, part, FAIL, "lost", "present", "", "NVML calls it lost", "reboot")
    if gpu.status == RESET_REQUIRED:
        why = "NVML says that it has to be reset"
        return Finding(NAME, part, FAIL, "reset required", "none", "", why, "reset_gpu")
    if gpu.remap_failure:
        why = "a row of HBM could not be remapped"
        return Finding(NAME, part, FAIL, "remapping failed", "no failure", "", why, "rma")
    if gpu.recovery:
        what, action = _RECOVERY.get(gpu.recovery, (f"action {gpu.recovery}", "investigate"))
        return Finding(NAME, part, FAIL, what, "none", "", f"the driver asks for a {what}", action)
    if gpu.ecc_uncorrected:
        why = "uncorrectable memory errors since the driver was loaded"
        return Finding(NAME, part, FAIL, gpu.ecc_uncorrected, 0, "errors", why, "reset_gpu")
    if gpu.remap_pending:
        why = "a remapped row of HBM takes effect at the next reset"
        return Finding(NAME, part, FAIL, "remap pending", "none pending", "", why, "reset_gpu")
    # Drivers before 565 know no recovery action.
    needed = {"uncorrectable_errors": gpu.ecc_uncorrected, "status": gpu.status}
    if remaps:
        needed.update({"remapping_failure": gpu.remap_failure, "remap_pending": gpu.remap_pending})
    why = missing(**needed)
    return unread(NAME, part, why, "no error") if why else Finding(NAME, part, PASS, 0, 0, "errors")
