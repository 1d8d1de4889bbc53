"""Has the fabric manager logged an error since its last start: of an NVSwitch (SXid), of a GPU, of the topology?

Wordings: leptonai/gpud 4a8de33, its component for the fabric manager. An error line that is not among them, or a
warning of something that does not work, is not passed over: it is ``incomplete``. Owed on the host; a switch with an
error has a finding under its PCI address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..judging.log_faults import HOST, Fault, findings_of, rule
from ..judging.sxid import SwitchEvent, verdict_of
from ..judging.xid import SAME_EVENT_SECONDS
from ..probes.fabric_manager_log import Entry
from ..words.expectations import Expectations, pci_address
from ..words.finding import FAIL, INCOMPLETE, Finding

NAME = "fabric_manager_log"
RULES = 3
PROBES: tuple[str, ...] = ("fabric_manager_log",)

_SXID = re.compile(
    r"detected NVSwitch (non-fatal|fatal) error (\d{1,5})\b"
    r"(?:.*?\bpci bus id ([0-9a-fA-F:.]+))?(?:.*?\bport (\d{1,3})\b)?",
    re.ASCII,
)
_RULES = (
    rule(r"failed to find the GPU handle \d+ in the multicast team", "a GPU left the NVLink fabric", FAIL, "reboot"),
    rule(
        r"number of NVSwitches don't match with any supported system topology",
        "not all NVSwitches of the baseboard are there", FAIL, "reboot",
    ),
    # NVIDIA's start script asks the NVSwitch driver for its devices; a baseboard without one has no fabric manager.
    rule(r"NVSwitch device information .*NV_WARN_NOTHING_TO_DO|no NVSwitch(?:es)? (?:found|detected|present)",
         "no NVSwitch is seen", FAIL, "reboot"),
    rule(r"(?:[Ff]ailed|failure) to (?:query|get|detect|open) NVSwitch", "NVSwitches cannot be asked: {text}",
         FAIL, "reboot"),
    rule(r"nv-fabricmanager.* failed! Exit code: [1-9]|nvidia-fabricmanager\.service: (?:.*status=(?!0/)\S+"
         r"|Failed with result|.*code=(?:killed|dumped))", "the service failed: {text}", FAIL, "investigate"),
    # As systemctl status writes it, and systemd in the journal.
    rule(r"^\s*Active: (?:failed|inactive)\b|Failed to start .*[Ff]abric ?[Mm]anager", "the service failed: {text}",
         FAIL, "investigate"),
    rule(r"version \S+ do(?:n't|es not|esn't) match", "versions do not match: {text}", FAIL, "investigate"),
    rule(r"aborting fabric manager", "gave up: {text}", FAIL, "investigate"),
    rule(r"\b[Tt]raining .*\bfail|[Ff]ailed to train|\bnot trained\b", "a link did not come up: {text}",
         FAIL, "reset_gpu"),
    rule(r"\bdegraded\b", "the fabric works with less than it has: {text}", FAIL, "investigate"),
)  # fmt: skip
# A level that is not among these is an error's. Of a warning its words say whether something does not work.
_QUIET = ("", "DEBUG", "INFO", "NOTICE", "WARNING")
_TROUBLE = re.compile(
    r"\b(?:fail\w*|errors?|timed?[ -]?out|lost|unable|cannot|missing|unreachable|not respond\w*|inactive)\b",
    re.IGNORECASE,
)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, if its class has a fabric manager that writes a log."""
    nvlink = expect.nvlink
    return [HOST] if expect.gpu and nvlink and nvlink.fabric_manager and nvlink.fabric_manager_log else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host and one for each switch with an error."""
    entries: Sequence[Entry] = values["fabric_manager_log"]
    faults = [*_switch_faults(entries), *(fault for entry in entries if (fault := _fault(entry)))]
    return findings_of(NAME, faults, [HOST])


def _fault(entry: Entry) -> Fault | None:
    if _SXID.search(entry.text):
        return None
    text = entry.text.strip()[:160]
    for item in _RULES:
        if item.pattern.search(entry.text):
            return Fault(HOST, item.what.format(text=text), item.verdict, item.action, entry.stamp)
    if entry.level in _QUIET and not (entry.level == "WARNING" and _TROUBLE.search(entry.text)):
        return None
    return Fault(HOST, f"{entry.level} not in the catalogue: {text!r}", INCOMPLETE, "investigate", entry.stamp)


def _switch_faults(entries: Iterable[Entry]) -> Iterator[Fault]:
    latest: dict[tuple[str | None, int | None, int | None], float | None] = {}
    for event in _switch_events(entries):
        key = (event.address, event.code, event.link)
        again = False
        if key in latest:
            before, latest[key] = latest[key], event.seconds
            if before is None or event.seconds is None or 0 <= event.seconds - before <= SAME_EVENT_SECONDS:
                continue
            again = True
        latest[key] = event.seconds
        verdict, action = verdict_of(event, again)
        part = f"nvswitch {event.address}" if event.address else HOST
        yield Fault(part, event.name, verdict, action, event.stamp)


def _switch_events(entries: Iterable[Entry]) -> Iterator[SwitchEvent]:
    for entry in entries:
        match = _SXID.search(entry.text)
        if match:
            word, code, bus, port = match.groups()
            address = pci_address(bus or "")
            link = int(port) if port else None
            switch = f"the NVSwitch at {address or 'an unknown address'}"
            yield SwitchEvent(switch, address, int(code), link, word == "fatal", entry.text, entry.stamp, entry.seconds)
