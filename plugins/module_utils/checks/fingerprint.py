"""Could everything that identifies the host be read? Evidence about an unknown host passes nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.fingerprint import COMPONENTS, fingerprint_of
from ..judging.fingerprint import PROBES as _READ
from ..words.expectations import Expectations
from ..words.finding import INCOMPLETE, PASS, Finding

NAME = "fingerprint"
RULES = 5
# The other probes are asked through the fingerprint, which says which component each of them left unread.
PROBES: tuple[str, ...] = ("boot_id",)
OPTIONAL_PROBES: tuple[str, ...] = _READ


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Name the components that could not be read."""
    unread = [name for name, value in fingerprint_of(values, expect).items() if value is None]
    known = len(COMPONENTS) - len(unread)
    if unread:
        why = f"could not be read: {', '.join(unread)}"
        return [Finding(NAME, "host", INCOMPLETE, known, len(COMPONENTS), "components", why, "investigate")]
    return [Finding(NAME, "host", PASS, known, len(COMPONENTS), "components")]
