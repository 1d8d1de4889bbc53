"""Do the NICs of all rails have the declared firmware settings, in force and for the next boot?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nic.declared_nics import rail_subjects, rails_of, subject_of
from ..nic.firmware_settings import Setting, changes, hidden, pending, unlocking, unreadable
from ..words.expectations import Expectations, Rail, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_firmware_settings"
RULES = 3
PROBES: tuple[str, ...] = ("nic_config",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails, if the class declares settings."""
    return rail_subjects(expect) if expect.nic and expect.nic.firmware_settings else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare each declared setting; one that is right for the next boot alone asks for a reboot."""
    nics: Mapping[str, Mapping[str, Setting] | str] = values["nic_config"]
    wanted = {each.key: each.wanted for each in stated(expect.nic).firmware_settings or ()}
    return [_finding(rail, nics.get(rail.name, "not asked"), wanted) for rail in rails_of(expect)]


def _finding(rail: Rail, settings: Mapping[str, Setting] | str, wanted: Mapping[str, str]) -> Finding:
    subject, expected = subject_of(rail), " ".join(f"{key}={value}" for key, value in wanted.items())
    if isinstance(settings, str):
        why = f"firmware settings of {rail} could not be read: {settings}"
        return Finding(NAME, subject, INCOMPLETE, None, expected, "", why, "investigate")
    measured = " ".join(f"{key}={settings[key].current}" for key in wanted if key in settings)
    if wrong := changes(settings, wanted):
        told = "; ".join(map(str, wrong))
        why = f"firmware settings of {rail} are not as declared: {told}"
        return Finding(NAME, subject, FAIL, measured, expected, "", why, "investigate")
    unknown = hidden(settings, wanted)
    if unknown and not unlocking(settings, wanted):
        why = f"{rail} has no firmware setting {', '.join(unknown)}"
        return Finding(NAME, subject, FAIL, measured, expected, "", why, "investigate")
    if unsure := unreadable(settings, wanted):
        why = f"firmware settings of {rail}: {'; '.join(unsure)}"
        return Finding(NAME, subject, INCOMPLETE, measured, expected, "", why, "investigate")
    if waiting := [*pending(settings, wanted), *(f"{key} is not shown before it" for key in unknown)]:
        why = f"reboot pending for firmware settings of {rail}: {'; '.join(waiting)}"
        return Finding(NAME, subject, FAIL, measured, expected, "", why, "reboot")
    return Finding(NAME, subject, PASS, measured, expected)
