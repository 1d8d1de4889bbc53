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
# The kernel's level of an error (include/linux/kern_levels.h); below it are the worse ones. NVRM has no level of its
# own: its lines come at the default one, a warning's, whatever they say.
_ERROR_LEVEL, _WARNING_LEVEL = 3, 4
_ERROR_WORDS = re.compile(
    r"\b(?:errors?|fail(?:s|ed|ure|ures|ing)?|fatal|timed?[ -]?out|unable|cannot|can't|could(?: not|n't)|corrupt\w*"
    r"|abort\w*|lost|unrecover\w*|(?:not|isn't) respond\w*|unresponsive|stuck|hung|hang|crash\w*|panic|exception"
    r"|assert\w*|dead|overheat\w*|poison\w*|overrun|refused|unexpected\w*|bad|invalid|uncorrect\w*|unsupported"
    r"|not supported|thermal|faulty|giving up|requires? (?:a )?(?:reset|reboot)|recovery mode|shut ?down all|degraded"
    r"|violation|mismatch\w*|exceed\w*)\b",
    re.IGNORECASE,
)
# What other checks judge in the lines of every driver: Xid and SXid, AER (with its bits by name, "[12] Timeout") and
# DPC, a slow link, a device off the bus,
# records of the firmware, blocks that cannot be read, a stalled queue.
_ELSEWHERE = re.compile(
    r"\bS?Xid\b|fallen off the bus|PCIe Bus Error|\bAER: |\bDPC: |device \[[0-9a-f]{4}:[0-9a-f]{4}\] error status/mask"
    r"|available PCIe bandwidth|(?:config space|device) inaccessible|\[Hardware Error\]|\berror, dev|\bSlot\(\w+\)"
    r"|NETDEV WATCHDOG|segfault at|:\s+\[ ?\d+\] \w"
)
_ADDRESS = re.compile(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"\b(?:0x[0-9a-f]+|[0-9a-f]*\d[0-9a-f]*)\b", re.IGNORECASE | re.ASCII)
_SHOWN = 160
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
    messages: Sequence[Message], rules: Sequence[Rule], words: Sequence[str]
) -> Iterator[tuple[Message, Rule, re.Match[str]]]:
    """Yield each message that a rule fits, with the first such rule; what fits a rule has one of ``words``."""
    # A log may have half a million lines, many of them alike: words are looked for in all of them before any pattern,
    # and no text twice.
    texts = [message.text for message in messages]
    every = "\n".join(texts)
    near = {at for word in words if word in every for at, text in enumerate(texts) if word in text}
    known: dict[str, tuple[Rule, re.Match[str]] | None] = {}
    for at in sorted(near):
        text = texts[at]
        if text not in known:
            fits = ((item, item.pattern.search(text)) for item in rules)
            known[text] = next(((item, match) for item, match in fits if match), None)
        first = known[text]
        if first:
            yield messages[at], *first


def faults_in(
    messages: Sequence[Message],
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


def remarks_in(
    messages: Iterable[Message],
    driver: re.Pattern[str],
    rules: Sequence[Rule],
    part_of: Callable[[str], str] | None = None,
) -> list[Fault]:
    """Return what a driver says at error level and no rule knows: for people to see, as nobody can say what it means.

    ``driver`` fits the beginning of the driver's lines. Lines that differ in numbers alone are told as the first one.
    """
    first: dict[str, str] = {}
    found = []
    for message in messages:
        text = message.text
        if not driver.match(text) or not _says_error(message):
            continue
        if _ELSEWHERE.search(text) or any(item.pattern.search(text) for item in rules):
            continue
        shown = first.setdefault(_NUMBER.sub("#", text), f"not in the catalogue: {text.strip()[:_SHOWN]!r}")
        named = _ADDRESS.search(text)
        part = part_of(named.group()) if part_of and named else HOST
        found.append(Fault(part, shown, PASS, "investigate", message.stamp))
    return found


def _says_error(message: Message) -> bool:
    if message.level is not None and message.level != _WARNING_LEVEL:
        return message.level <= _ERROR_LEVEL
    return bool(_ERROR_WORDS.search(message.text))


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
