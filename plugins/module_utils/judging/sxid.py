"""NVIDIA's SXid errors, those of NVSwitches: the groups as data, and the events in a kernel log.

Source of codes and groups: NVIDIA's fabric manager user guide DU-09883 v1.3, as carried by leptonai/gpud 4a8de33.
Lines: ``nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up``; further lines of the same
event tell ``Severity`` and ``Data``. Imbue's cluster-health passes what the driver calls non-fatal; we do, unless the
guide calls the code fatal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..probes.kernel_log import Message
from ..words.expectations import pci_address
from ..words.finding import FAIL, INCOMPLETE, PASS
from .xid import SAME_EVENT_SECONDS

CONFIGURATION, NON_FATAL, LINK_FATAL, FATAL, HOT, COOLED = (
    "configuration",
    "non-fatal",
    "fatal to a link",
    "fatal",
    "too hot",
    "cooled down",
)
_GROUPS = {
    # An ingress packet that no access list allows: GPUs of two partitions in one machine, not a broken switch.
    CONFIGURATION: "11004",
    NON_FATAL: "11012 11021-11023 12021 12023 12028 15008 15011 19049 19055 19057 19059 19062 19065 19068 19071 19084 "
    "20001 20009 22013 24001-24003",
    LINK_FATAL: "11001 11009 11013 11018-11020 12001-12002 12022 12024-12027 12030-12032 14017 15001 15006 15009-15010 "
    "15012-15013 19047-19048 19054 19056 19058 19060-19061 19063-19064 19066-19067 19069-19070 20012 20034 24004-24006",
    FATAL: "10003 12020 22003 22011 23001-23017 24007",
    HOT: "10004",
    COOLED: "10005",
}


def _codes(text: str) -> list[int]:
    ends = [[int(end) for end in part.split("-")] for part in text.split()]
    return [code for part in ends for code in range(part[0], part[-1] + 1)]


GROUPS: dict[int, str] = {code: group for group, text in _GROUPS.items() for code in _codes(text)}

_SXID = re.compile(r"(?:nvidia-)?(nvswitch\d+): SXid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d{1,5})(?:, *(.*))?$", re.ASCII)
_ANY_SXID = re.compile(r"\bSXid\b")
_LINK = re.compile(r"\bLink (\d{1,3})\b|\b[Ee]ngine instance (\d{1,3})\b", re.ASCII)
_SEVERITY = re.compile(r"(Non-?fatal|Fatal)\b|Severity (\d)\b", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class SwitchEvent:
    """One SXid. ``switch`` is the driver's name (``nvswitch1``), "" in a line that cannot be read (``code`` None).

    ``fatal`` is the driver's own word, None where it said none; ``link`` is the switch's link number, None where the
    event names none.
    """

    switch: str
    address: str | None
    code: int | None
    link: int | None
    fatal: bool | None
    text: str
    stamp: str
    seconds: float | None
    times: int = 1

    @property
    def name(self) -> str:
        """``SXid 20034 (fatal to a link) on link 48 of nvswitch1``."""
        if self.code is None:
            return f"unreadable SXid line {self.text[:80]!r}"
        link = f"link {self.link} of " if self.link is not None else ""
        many = f" {self.times} times" if self.times > 1 else ""
        return f"SXid {self.code} ({GROUPS.get(self.code, 'not in the catalogue')}) on {link}{self.switch}{many}"


def switch_events_in(messages: Sequence[Message]) -> list[SwitchEvent]:
    """Return the events of a kernel log in order: the lines of one event, and identical ones within 5 s, as one."""
    kept: list[SwitchEvent] = []
    latest: dict[tuple[str, int | None, int | None], int] = {}
    ends: list[float | None] = []
    for message in messages:
        event = _event(message)
        if event is None:
            continue
        detail = event.text.startswith(("Severity", "Data"))
        index = latest.get((event.switch, event.code, event.link)) if event.code is not None else None
        if index is not None and _close(ends[index], event.seconds, detail):
            known = kept[index]
            fatal = event.fatal if known.fatal is None else known.fatal or bool(event.fatal)
            kept[index] = replace(known, fatal=fatal, times=known.times + (not detail))
            ends[index] = event.seconds
            continue
        kept.append(event)
        ends.append(event.seconds)
        # "Data" names no link: it belongs to the last event of its code on its switch.
        for link in (event.link, None):
            latest[event.switch, event.code, link] = len(kept) - 1
    return kept


def _close(before: float | None, now: float | None, detail: bool) -> bool:
    if before is None or now is None:
        return detail
    return 0 <= now - before <= SAME_EVENT_SECONDS


def _event(message: Message) -> SwitchEvent | None:
    if "SXid" not in message.text or not _ANY_SXID.search(message.text):
        return None
    match = _SXID.search(message.text)
    if not match:
        return SwitchEvent("", None, None, None, None, message.text, message.stamp, message.seconds)
    text = match.group(4) or ""
    link, severity = _LINK.search(text), _SEVERITY.search(text)
    fatal = None
    if severity:
        fatal = severity.group(1).lower() == "fatal" if severity.group(1) else severity.group(2) != "0"
    return SwitchEvent(
        match.group(1),
        pci_address(match.group(2)),
        int(match.group(3)),
        int(link.group(1) or link.group(2)) if link else None,
        fatal,
        text,
        message.stamp,
        message.seconds,
    )


def is_fatal(event: SwitchEvent) -> bool:
    """Return whether the driver or the guide calls the event fatal."""
    return bool(event.fatal) or GROUPS.get(event.code or 0) in (LINK_FATAL, FATAL)


def verdict_of(event: SwitchEvent, again: bool = False) -> tuple[str, str]:
    """Return verdict and action; ``again`` says that the same came on the same link before.

    All GPUs and switches of the baseboard have to be reset together; a fault that comes back is the baseboard's.
    """
    group = GROUPS.get(event.code or 0)
    if is_fatal(event):
        return FAIL, "rma" if again else "reset_gpu"
    if group in (CONFIGURATION, HOT):
        return FAIL, "investigate"
    if group == NON_FATAL:
        return PASS, "investigate" if again else "none"
    return (PASS, "none") if group == COOLED else (INCOMPLETE, "investigate")
