"""What do the drives below a node's own storage tier say of their health? The same judgement as burn-in's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..formats.nvme import nvme_subjects
from ..probes.local_drives import stated
from ..words.expectations import Expectations
from ..words.finding import Finding
from . import nvme_smart

NAME = "local_drives"
RULES = 1
PROBES: tuple[str, ...] = ("local_drives",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the drives of the class, none where it has no storage tier of its own."""
    return nvme_subjects(expect) if stated(expect) else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge each drive's report."""
    return [replace(each, check=NAME) for each in nvme_smart.decide({"smartctl": values["local_drives"]}, expect)]
