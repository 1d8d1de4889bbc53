"""Outputs of sick hosts: a healthy output with one fault in it, and the check that must find the fault."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HEALTHY = Path(__file__).resolve().parents[1] / "healthy"


@dataclass(frozen=True)
class Sick:
    """``check`` finds the fault that replacing ``old`` (a regular expression, once) by ``new`` puts into ``probe``."""

    check: str
    probe: str
    old: str
    new: str
    # A log tells faults by lines it has; a lost line is a fault nobody was told of.
    log: bool = False

    def text(self) -> str:
        """Return the sick output; raises ValueError where the healthy one has nothing to make sick."""
        text, times = re.subn(self.old, self.new, healthy(self.probe), count=1, flags=re.MULTILINE)
        if not times:
            raise ValueError(f"{self.check}: {self.old!r} is not in the healthy output of {self.probe}")
        return text


def healthy(name: str) -> str:
    """Return what a probe or stress prints on a healthy host."""
    (path,) = HEALTHY.glob(f"{name}.*")
    return path.read_text(encoding="utf-8")


def known() -> tuple[str, ...]:
    """Return the probes and stresses of which there is a healthy output."""
    return tuple(sorted(path.stem for path in HEALTHY.iterdir()))


_AT = "2026-11-20T08:00:00+0000 h kernel: "

_FM = "[Nov 20 2026 08:00:00] [ERROR] [tid 841] "

SICK: tuple[Sick, ...] = (
    Sick("xid", "kernel_log", r"\Z", _AT + "NVRM: Xid (PCI:0000:85:00): 79, lost.\n", log=True),
    Sick("dcgm_diag", "dcgm_diag", r'("name" : "memory",\n[^}]+"status" : )"Pass"', r'\1"Fail"'),
    Sick("dcgm_diag", "dcgm_diag", r'("entity_id" : 5,\s+"status" : )"Pass"', r'\1"Fail"'),
    Sick("fabric_manager_log", "fabric_manager_log", r"\Z", _FM + "detected NVSwitch fatal error 20034\n", log=True),
    Sick("gpu_bandwidth", "nvbandwidth", r'"55\.42"', '"24.1"'),
    Sick("gpu_bandwidth", "nvbandwidth", r'"396\.03"', '"120"'),
    Sick("gpu_nvlink_errors", "dcgmi_nvlink", r'("Link 3": {"children": {"CRC Data Error": {"value": )"0"', r'\1"12"'),
    Sick("gpu_stress", "gpu_stress", r'("memory": \{.*?"wrong_words": )0', r"\g<1>4096"),
    Sick("memory_latency", "memory_latency", r"randlist {16}62 ", "randlist                31 "),
    Sick("nvml", "nvml", r'"remap_failure": 0', '"remap_failure": 1'),
    Sick("pcie_aer", "pcie_aer", r"TOTAL_ERR_FATAL 0", "TOTAL_ERR_FATAL 3"),
    Sick("gpu_telemetry", "gpu_telemetry", r'"ecc_uncorrected": \[0, 0, 0\]', '"ecc_uncorrected": [0, 64, 64]'),
)
