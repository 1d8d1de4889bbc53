"""Is every GPU of the class there, of the right model and memory size, and none besides?

One whose fields say that it is lost is lost, though nvidia-smi lists it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.nvidia_smi import Gpu, Gpus
from ..words import expectations
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "gpu_inventory"
RULES = 2
PROBES: tuple[str, ...] = ("nvidia_smi",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge what nvidia-smi lists against the class, part by part."""
    report: Gpus = values["nvidia_smi"]
    listed = {gpu.address: gpu for gpu in report.gpus}
    declared = gpu_subjects(expect)
    findings = []
    for address, subject in declared.items():
        if address in listed:
            findings.append(_listed(subject, listed[address], stated(expect.gpu)))
        elif address in report.lost:
            why = f"{subject} is lost: the driver does not reach it"
            findings.append(_missing(subject, "lost", why, expect))
        elif report.stopped:
            why = f"nvidia-smi stopped at GPU {', '.join(report.lost or listed)} and says nothing of the others"
            findings.append(Finding(NAME, subject, INCOMPLETE, reason=why, action="investigate"))
        else:
            why = f"{subject} is not listed by nvidia-smi, which lists {len(listed)} of {len(declared)} GPUs"
            if report.nameless:
                why += f" and has lost {report.nameless} more, without their addresses"
            findings.append(_missing(subject, "absent", why, expect))
    if report.nameless > sum(finding.measured == "absent" for finding in findings):
        why = f"nvidia-smi has lost {report.nameless} GPUs without their addresses, more than are missing of the class"
        findings.append(Finding(NAME, "host", FAIL, "lost", "none", "", why, "investigate"))
    for address in sorted((set(listed) | set(report.lost)) - set(declared)):
        why = f"a GPU at {address}, where the class has none: check the class, the slot and the PCI enumeration"
        model = listed[address].model if address in listed else "lost"
        findings.append(Finding(NAME, f"gpu {address}", FAIL, model, "none", "", why, "investigate"))
    return findings


def _missing(subject: str, measured: str, why: str, expect: Expectations) -> Finding:
    # NVIDIA's catalogue for a GPU off the bus (Xid 79): RESTART_BM.
    return Finding(NAME, subject, FAIL, measured, stated(expect.gpu).model, "", why, "reboot")


def _listed(subject: str, gpu: Gpu, wanted: expectations.Gpu) -> Finding:
    if gpu.model is None:
        return Finding(NAME, subject, INCOMPLETE, None, wanted.model, "", "model could not be read", "investigate")
    if gpu.model != wanted.model:
        return Finding(NAME, subject, FAIL, gpu.model, wanted.model, "", "another model than the class has", "replace")
    size = wanted.memory_mib
    if gpu.memory_mib is None:
        return Finding(NAME, subject, INCOMPLETE, None, size, "MiB", "memory size could not be read", "investigate")
    if gpu.memory_mib != size:
        # Less memory can be a fault, another board, or only ECC or a driver setting.
        return Finding(
            NAME, subject, FAIL, gpu.memory_mib, size, "MiB", "another memory size than declared", "investigate"
        )
    return Finding(NAME, subject, PASS, gpu.memory_mib, size, "MiB")
