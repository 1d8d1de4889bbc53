"""Every probe and check by name, what each stage runs, and what each stage owes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import fingerprint
from .checks import clock, cpu, disk, gpu_inventory, memory, xid
from .checks import fingerprint as fingerprint_check
from .examine import Check, Examination, Probe, collect, judge
from .host import Host
from .probes import boot_id, chrony, disk_free, kernel_log, lscpu, meminfo, nccl, nvidia_smi, uname

PROBES: dict[str, Probe] = {
    probe.NAME: probe for probe in (boot_id, uname, nvidia_smi, nccl, lscpu, meminfo, chrony, disk_free, kernel_log)
}
CHECKS: dict[str, Check] = {
    check.NAME: check for check in (fingerprint_check, gpu_inventory, xid, cpu, memory, clock, disk)
}

# Preflight asks whether the host is fit to be burned in and who it is; that its GPUs are all there and silent is
# burn-in's verdict. A GPU lost later changes the fingerprint that preflight reads, which voids the burn-in.
STAGE_CHECKS: dict[str, tuple[str, ...]] = {
    "preflight": ("fingerprint", "cpu", "memory", "clock", "disk"),
    "burn_in": ("fingerprint", "gpu_inventory", "xid", "cpu", "memory", "clock", "disk"),
}

# Findings that a stage gives about itself, not by a check in CHECKS.
_STAGE_FINDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "burn_in": (("burn_in", "host"),),
    "acceptance": (("pair_bandwidth", "network"), ("group_bandwidth", "network")),
}


def probes_of(stage: str) -> tuple[str, ...]:
    """Return the names of the probes that a stage runs, each once: its checks' and the fingerprint's."""
    needed = {name for check in STAGE_CHECKS[stage] for name in CHECKS[check].PROBES} | set(fingerprint.PROBES)
    return tuple(name for name in PROBES if name in needed)


def examine(stage: str, host: Host, expect: Mapping[str, Any]) -> Examination:
    """Run a stage's probes on the host, each once, and judge what they gave."""
    outputs = collect(host, [PROBES[name] for name in probes_of(stage)])
    return judge(outputs, PROBES, [CHECKS[name] for name in STAGE_CHECKS[stage]], expect)


def required(stage: str, expect: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the (check, part) pairs on which the stage owes a finding for this class.

    Raises ValueError for a stage that owes nothing, since "no requirement" would pass everybody, and KeyError when the
    expectations lack what a check needs.
    """
    if stage not in STAGE_CHECKS and stage not in _STAGE_FINDINGS:
        known = sorted({*STAGE_CHECKS, *_STAGE_FINDINGS})
        raise ValueError(f"stage is {stage!r}, expected one of {', '.join(known)}")
    pairs = [(name, part) for name in STAGE_CHECKS.get(stage, ()) for part in CHECKS[name].subjects(expect)]
    return [*pairs, *_STAGE_FINDINGS.get(stage, ())]
