"""Is every GPU of the class there, itself (identity and infoROM), of the right model and memory size, and none besides?

One whose fields say that it is lost is lost, though nvidia-smi lists it. Two that say one UUID or one serial number are
not two; the GPUs of one board share its serial number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import on_superchip
from ..judging.placeholders import real
from ..probes.nvidia_smi import INFOROM, Gpu, Gpus
from ..words import expectations
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "gpu_inventory"
RULES = 3
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
            findings.append(_listed(subject, listed[address], stated(expect.gpu), report))
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
    findings += _of_host(report)
    for address in sorted((set(listed) | set(report.lost)) - set(declared)):
        why = f"a GPU at {address}, where the class has none: check the class, the slot and the PCI enumeration"
        model = listed[address].model if address in listed else "lost"
        findings.append(Finding(NAME, f"gpu {address}", FAIL, model, "none", "", why, "investigate"))
    return findings


def _missing(subject: str, measured: str, why: str, expect: Expectations) -> Finding:
    # NVIDIA's catalogue for a GPU off the bus (Xid 79): RESTART_BM.
    return Finding(NAME, subject, FAIL, measured, stated(expect.gpu).model, "", why, "reboot")


def _of_host(report: Gpus) -> Iterator[Finding]:
    """Yield what nvidia-smi warns of and is not that a GPU of the list has lost its infoROM."""
    listed = {gpu.address for gpu in report.gpus}
    for address, text in report.warnings:
        if text == INFOROM and address in listed:
            continue
        at = f" at {address}" if address else ""
        verdict = FAIL if text == INFOROM else INCOMPLETE
        yield Finding(NAME, "host", verdict, text, "no warning", "", f"nvidia-smi warns: {text}{at}", "investigate")


def _like(gpu: Gpu, report: Gpus) -> str:
    """Return which other GPU says that it is this one, and by what ("" for none)."""
    for other in report.gpus:
        if other.address == gpu.address:
            continue
        if gpu.uuid and gpu.uuid == other.uuid:
            return f"UUID {gpu.uuid} is that of the GPU at {other.address} too"
        shared = gpu.multi_gpu_board or on_superchip(gpu)
        if real(gpu.serial) and gpu.serial == other.serial and not shared:
            return f"serial number {gpu.serial} is that of the GPU at {other.address} too"
    return ""


def _listed(subject: str, gpu: Gpu, wanted: expectations.Gpu, report: Gpus) -> Finding:
    if (gpu.address, INFOROM) in report.warnings:
        why = "the infoROM, which holds the board's identity and history, is corrupted"
        return Finding(NAME, subject, FAIL, INFOROM, "readable", "", why, "rma")
    like = _like(gpu, report)
    if like:
        return Finding(NAME, subject, FAIL, "the identity of another GPU", "its own", "", like, "investigate")
    # Some products have no serial number (N/A), one GPU of several that have one is not of them.
    untold = {
        "UUID": not real(gpu.uuid),
        "serial number": not real(gpu.serial) and any(real(g.serial) for g in report.gpus),
    }
    if any(untold.values()):
        why = f"{' and '.join(name for name, unread in untold.items() if unread)} could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, wanted.model, "", why, "investigate")
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
