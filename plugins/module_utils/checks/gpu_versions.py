"""Do driver, GSP firmware and VBIOS have the versions declared, or, where none is declared, one for the whole node?

The GPU system processor (GSP) runs firmware of the driver's own version. GPUs before Hopper can do without (``N/A``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, is_hopper_or_later, unread
from ..probes.nvidia_smi import Gpu, Gpus
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_versions"
RULES = 3
PROBES: tuple[str, ...] = ("nvidia_smi",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class for their VBIOS, the host for the driver."""
    parts = gpu_subjects(expect)
    return [*parts.values(), "host"] if parts else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare with what is declared; the odd one out is named where nothing is."""
    report: Gpus = values["nvidia_smi"]
    declared = stated(expect.gpu).vbios
    found = Counter(gpu.vbios for gpu in report.gpus if gpu.vbios)
    most = [version for version, times in found.items() if times == max(found.values())]

    def judge(subject: str, gpu: Gpu) -> Finding:
        if gpu.vbios is None:
            return unread(NAME, subject, "could not be read: VBIOS version", declared)
        if declared is not None and gpu.vbios != declared:
            why = f"VBIOS is {gpu.vbios}, declared {declared}"
            return Finding(NAME, subject, FAIL, gpu.vbios, declared, "", why, "investigate")
        if declared is None and [gpu.vbios] != most:
            others = ", ".join(sorted(version for version in found if version != gpu.vbios))
            why = f"VBIOS is {gpu.vbios}, other GPUs of the node have {others}: spread across the node's GPUs"
            return Finding(NAME, subject, FAIL, gpu.vbios, "one version", "", why, "investigate")
        if gpu.gsp_firmware is None and is_hopper_or_later(gpu):
            return unread(NAME, subject, "could not be read: version of the GSP firmware", report.driver)
        if gpu.gsp_firmware is not None and report.driver is not None and gpu.gsp_firmware != report.driver:
            why = f"GSP firmware is {gpu.gsp_firmware}, the driver {report.driver}: they come together"
            return Finding(NAME, subject, FAIL, gpu.gsp_firmware, report.driver, "", why, "investigate")
        return Finding(NAME, subject, PASS, gpu.vbios, declared or "one version")

    return [*each_gpu(NAME, values, expect, judge), _driver(report, stated(expect.gpu).driver)]


def _driver(report: Gpus, declared: str | None) -> Finding:
    if report.driver is None:
        return unread(NAME, "host", "could not be read: driver version", declared)
    if declared is not None and report.driver != declared:
        why = f"driver is {report.driver}, declared {declared}"
        return Finding(NAME, "host", FAIL, report.driver, declared, "", why, "investigate")
    return Finding(NAME, "host", PASS, report.driver, declared or "any version")
