"""How many PCIe errors has the kernel counted on each GPU, NIC and drive of the class?

Corrected errors are retransmissions, of which a sound link has few; the others lost a transaction or the link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..formats.nvme import Drive, assigned, nvme_subjects
from ..nic.declared_nics import rails_of, subject_of
from ..probes.pcie_aer import SEVERITIES, Errors
from ..words.expectations import Expectations, PcieErrors, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "pcie_aer"
RULES = 2
PROBES: tuple[str, ...] = ("pcie_aer",)
# Which drive is which part of the class; without it the drives are incomplete.
OPTIONAL_PROBES = ("nvme_sysfs",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return GPUs, rails and drives, unless the class has no such counters (a guest of a cloud)."""
    if expect.pcie is None or expect.pcie.errors is None:
        return []
    return [*gpu_subjects(expect).values(), *map(subject_of, rails_of(expect)), *nvme_subjects(expect)]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for each part: its worst severity above the class limit."""
    found: Mapping[str, Mapping[str, Errors]] = values["pcie_aer"]
    drives: Sequence[Drive] | None = values.get("nvme_sysfs")
    devices = {subject: address for address, subject in gpu_subjects(expect).items()}
    devices.update({subject_of(rail): rail.address for rail in rails_of(expect)})
    devices.update({subject: drive.controller for subject, drive in assigned(drives or (), expect.nvme).items()})
    limits = stated(stated(expect.pcie).errors)
    return [_finding(subject, found.get(device, {}), limits) for subject, device in devices.items()]


def _finding(subject: str, errors: Mapping[str, Errors], limits: PcieErrors) -> Finding:
    told = {severity: errors.get(severity, Errors(None)) for severity in SEVERITIES}
    most = {"correctable": limits.correctable, "nonfatal": limits.nonfatal, "fatal": limits.fatal}
    for severity in reversed(list(SEVERITIES)):
        count, kinds = told[severity].count, ", ".join(told[severity].kinds)
        if count is not None and count > most[severity]:
            why = f"{severity} PCIe errors above the class limit{': ' + kinds if kinds else ''}"
            return Finding(NAME, subject, FAIL, count, most[severity], "errors", why, "reseat")
    unread = [severity for severity, item in told.items() if item.count is None]
    if unread:
        why = f"no count of {', '.join(unread)} PCIe errors: not there, without AER, or not understood"
        return Finding(NAME, subject, INCOMPLETE, None, limits.fatal, "errors", why, "investigate")
    corrected = told["correctable"]
    why = f"within the class limit: {', '.join(corrected.kinds)}" if corrected.kinds else ""
    return Finding(NAME, subject, PASS, corrected.count, limits.correctable, "errors", why)
