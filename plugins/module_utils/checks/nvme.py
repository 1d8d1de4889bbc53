"""Is every NVMe drive of the class there, of the declared model and firmware, alive and at its PCIe link?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..formats.nvme import Drive, assigned, candidates, nvme_subjects
from ..words.expectations import Expectations, Nvme, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nvme"
RULES = 1
PROBES: tuple[str, ...] = ("nvme_sysfs",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the drives of the class."""
    return nvme_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare what sysfs shows with the class, drive by drive."""
    drives: Sequence[Drive] = values["nvme_sysfs"]
    wanted = stated(expect.nvme)
    found = assigned(drives, expect.nvme)
    findings = [
        _drive(part, found[part], wanted) if part in found else _missing(part, drives, wanted)
        for part in nvme_subjects(expect)
    ]
    if not wanted.addresses:
        for drive in candidates(drives, wanted)[wanted.count :]:
            why = f"{_who(drive)} is one more than the {wanted.count} drives of the class: declare nvme.addresses"
            why += " or nvme.model if it is no data drive"
            findings.append(Finding(NAME, f"nvme {drive.address}", FAIL, drive.model, "none", "", why, "investigate"))
    return findings


def _missing(part: str, drives: Sequence[Drive], wanted: Nvme) -> Finding:
    if wanted.addresses:
        why = f"{part} is not there: sysfs shows {len(drives)} NVMe drives, none at this address"
    else:
        kind = f" of model {wanted.model}" if wanted.model else ""
        there = candidates(drives, wanted)
        at = ", ".join(drive.address for drive in there) or "none"
        why = f"{len(there)} of {wanted.count} NVMe drives{kind} found (at {at})"
        others = [f"{_who(drive)}: model {drive.model}" for drive in drives if drive not in there]
        why += "; " + ", ".join(others) if others else ""
        why += "; declare nvme.addresses to have the missing one named"
    return Finding(NAME, part, FAIL, "absent", wanted.model or "present", "", why, "reseat")


def _who(drive: Drive) -> str:
    return f"{drive.controller} at {drive.address} (serial {drive.serial or 'unread'})"


def _drive(part: str, drive: Drive, wanted: Nvme) -> Finding:
    who = _who(drive)
    if drive.state not in (None, "live"):
        why = f"{who}: controller state {drive.state}, expected live"
        return Finding(NAME, part, FAIL, drive.state, "live", "", why, "replace")
    compared: tuple[tuple[str, Any, Any, str, str], ...] = (
        ("model", drive.model, wanted.model, "", "replace"),
        ("firmware", drive.firmware, wanted.firmware, "", "investigate"),
        ("PCIe link width", drive.width, wanted.link_width, "lanes", "reseat"),
        ("PCIe link speed", drive.speed_gt_per_second, wanted.link_gt_per_second, "GT/s", "reseat"),
    )
    for name, measured, expected, unit, action in compared:
        if expected is None or measured is None:
            continue
        # A link may be better than the class asks for.
        if measured < expected if unit else measured != expected:
            why = f"{who}: {name} is {measured}, below the class floor" if unit else f"{who}: another {name}"
            return Finding(NAME, part, FAIL, measured, expected, unit, why, action)
    unread = [name for name, measured, expected, _, _ in compared if expected is not None and measured is None]
    unread += [name for name, value in (("state", drive.state), ("serial", drive.serial)) if value is None]
    if unread:
        why = f"{who}: {', '.join(unread)} could not be read"
        return Finding(NAME, part, INCOMPLETE, None, wanted.model, "", why, "investigate")
    return Finding(NAME, part, PASS, drive.model, wanted.model, "", who)
