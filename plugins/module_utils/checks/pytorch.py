"""Is the class' PyTorch there, in the version that the class names, and can the driver run what it was built for?

Loads of GPUs, collectives and checkpoints need it. Their stages would find out after they took the node from the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.cuda_driver import driver_lacking
from ..probes.nvidia_smi import Gpus
from ..probes.pytorch import PyTorch
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "pytorch"
RULES = 2
PROBES: tuple[str, ...] = ("pytorch",)
OPTIONAL_PROBES: tuple[str, ...] = ("nvidia_smi",)
SUBJECT = "pytorch"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the one part: every class says what its collectives are, and PyTorch runs them."""
    return [SUBJECT]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare what the class' Python has with what is asked of it."""
    found: PyTorch = values["pytorch"]
    python, version = expect.pytorch.python, expect.pytorch.version
    compared = (found.torch or "none", version or "any")
    lacking = _lacking(found, python)
    if lacking:
        # Nobody brought it here: that says nothing against the host.
        why = (
            f"{lacking}: declare gpu_stack_pytorch, or name the Python that has PyTorch as pytorch.python of the class"
        )
        return [Finding(NAME, SUBJECT, INCOMPLETE, *compared, "", why, "investigate")]
    if version is not None and found.torch != version:
        why = f"{python} has PyTorch {found.torch}, expected {version} (pytorch.version of the class)"
        return [Finding(NAME, SUBJECT, FAIL, *compared, "", why, "investigate")]
    asked = _cuda_asked(expect)
    if asked:
        verdict, why = _cuda(found, values.get("nvidia_smi"), asked)
        if verdict != PASS:
            return [Finding(NAME, SUBJECT, verdict, *compared, "", why, "investigate")]
    return [Finding(NAME, SUBJECT, PASS, *compared)]


def _lacking(found: PyTorch, python: str) -> str:
    if found.absent:
        return f"no Python could be started as {python} ({found.absent})"
    missing = [name for name, has in (("torch", found.torch), ("numpy", found.numpy)) if has is None]
    return f"{python} ({found.prefix}) has no {' and no '.join(missing)}" if missing else ""


def _cuda_asked(expect: Expectations) -> str:
    """Return which key of the class asks for a build with CUDA, "" where none does."""
    if expect.gpu_stress is not None and expect.gpu_stress.device == "cuda":
        return "gpu_stress.device is cuda"
    return "collective.backend is nccl" if expect.collective.backend == "nccl" else ""


def _cuda(found: PyTorch, gpus: Gpus | None, asked: str) -> tuple[str, str]:
    """Return verdict and reason of the build: has it CUDA, and does the driver run it?"""
    if found.cuda is None:
        return FAIL, f"PyTorch {found.torch} in {found.prefix} was built without CUDA, and {asked}"
    if gpus is None or gpus.driver is None:
        return INCOMPLETE, f"nvidia-smi tells no driver, so whether it runs CUDA {found.cuda} is unknown"
    lacks = driver_lacking(found.cuda, gpus.driver)
    return (FAIL, f"PyTorch {found.torch} in {found.prefix}: {lacks}") if lacks else (PASS, "")
