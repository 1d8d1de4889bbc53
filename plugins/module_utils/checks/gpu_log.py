"""What does the kernel log say of GPUs besides Xids: a driver that did not start, GPUDirect RDMA that broke?

Formats: NVIDIA's open-gpu-kernel-modules (kernel-open/nvidia/nv.c, nvidia-peermem) and recorded logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..judging.log_faults import HOST, faults_in, findings_of, pci_part, rule
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import FAIL, Finding

NAME = "gpu_log"
RULES = 1
PROBES: tuple[str, ...] = ("kernel_log",)

_GPU = r"(?:GPU |PCI:|nvidia )(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_WORDS = ("NVRM", "nvidia", "Nvlink")
_RULES = (
    rule(r"nvidia[-_]peermem .*(?:ERROR|[Ff]ailed)",
         "GPUDirect RDMA (nvidia-peermem) reports errors", FAIL, "investigate"),
    rule(r"NVRM: " + _GPU + r".*RmInitAdapter failed! \((?P<code>[^)]*)\)",
         "driver could not start the GPU ({code})", FAIL, "reset_gpu"),
    rule(r"NVRM: (?:.*RmInitAdapter failed|rm_init_adapter failed)", "driver could not start a GPU", FAIL, "reset_gpu"),
    rule(r"NVRM: The NVIDIA probe routine failed for (?P<count>\d+) device",
         "driver could not initialize {count} GPUs", FAIL, "reboot"),
    rule(r"NVRM: API mismatch", "kernel driver and user-space driver have different versions", FAIL, "investigate"),
    rule(r"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid",
         "a GPU's memory window is missing: firmware settings", FAIL, "investigate"),
    rule(r"NVRM: BAR\d is 0M", "a GPU's memory window is missing: firmware settings", FAIL, "investigate"),
    rule(r"NVRM: " + _GPU + r".*GPU is probably locked", "GPU is locked up", FAIL, "reset_gpu"),
    rule(r"NVRM: .*RC watchdog: GPU is probably locked", "a GPU is locked up", FAIL, "reset_gpu"),
    rule(_GPU + r".*(?:config space inaccessible|device inaccessible)", "does not answer on the bus", FAIL, "reboot"),
    rule(r"NVRM: .*(?:installed in this system is not supported|requires use of the NVIDIA open kernel modules)",
         "driver does not support a GPU", FAIL, "investigate"),
)  # fmt: skip


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, where the class has GPUs."""
    return [HOST] if gpu_subjects(expect) else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host and one for each GPU of which the log tells something."""
    faults = faults_in(values["kernel_log"], _RULES, _WORDS, partial(pci_part, expect=expect))
    return findings_of(NAME, faults, [HOST])
