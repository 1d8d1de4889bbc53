"""Was this boot of the host examined (preflight) before it went into service, and did it pass?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.preflights import Preflight
from ..words.expectations import Expectations
from ..words.finding import INCOMPLETE, PASS, Finding

NAME = "boot_preflight"
RULES = 1
PROBES: tuple[str, ...] = ("boot_id", "preflights")
_WANTED = "a preflight of this boot that passed"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge the last preflight of this boot among the kept ones."""
    boot = values["boot_id"]
    found: Preflight | None = values["preflights"].get(boot)
    if found is None:
        why = f"no preflight of this boot ({boot}): run playbooks/examine.yml"
        return [Finding(NAME, "host", INCOMPLETE, "none", _WANTED, "", why, "investigate")]
    if found.verdict != PASS:
        why = f"the last preflight of this boot ({boot}) ended as {found.verdict}: its evidence says why"
        return [Finding(NAME, "host", found.verdict, found.verdict, _WANTED, "", why, "investigate")]
    return [Finding(NAME, "host", PASS, boot, _WANTED)]
