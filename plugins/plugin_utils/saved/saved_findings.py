"""Findings on saved outputs: a fault, what could not be read, and no fault where only a class could say more."""

from __future__ import annotations

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import (
    FAIL,
    INCOMPLETE,
    PASS,
    Finding,
    Value,
)

UNHELD = "no fault seen; what it must be a class says"


def fault(check: str, subject: str, reason: str, measured: Value = None, expected: Value = None) -> Finding:
    """Return that a part is sick; a saved output shows that it is, a person finds out why."""
    return Finding(check, subject, FAIL, measured, expected, reason=reason, action="investigate")


def watch(check: str, subject: str, reason: str, measured: Value = None) -> Finding:
    """Return that a part is sound, and what people should look at all the same."""
    return Finding(check, subject, PASS, measured, reason=reason, action="investigate")


def sound(check: str, subject: str, measured: Value = None) -> Finding:
    """Return that a part is sound by its tool's own word."""
    return Finding(check, subject, PASS, measured)


def unread(check: str, subject: str, reason: str) -> Finding:
    """Return that nothing is known of a part."""
    return Finding(check, subject, INCOMPLETE, reason=reason)


def unheld(check: str, subject: str) -> Finding:
    """Return that no fault was seen, of a part that only a class could judge."""
    return unread(check, subject, UNHELD)


def speaks(finding: Finding) -> bool:
    """Return whether a finding says more than that all is well."""
    return finding.verdict != PASS or finding.action != "none"
