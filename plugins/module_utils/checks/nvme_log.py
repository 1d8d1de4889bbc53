"""What does the kernel log say of NVMe drives?

Formats: the kernel's drivers/nvme/host/{core,pci}.c and block/blk-core.c. Owed on the host; a drive of which the log
tells something has a finding of its own, under its PCI address where the log names it. A line at error level that is
not among these is a remark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.log_faults import HOST, Fault, findings_of, matches, remarks_in, rule
from ..probes.kernel_log import Message
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nvme_log"
RULES = 3
PROBES: tuple[str, ...] = ("kernel_log",)

_WORDS = ("nvme",)
_DRIVER = re.compile(r"nvme\b|nvme\d+\w*:")
_DRIVE = r"(?P<drive>nvme\d+)"
# drivers/nvme/host/{tcp,rdma}.c: a drive behind the network, between its loss and its return.
_AWAY = re.compile(
    rf"nvme {_DRIVE}: (?:starting error recovery|Reconnecting in \d+ seconds|Failed reconnect attempt \d+)"
)
_BACK = re.compile(rf"nvme {_DRIVE}: Successfully reconnected")
_PLACE = re.compile(r"nvme (nvme\d+): pci function ([0-9a-fA-F:]+\.[0-7])", re.ASCII)
_RULES = (
    rule(r"nvme (?P<drive>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): probe with driver nvme failed with error",
         "controller does not start", FAIL, "replace"),
    rule(r"nvme: probe of (?P<drive>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) failed with error",
         "controller does not start", FAIL, "replace"),
    rule(rf"nvme {_DRIVE}: failed to set APST feature", "power states cannot be set", PASS, "investigate"),
    # Status code type 2 is media and data integrity errors (NVM Express Base Specification, status field).
    rule(rf"{_DRIVE}\w*: .*\(sct 0x2 /", "medium error", FAIL, "replace"),
    # Errors of transfer and of the drive itself, a namespace that is not ready or only read, the path to the drive.
    rule(rf"{_DRIVE}\w*: .* @ LBA \d+, \d+ blocks, .*\(sct 0x(?:0 / sc 0x(?:4|6|82)|1 / sc 0x82|3 / sc 0x[0-9a-f]+)\b",
         "I/O error", FAIL, "replace"),
    rule(rf"nvme {_DRIVE}: Removing controller", "connection to a network drive was given up", FAIL, "investigate"),
    rule(rf"nvme {_DRIVE}: .*Shutdown timeout set to", "limit of a shutdown (harmless)", PASS, "none"),
    rule(rf"nvme {_DRIVE}: .*(?:I/O|Identify|Admin).*[Tt]imeout", "command timed out", FAIL, "replace"),
    rule(rf"nvme {_DRIVE}: .*controller is down", "controller is down", FAIL, "replace"),
    rule(rf"nvme {_DRIVE}: .*(?:Removing after probe failure|Device not ready|Disabling device after reset failure"
         r"|Removing device|Failed to get|[Ii]dentify .*failed)", "controller does not start", FAIL, "replace"),
    rule(rf"nvme {_DRIVE}: (?:frozen state error|.*failed to|.*is unresponsive|.*fatal)",
         "controller failed", FAIL, "replace"),
    rule(rf"{_DRIVE}\w*: .*(?:critical|[Uu]nrecovered|[Mm]edium error|Media Error)", "medium error", FAIL, "replace"),
    rule(rf"critical \w+ error, dev {_DRIVE}", "medium error", FAIL, "replace"),
    rule(rf"I/O error,? (?:on )?dev(?:ice)? {_DRIVE}", "I/O error", FAIL, "replace"),
    # block/blk-core.c, blk_errors. A drive may refuse to discard; one that refuses to read or write serves nobody.
    rule(rf"(?:timeout|protection|recoverable transport) error, dev {_DRIVE}", "I/O error", FAIL, "replace"),
    rule(rf"operation not supported error, dev {_DRIVE}.* op 0x[01]:", "refuses to read or write", FAIL, "replace"),
    rule(rf"nvme {_DRIVE}: missing or invalid SUBNQN", "drive names no SUBNQN (harmless)", PASS, "none"),
    rule(rf"nvme {_DRIVE}: resetting controller", "controller was reset", PASS, "investigate"),
)  # fmt: skip


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return [HOST]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host and one for each drive of which the log tells something."""
    messages = values["kernel_log"]
    places = _places(messages)
    faults = [
        Fault(f"nvme {places.get(match['drive'], match['drive'])}", item.what, item.verdict, item.action, message.stamp)
        for message, item, match in matches(messages, _RULES, _WORDS)
    ]
    known = [each for each in messages if not (_AWAY.search(each.text) or _BACK.search(each.text))]
    return findings_of(NAME, [*faults, *_lost(messages), *remarks_in(known, _DRIVER, _RULES)], [HOST])


def _lost(messages: Sequence[Message]) -> list[Fault]:
    """Return the network drives that were away for a time, or that the log does not say to be back."""
    since: dict[str, str] = {}
    faults = []
    for message in messages:
        if "econnect" not in message.text and "error recovery" not in message.text:
            continue
        if match := _AWAY.search(message.text):
            since.setdefault(match["drive"], message.stamp)
        elif (match := _BACK.search(message.text)) and match["drive"] in since:
            stamp = since.pop(match["drive"])
            faults.append(Fault(f"nvme {match['drive']}", "was away for a time", PASS, "investigate", stamp))
    what = "its connection was lost and the log does not say that it came back"
    return faults + [Fault(f"nvme {drive}", what, INCOMPLETE, "investigate", stamp) for drive, stamp in since.items()]


def _places(messages: Sequence[Message]) -> dict[str, str]:
    found = (_PLACE.search(message.text) for message in messages if "pci function" in message.text)
    return {match.group(1): match.group(2).lower() for match in found if match}
