"""Verdicts as a person reads them: order, worst finding, one row per node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import (
    ACTIONS,
    PASS,
    VERDICTS,
    Finding,
    Value,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.printable import printable
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import Converted, ReadError, Text, read_as

# In the order in which somebody has to look at them; a state that is not listed comes first, it is a surprise.
STATES_SHOWN = ("rejected", "quarantined", "held", "testing", "new", "spare", "admitted", "retired")
# Nobody has to act on these.
QUIET_STATES = ("spare", "admitted", "retired")

_SPELLING = {name: name.upper() for name in ("cpu", "gpu", "nccl", "nic", "pci", "vbios")}


def _finding(data: Any) -> Finding:
    try:
        return Finding.from_dict(data)
    except (TypeError, ValueError) as exc:
        raise ReadError("", str(exc), "a finding") from exc


@dataclass(frozen=True)
class Accepted:
    """Who accepted a finding that did not pass, why, and until which day."""

    reason: Text
    who: Text
    until: Text


@dataclass(frozen=True)
class Waived:
    """A finding that did not pass and counts as if it did."""

    finding: Annotated[Finding, Converted("a finding", _finding)]
    waiver: Accepted


@dataclass(frozen=True)
class Due:
    """A stage that a node in service has to prove again, and why."""

    stage: Text
    reason: Text


@dataclass(frozen=True)
class Verdict:
    """What admission said about one node; ``stage`` is empty where no stage decided.

    ``evidence`` are the ids of the records that it was judged by; what passed may be there alone. ``weaker`` says in
    what the node was asked less than what Muster ships.
    """

    node: Text
    state: Text
    stage: str
    findings: tuple[Annotated[Finding, Converted("a finding", _finding)], ...]
    evidence: tuple[str, ...] = ()
    waived: tuple[Waived, ...] = ()
    due: tuple[Due, ...] = ()
    weaker: tuple[str, ...] = ()

    def completed(self, recorded: Iterable[Evidence]) -> Verdict:
        """Return the verdict with every finding of its evidence, in the order of that, and then its own others."""
        by_id = {item.id: item for item in recorded}
        whole = [finding for name in self.evidence if name in by_id for finding in by_id[name].findings]
        known = set(whole)
        return replace(self, findings=(*whole, *(finding for finding in self.findings if finding not in known)))

    def to_dict(self) -> dict[str, Any]:
        """Return an entry of ``verdicts.json``."""
        return {
            "node": self.node,
            "state": self.state,
            "stage": self.stage,
            "findings": [finding.to_dict() for finding in self.findings],
            "waived": [{"finding": each.finding.to_dict(), "waiver": vars(each.waiver)} for each in self.waived],
            "due": [vars(each) for each in self.due],
            "weaker": list(self.weaker),
        }


@dataclass(frozen=True)
class Row:
    """One line of the verdict table; all fields are ready to print."""

    node: str
    state: str
    stage: str
    reason: str
    measured: str
    expected: str


def verdicts_from(data: Any) -> tuple[Verdict, ...]:
    """Return the verdicts in ``data``, sorted by state (worst first) and name; raises ReadError."""
    verdicts: tuple[Verdict, ...] = read_as(tuple[Verdict, ...], data, "verdicts")
    for name, count in Counter(verdict.node for verdict in verdicts).items():
        if count > 1:
            raise ReadError("verdicts", f"node {name!r} twice", "each node once")
    return tuple(sorted(verdicts, key=verdict_order))


def verdict_order(verdict: Verdict) -> tuple[int, str, tuple[tuple[int, int | str], ...]]:
    """Return the sort key of a verdict: state, worst first, then name with numbers in counting order."""
    rank = STATES_SHOWN.index(verdict.state) if verdict.state in STATES_SHOWN else -1
    return rank, verdict.state, counting_order(verdict.node)


def counting_order(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key that puts ``gpu-9`` before ``gpu-10``."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"([0-9]+)", name))


def worst_finding(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding that explains the state: worst verdict, then most drastic action, then the first one given.

    None where nothing is worse than ``pass``.
    """
    bad = [finding for finding in findings if finding.verdict != PASS]
    return min(bad, key=lambda one: (VERDICTS.index(one.verdict), ACTIONS.index(one.action)), default=None)


def reason_of(finding: Finding) -> str:
    """Return the finding's reason with its part named once; the host as a whole need not be named."""
    reason = finding.reason or f"{finding.check}: {finding.verdict}"
    named = finding.subject == "host" or all(word in reason for word in finding.subject.split())
    return reason if named else f"{finding.subject}: {reason}"


def words(name: str) -> str:
    """Return a name of ours as people write it: ``burn_in`` is burn-in, ``gpu_serials`` GPU serials."""
    return " ".join(_SPELLING.get(word, word) for word in name.replace("burn_in", "burn-in").split("_"))


def verdict_rows(verdicts: Iterable[Verdict]) -> list[Row]:
    """Return one row per verdict, in the order given; the reason is that of the node's worst finding."""
    return [_row(verdict) for verdict in verdicts]


def _row(verdict: Verdict) -> Row:
    finding = worst_finding(verdict.findings)
    if finding is None:
        # A node that waits says so; an admitted one needs no reason.
        reason = "" if verdict.findings or verdict.state in QUIET_STATES else "no findings yet"
        return Row(printable(verdict.node), printable(verdict.state), printable(verdict.stage), reason, "", "")
    return Row(
        printable(verdict.node),
        printable(verdict.state),
        printable(verdict.stage),
        printable(reason_of(finding)),
        printable(quantity(finding.measured, finding.unit)),
        printable(quantity(finding.expected, finding.unit)),
    )


def quantity(value: Value, unit: str = "") -> str:
    """Return a value with its unit; an absent value is empty, a float has four significant digits."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value} {unit}".strip()
    # 0.1 + 0.2 is nobody's measurement, and 1e+03 nobody's way to write a thousand.
    return f"{value:.4g} {unit}".strip() if abs(value) < 1000 else f"{value:.0f} {unit}".strip()
