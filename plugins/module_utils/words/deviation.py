"""A known deviation that a site accepts to the end of a day, as the control machine and nodes both know it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from fnmatch import fnmatchcase
from typing import Annotated, Any

from .finding import PASS, Finding
from .reader import Converted, ReadError, Text, read_as, shown


def _last_day(data: Any) -> str:
    text = data.isoformat() if isinstance(data, date) else read_as(Text, data)
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as exc:
        raise ReadError("", shown(text), "a day such as 2027-01-31") from exc


@dataclass(frozen=True)
class Deviation:
    """Which findings count as passed, and up to when.

    ``subject`` may have wildcards, such as ``gpu SXM3 *``; ``until`` is the last day (UTC).
    """

    check: Text
    until: Annotated[str, Converted("a day", _last_day)]
    subject: Text = "*"

    def accepts(self, finding: Finding, now: float) -> bool:
        """Return whether it is about this finding; ``now`` is in seconds since the epoch."""
        return (
            finding.check == self.check
            and fnmatchcase(finding.subject, self.subject)
            and datetime.fromtimestamp(now, timezone.utc).date() <= date.fromisoformat(self.until)
        )


def parted(
    findings: Iterable[Finding], deviations: Sequence[Deviation], now: float
) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that count, and those that are accepted."""
    counting: list[Finding] = []
    accepted: list[Finding] = []
    for each in findings:
        known = each.verdict != PASS and any(deviation.accepts(each, now) for deviation in deviations)
        (accepted if known else counting).append(each)
    return counting, accepted
