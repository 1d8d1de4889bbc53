"""What the checks of single GPUs share: each declared GPU with what nvidia-smi says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..probes.nvidia_smi import Gpu, Gpus
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import INCOMPLETE, Finding, Value

Judge = Callable[[str, Gpu], Finding]
# As nvidia-smi writes them (nvmlDeviceArchitecture_t of NVML); it tells the architecture since driver 495.
_BEFORE_HOPPER = ("Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada Lovelace")


def each_gpu(check: str, values: Mapping[str, Any], expect: Expectations, judge: Judge) -> list[Finding]:
    """Return ``judge(subject, gpu)`` for each declared GPU that nvidia-smi describes.

    One that it does not describe is ``incomplete``: that it is missing is for gpu_inventory to say.
    """
    report: Gpus = values["nvidia_smi"]
    listed = {gpu.address: gpu for gpu in report.gpus}
    return [
        judge(subject, listed[address])
        if address in listed
        else unread(check, subject, "lost" if address in report.lost else "not described by nvidia-smi")
        for address, subject in gpu_subjects(expect).items()
    ]


def unread(check: str, subject: str, why: str, expected: Value = None, unit: str = "") -> Finding:
    """Return the finding on a part of which something needed could not be read."""
    return Finding(check, subject, INCOMPLETE, None, expected, unit, why, "investigate")


def is_hopper_or_later(gpu: Gpu) -> bool:
    """Return whether the driver says that the GPU is of Hopper or a later architecture."""
    return gpu.architecture is not None and gpu.architecture not in _BEFORE_HOPPER


def on_superchip(gpu: Gpu) -> bool:
    """Return whether the GPU shares a board with a processor, and maybe another GPU, by its model (GB200, GH200)."""
    return (gpu.model or "").startswith(("NVIDIA GB", "NVIDIA GH"))


def missing(**fields: object) -> str:
    """Return what could not be read, as a reason: the names of the fields that are None ("" if none is)."""
    names = [name.replace("_", " ") for name, value in fields.items() if value is None]
    return f"could not be read: {', '.join(names)}" if names else ""


def addresses_of(
    numbers: Sequence[int], values: Mapping[str, Any], expect: Expectations, uuids: Sequence[str] = ()
) -> list[str | None]:
    """Return the PCI addresses of the GPUs that a tool lists by these numbers, None for one that is lost.

    By UUID where the tool tells it and nvidia-smi -q knows it. Otherwise by order, since NVML counts GPUs by PCI
    address; but only if all that are known are listed. Only one that nvidia-smi calls lost may be left out, and only
    where it describes all others by address: else nobody knows which GPU is which and each is None.
    """
    report: Gpus | None = values.get("nvidia_smi")
    lost = set(report.lost) if report is not None else set()
    left_out = max(numbers, default=0) + 1 - len(numbers)
    if left_out > len(lost) + (report.nameless if report is not None else 0):
        return [None] * len(numbers)
    if report is not None and report.gpus and not report.stopped:
        by_uuid = {gpu.uuid: gpu.address for gpu in report.gpus if gpu.uuid}
        if len(set(uuids)) == len(numbers) and len(by_uuid) == len(report.gpus):
            return [by_uuid.get(uuid) for uuid in uuids]
        if report.nameless:
            return [None] * len(numbers)
        known, may_lack = sorted({*(gpu.address for gpu in report.gpus), *lost}), lost
    else:
        known, may_lack = sorted(gpu_subjects(expect)), set()
    skipped = {address for number, address in enumerate(known) if number not in numbers}
    if max(numbers, default=0) >= len(known) or not skipped <= may_lack:
        return [None] * len(numbers)
    return [None if known[number] in lost else known[number] for number in numbers]
