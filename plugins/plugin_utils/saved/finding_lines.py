"""Findings on saved outputs as lines for people: alike ones of several parts are one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import INCOMPLETE, PASS

from .saved_findings import speaks
from .saved_verdicts import Told

# So many parts are named in a line.
_NAMED = 4
# What differs between the reasons of findings that are alike.
_OWN = re.compile(
    r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b|\(serial [^)]*\)|\brail ?\d+|\bmlx\d_\w+|\bGPU\d*\b|\bGPU \d+"
)


def lines_of(found: Sequence[Told], *, every: bool = False) -> list[str]:
    """Return lines for people: alike findings in one, passes counted by file; ``every`` tells each by itself."""
    named = len({each.file for each in found}) > 1
    if every:
        return [_line([each], named) for each in found]
    alike: dict[Any, list[Told]] = {}
    passes: dict[str, int] = {}
    for each in found:
        if speaks(each.finding) or each.finding.check == "saved":
            alike.setdefault(_likeness(each), []).append(each)
        else:
            passes[each.file] = passes.get(each.file, 0) + 1
    lines = [_line(together, named) for together in alike.values()]
    return [*lines, *(_counted(file, count, named) for file, count in passes.items())]


def _likeness(told_of: Told) -> Any:
    finding = told_of.finding
    check = finding.check if finding.verdict != INCOMPLETE else ""
    reason = _OWN.sub("", finding.reason.replace(finding.subject, ""))
    measured = "" if finding.reason else (finding.measured, finding.unit)
    return told_of.file, told_of.host, finding.verdict, finding.action, check, reason, measured


def _line(alike: Sequence[Told], named: bool) -> str:
    first = alike[0]
    finding = first.finding
    what = finding.reason or f"{finding.measured} {finding.unit}".rstrip()
    checks = list(dict.fromkeys(each.finding.check for each in alike))
    check = finding.check if len(checks) == 1 else f"{len(checks)} checks"
    parts = list(dict.fromkeys(each.finding.subject for each in alike))
    where = f"{first.file}: " if named and first.file else ""
    host = f"{first.host} " if first.host else ""
    return f"{finding.verdict:10} {where}{check} {host}{_together(parts)}: {what} [{finding.action}]"


def _together(parts: Sequence[str]) -> str:
    """Return the names of several parts: ``8 parts (gpu A, gpu B, ... and 4 more)``."""
    if len(parts) == 1:
        return parts[0]
    kinds = {part.partition(" ")[0] for part in parts}
    kind = {"gpu": "GPUs", "nic": "NICs", "nvme": "drives", "psu": "power supplies"}.get(min(kinds), "parts")
    kind = kind if len(kinds) == 1 else "parts"
    more = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    named = [part.partition(" ")[2] if kind != "parts" else part for part in parts[:_NAMED]]
    return f"{len(parts)} {kind} ({', '.join(named)}{more})"


def _counted(file: str, count: int, named: bool) -> str:
    where = f"{file}: " if named and file else ""
    return f"{PASS:10} {where}{count} finding{'s' if count > 1 else ''}"
