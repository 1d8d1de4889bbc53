"""Was this boot of the host examined (preflight) before it went into service?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..finding import INCOMPLETE, PASS, Finding

NAME = "boot_preflight"
PROBES: tuple[str, ...] = ("boot_id", "preflights")


def subjects(expect: Mapping[str, Any]) -> Sequence[str]:
    """Return the host."""
    return ["host"]


def decide(values: Mapping[str, Any], expect: Mapping[str, Any]) -> Sequence[Finding]:
    """Look for a preflight of this boot among the kept ones."""
    boot = values["boot_id"]
    if boot in values["preflights"]:
        return [Finding(NAME, "host", PASS, boot, "a preflight of this boot")]
    why = f"no preflight of this boot ({boot}): run playbooks/examine.yml"
    return [Finding(NAME, "host", INCOMPLETE, "none", "a preflight of this boot", "", why, "investigate")]
