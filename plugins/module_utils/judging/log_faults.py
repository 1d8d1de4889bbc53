"""From lines of a log to findings: patterns as data, one finding for each part, its worst line first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..host.rail_names import Names
from ..nic.declared_nics import rails_of, subject_of
from ..probes.kernel_log import Message
from ..words.expectations import Expectations, gpu_subjects, pci_address
from ..words.finding import ACTIONS, PASS, VERDICTS, Finding

HOST = "host"
# More lines than these in one reason help nobody; the raw log is kept.
_NAMED = 5


@dataclass(frozen=True)
class Fault:
    """One thing that a log says about a part; a ``pass`` is worth knowing and no fault."""

    part: str
    what: str
    verdict: str
    action: str
    stamp: str = ""


@dataclass(frozen=True)
class Rule:
    """A pattern for the kernel's text, and what a line that fits it says; ``what`` may name the pattern's groups.

    A group called ``address`` is the PCI address of the part, one called ``port`` what the kernel calls it.
    """

    pattern: re.Pattern[str]
    what: str
    verdict: str
    action: str


def rule(pattern: str, what: str, verdict: str, action: str) -> Rule:
    """Return the rule with its pattern compiled."""
    return Rule(re.compile(pattern, re.ASCII), what, verdict, action)


def matches(
    messages: Iterable[Message], rules: Sequence[Rule], words: Sequence[str]
) -> Iterator[tuple[Message, Rule, re.Match[str]]]:
    """Yield each message that a rule fits, with the first such rule; what fits a rule has one of ``words``."""
    for message in messages:
        text = message.text
        if not any(word in text for word in words):
            continue
        for item in rules:
            match = item.pattern.search(text)
            if match:
                yield message, item, match
                break


def faults_in(
    messages: Iterable[Message],
    rules: Sequence[Rule],
    words: Sequence[str],
    part_of: Callable[[str], str] | None = None,
) -> list[Fault]:
    """Return what the rules find; ``part_of`` names the part that a line names, without it all is the host's."""
    found = []
    for message, item, match in matches(messages, rules, words):
        groups = match.groupdict()
        named = groups.get("address") or groups.get("port")
        part = part_of(named) if part_of and named else HOST
        found.append(Fault(part, item.what.format(**groups), item.verdict, item.action, message.stamp))
    return found


def pci_part(address: str, expect: Expectations) -> str:
    """Return the class's name of the part at a PCI address, ``pci ADDRESS`` if the class does not know it."""
    known = pci_address(address) or address
    if known in gpu_subjects(expect):
        return gpu_subjects(expect)[known]
    nic = nic_part(known, expect)
    return f"pci {known}" if nic.endswith(known) else nic


def nic_part(said: str, expect: Expectations, names: Names | None = None) -> str:
    """Return the class's name of a NIC, ``nic SAID`` if the class does not know it.

    ``said`` is its PCI address, or the name of its RDMA device or network interface, which ``names`` tells.
    """
    known, names = pci_address(said) or said, names or Names()
    for rail in rails_of(expect):
        address = rail.address
        if known in (address, *names.devices.get(address, ()), *names.interfaces.get(address, ())):
            return subject_of(rail)
    return f"nic {known}"


def findings_of(check: str, faults: Iterable[Fault], owed: Sequence[str]) -> list[Finding]:
    """Return one finding for each part that is owed one or has a fault: the worst, with all in its reason."""
    by_part: dict[str, list[Fault]] = {part: [] for part in owed}
    for fault in faults:
        by_part.setdefault(fault.part, []).append(fault)
    return [
        _finding(check, part, found)
        for part, found in by_part.items()
        if part in owed or not all(map(_harmless, found))
    ]


def _harmless(fault: Fault) -> bool:
    return (fault.verdict, fault.action) == (PASS, "none")


def _finding(check: str, part: str, faults: Sequence[Fault]) -> Finding:
    if not faults:
        return Finding(check, part, PASS, "none", "none")
    ranked = sorted(faults, key=lambda fault: (VERDICTS.index(fault.verdict), ACTIONS.index(fault.action)))
    first: dict[str, str] = {}
    times: dict[str, int] = {}
    for fault in ranked:
        first.setdefault(fault.what, fault.stamp)
        times[fault.what] = times.get(fault.what, 0) + 1
    told = [
        what + (f" at {first[what]}" if first[what] else "") + (f", {count} times" if count > 1 else "")
        for what, count in times.items()
    ]
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    worst = ranked[0]
    return Finding(check, part, worst.verdict, worst.what, "none", "", "; ".join(told[:_NAMED]) + more, worst.action)
