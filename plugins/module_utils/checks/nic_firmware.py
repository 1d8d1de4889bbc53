"""Does the NIC of every rail run the declared firmware, or, where none is declared, the one of the others?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..host.rail_names import NamedRail
from ..judging.rail_devices import rail_devices
from ..nic.declared_nics import rail_subjects, subject_of
from ..probes.infiniband import Device
from ..words.expectations import Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_firmware"
RULES = 3
PROBES: tuple[str, ...] = ("infiniband", "rail_names")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails."""
    return rail_subjects(expect)


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare each version with the class, or with the version that most rails of the node run."""
    rails, declared = rail_devices(values, expect), stated(expect.nic).firmware
    versions = (device.firmware for _, device in rails if isinstance(device, Device))
    counted = Counter(version for version in versions if version).most_common(2)
    # Two versions equally often: nobody can say which rails are the odd ones.
    usual = counted[0][0] if len(counted) == 1 or (counted and counted[0][1] > counted[1][1]) else None
    return [_finding(rail, device, declared, usual) for rail, device in rails]


def _finding(rail: NamedRail, device: Device | str, declared: str | None, usual: str | None) -> Finding:
    subject = subject_of(rail)
    if isinstance(device, str):
        return Finding(NAME, subject, INCOMPLETE, None, declared, "", device, "investigate")
    version = device.firmware
    if version is None:
        why = f"firmware of {rail} could not be read"
        return Finding(NAME, subject, INCOMPLETE, None, declared, "", why, "investigate")
    if declared is not None and version != declared:
        why = f"{rail} runs firmware {version}, the class has {declared}"
        return Finding(NAME, subject, FAIL, version, declared, "", why, "investigate")
    if declared is None and version != usual:
        than = f"most run {usual}" if usual else "no version prevails"
        why = f"{rail} runs firmware {version}: spread across the node's NICs, of which {than}"
        return Finding(NAME, subject, FAIL, version, None, "", why, "investigate")
    return Finding(NAME, subject, PASS, version, declared)
