"""NVIDIA's Xid errors: the catalogue as data, and the events in a kernel log.

Source of codes and actions: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors, spreadsheet of 2025-10-29 as
carried by leptonai/gpud 4a8de33) and aws-samples/awsome-distributed-training 7217859. Where NVIDIA names two actions,
it is the immediate one, but for 63 and 94: they ask for a reset at the next idle time, and a host under examination
is idle. That the driver itself calls some events Nonfatal, or names the Xid that caused one, is in the event's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..probes.kernel_log import Message
from ..words.expectations import pci_address
from ..words.finding import ACTIONS, FAIL, INCOMPLETE, PASS
from ..words.finding import VERDICTS as WORST_FIRST

IGNORE, MONITOR, WATCH, APP, SUPPORT, RESET, REBOOT, HANDS, RMA, TEXT = (
    "ignore",
    "monitor",
    "watch",
    "app",
    "support",
    "reset",
    "reboot",
    "hands",
    "rma",
    "text",
)

# What a class of events says about a GPU: verdict and action.
VERDICTS = {
    IGNORE: (PASS, "none"),
    MONITOR: (PASS, "none"),
    # No verdict on the hardware by itself; people should know.
    WATCH: (PASS, "investigate"),
    # The program at fault is restarted; the GPU is not to blame.
    APP: (PASS, "restart_app"),
    SUPPORT: (FAIL, "investigate"),
    RESET: (FAIL, "reset_gpu"),
    REBOOT: (FAIL, "reboot"),
    HANDS: (FAIL, "reseat"),
    RMA: (FAIL, "rma"),
}

_SINGLE = {
    8: ("GPU stopped processing", APP),
    11: ("invalid push buffer", APP),
    13: ("graphics engine exception", APP),
    25: ("illegal push buffer", APP),
    31: ("MMU page fault", APP),
    32: ("PBDMA error", APP),
    37: ("driver firmware method error", IGNORE),
    38: ("firmware watchdog", SUPPORT),
    43: ("GPU stopped processing a program", APP),
    44: ("fault during context switch", IGNORE),
    45: ("preemptive cleanup", APP),
    46: ("GPU timeout", RESET),
    48: ("double-bit ECC error", RESET),
    54: ("auxiliary power not connected", HANDS),
    60: ("SEC2 or video engine exception", APP),
    61: ("internal microcontroller breakpoint", SUPPORT),
    62: ("PMU halt", RESET),
    63: ("row remap recorded", RESET),
    64: ("row remap failed", RESET),
    66: ("illegal access by driver", IGNORE),
    67: ("illegal access by driver", IGNORE),
    68: ("NVDEC0 exception", APP),
    69: ("graphics engine class error", APP),
    74: ("NVLink error", RESET),
    78: ("vGPU start error", SUPPORT),
    79: ("GPU has fallen off the bus", REBOOT),
    80: ("push buffer CRC error", APP),
    81: ("VGA subsystem error", MONITOR),
    85: ("copy engine 9 exception", APP),
    86: ("OFA exception", APP),
    92: ("high single-bit ECC rate", MONITOR),
    93: ("inforom wear", MONITOR),
    94: ("contained memory error", RESET),
    95: ("uncontained memory error", RESET),
    106: ("SMBPBI test message", IGNORE),
    107: ("SMBPBI test message", IGNORE),
    109: ("context switch timeout", RESET),
    110: ("security fault", RESET),
    119: ("GSP RPC timeout", RESET),
    120: ("GSP error", RESET),
    121: ("C2C link error", SUPPORT),
    122: ("SPI PMU or inforom error", MONITOR),
    123: ("SPI initialisation error", MONITOR),
    125: ("inforom error", SUPPORT),
    136: ("link training failed", RESET),
    137: ("NVLink privilege error", APP),
    139: ("OFA exception", APP),
    140: ("unrecovered ECC error", RESET),
    141: ("CUDA fast path", IGNORE),
    143: ("GPU initialisation error", RESET),
    151: ("key rotation error", REBOOT),
    154: ("GPU recovery action changed", TEXT),
    155: ("NVLink software-defined error", RESET),
    156: ("resource retirement", RESET),
    157: ("resource retirement failed", RMA),
    158: ("GPU fatal timeout", RESET),
    160: ("channel retirement", MONITOR),
    161: ("channel retirement", MONITOR),
    167: ("PCIe fatal timeout", REBOOT),
    168: ("reduced memory capacity", REBOOT),
    171: ("detail of a DRAM error", RESET),
    172: ("detail of an SRAM error", RMA),
}
_NVLINK5 = range(144, 151)
_RANGES = (
    ((39, 40, 41, 70, 71, 72, 75, 76, 77, *range(126, 136)), "copy engine exception", APP),
    ((82, *range(99, 106)), "NVJPG exception", APP),
    ((83, 84, 88, 89, 96, 97, 98), "NVDEC exception", APP),
    (tuple(_NVLINK5), "NVLink5 unit error", RESET),
    (tuple(range(162, 166)), "power smoothing", MONITOR),
)
CATALOGUE: dict[int, tuple[str, str]] = {
    **_SINGLE,
    **{code: (meaning, kind) for codes, meaning, kind in _RANGES for code in codes},
}

# What an event of this code asks for when it comes back on the same GPU: numbers of NVIDIA's second column ("support"),
# of aws-samples (twice: isolate), and our own for OF_PROGRAMS.
AGAIN: dict[int, str] = {
    **dict.fromkeys((8, 13, 31, 32, 39, 40, 41, 62, 68, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86), SUPPORT),
    **dict.fromkeys((88, 89, 92, *range(96, 106), *range(126, 136), 139), SUPPORT),
    119: REBOOT,
    120: REBOOT,
    **dict.fromkeys((74, 79, 136, 140, 143), RMA),
}
# What one buggy program causes as often as it is started: the GPU is at fault where several programs meet it.
OF_PROGRAMS = (13, 31, 32, 80)
# A second code on the same GPU that makes the first one worse: after a double-bit error the row could not be remapped.
TOGETHER: dict[tuple[int, int], str] = {(48, 64): RMA}
NVLINK_ERROR = 74

# Xid 154's text is NVIDIA's own verdict: "changed from 0x0 (None) to 0x4 (Drain and Reset)".
RECOVERY = {
    "none": (PASS, "none"),
    "gpu reset required": (FAIL, "reset_gpu"),
    "drain and reset": (FAIL, "reset_gpu"),
    "node reboot required": (FAIL, "reboot"),
    "drain p2p": (FAIL, "investigate"),
}

FALLEN_OFF = 79
RECOVERY_CHANGED = 154
# Identical events on one GPU this close together are one (the rule of the study "Story of Two GPUs").
SAME_EVENT_SECONDS = 5.0

# With MIG the instance stands behind the address: "(PCI:0000:3b:00 GPU-I:05)".
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)(?: GPU-I:\d+)?\): (\d{1,5})(?:, *(.*))?$", re.ASCII)
# NVLink5's units tell their severity: "RLW_RXPIPE Nonfatal XC0 i0 Link 13" (NVIDIA's catalogue, 144 to 150).
_NON_FATAL = re.compile(r"\bNon-?fatal\b", re.IGNORECASE)
_CAUSE = re.compile(r"\bcaused by previous Xid (\d{1,5})\b", re.ASCII)
_PID = re.compile(r"\bpid='?(\d+)")
_ANY_XID = re.compile(r"\bXid\b")
_FALLEN = re.compile(r"fallen off the bus", re.IGNORECASE)
_GPU_ADDRESS = re.compile(r"\b([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\b")
# The driver's long form spreads over three lines, the address on the first.
_LINES_OF_ONE_MESSAGE = 3


@dataclass(frozen=True)
class Event:
    """One Xid, or a GPU fallen off the bus without one (``numbered`` False).

    ``address`` is None where the line names none; ``code`` is None where the line speaks of an Xid that cannot be read.
    """

    address: str | None
    code: int | None
    text: str
    stamp: str
    seconds: float | None
    numbered: bool = True
    times: int = 1

    @property
    def cause(self) -> int | None:
        """The Xid that the driver names as the cause of this one, None where it names none."""
        match = _CAUSE.search(self.text)
        return int(match.group(1)) if match else None

    @property
    def non_fatal(self) -> bool:
        """Whether the driver calls it so; of a mere follower it means nothing."""
        return self.code in _NVLINK5 and bool(_NON_FATAL.search(self.text))

    @property
    def name(self) -> str:
        """``Xid 79 (GPU has fallen off the bus)``, with what is needed to tell one of its kind from another."""
        if self.code is None:
            return f"unreadable Xid line {self.text[:80]!r}"
        meaning = CATALOGUE.get(self.code, ("not in the catalogue", ""))[0]
        meaning += ", non-fatal" if self.non_fatal else ""
        name = f"Xid {self.code} ({meaning})" if self.numbered else f"{meaning} without an Xid"
        recovery = f" to {_recovery(self.text)}" if self.code == RECOVERY_CHANGED else ""
        return name + recovery + (f" {self.times} times" if self.times > 1 else "")


def events_in(messages: Sequence[Message]) -> list[Event]:
    """Return the events of a kernel log in order, identical ones within 5 s as one."""
    return _coalesced(_events(messages))


def verdict_of(event: Event) -> tuple[str, str]:
    """Return verdict and action; an event that nobody has described is ``incomplete``, as nobody can pass it."""
    kind = CATALOGUE.get(event.code, ("", ""))[1] if event.code is not None else ""
    if kind == TEXT:
        return RECOVERY.get(_recovery(event.text), (INCOMPLETE, "investigate"))
    if event.non_fatal:
        return VERDICTS[WATCH]
    return VERDICTS.get(kind, (INCOMPLETE, "investigate"))


@dataclass(frozen=True)
class Judged:
    """An event with its verdict in the light of the GPU's others; ``why`` says what made it worse, "" if nothing."""

    event: Event
    verdict: str
    action: str
    why: str = ""


def judged(events: Sequence[Event], fabric_fault: bool = False) -> list[Judged]:
    """Return the events of one GPU with their verdicts: what comes back, or comes with another fault, asks for more.

    ``fabric_fault`` says that an NVSwitch reported a fatal error in the same log. Xid 154 is the driver's own word on
    what the GPU needs, so that its last one gives the action of all, but for a part that has to go.
    """
    codes = {event.code for event in events if event.numbered}
    result = []
    for event in events:
        verdict, action = verdict_of(event)
        kind, why = _worse(event, events, codes, fabric_fault)
        if kind:
            verdict, action = VERDICTS[kind]
        if event.cause is not None:
            why = "; ".join([f"caused by Xid {event.cause}", *([why] if why else [])])
            if event.cause not in codes:
                # The log lost what the driver saw: the cause counts as if it were there, in its plain form.
                verdict, action = _worst([(verdict, action), verdict_of(replace(event, code=event.cause, text=""))])
        result.append(Judged(event, verdict, action, why))
    recoveries = [item for item in result if item.event.code == RECOVERY_CHANGED and item.verdict == FAIL]
    if not recoveries:
        return result
    told = recoveries[-1].action
    return [
        replace(item, action=told) if item.verdict == FAIL and item.action in ("reset_gpu", "reboot") else item
        for item in result
    ]


def _worst(judged_as: Sequence[tuple[str, str]]) -> tuple[str, str]:
    return min(judged_as, key=lambda each: (WORST_FIRST.index(each[0]), ACTIONS.index(each[1])))


def _worse(event: Event, events: Sequence[Event], codes: set[int | None], fabric_fault: bool) -> tuple[str, str]:
    for (code, other), kind in TOGETHER.items():
        if event.code == code and other in codes:
            return kind, f"with Xid {other}"
    if event.code == NVLINK_ERROR and fabric_fault:
        return RMA, "with a fatal NVSwitch error: GPU or switch baseboard"
    if event.code in AGAIN and event.numbered:
        same = [item for item in events if item.code == event.code and item.numbered and not item.non_fatal]
        incidents, programs = _incidents(same)
        of_programs = event.code in OF_PROGRAMS
        if (programs if of_programs else incidents) > 1:
            return AGAIN[event.code], f"came back: {incidents} times in all"
        if of_programs and incidents > 1:
            # One program that goes on failing says as much; several would be the GPU's fault.
            return WATCH, f"came back: {incidents} times in all, of programs that the log does not name"
    return "", ""


def _incidents(events: Sequence[Event]) -> tuple[int, int]:
    """Return how often the events happened, and to how many programs that the log names.

    One program's are one, and what has no time may be a copy.
    """
    timed = [event for event in events if event.seconds is not None]
    pids = [match.group(1) for match in (_PID.search(event.text) for event in timed) if match]
    return len(timed) - len(pids) + len(set(pids)), len(set(pids))


def _recovery(text: str) -> str:
    match = re.search(r" to 0x[0-9a-fA-F]+ \(([^)]*)\)", text)
    return match.group(1).strip().lower() if match else ""


def _events(messages: Sequence[Message]) -> Iterable[Event]:
    for index, message in enumerate(messages):
        text = message.text
        if "NVRM" not in text or "SXid" in text:
            continue
        match = _XID.search(text)
        if match:
            address = pci_address(match.group(1))
            yield Event(address, int(match.group(2)), match.group(3) or "", message.stamp, message.seconds)
        elif _FALLEN.search(text):
            before = messages[max(0, index - _LINES_OF_ONE_MESSAGE + 1) : index]
            lines = [item.text for item in before if "NVRM: The NVIDIA GPU" in item.text] + [text]
            found = [address for line in lines for address in _GPU_ADDRESS.findall(line)]
            address = pci_address(found[-1]) if found else None
            yield Event(address, FALLEN_OFF, text, message.stamp, message.seconds, numbered=False)
        elif _ANY_XID.search(text):
            yield Event(None, None, text, message.stamp, message.seconds)


def _told_apart_by(event: Event) -> str:
    # Each Xid 154 tells of another step; a fatal event is not one more of those that are not.
    if event.code in (RECOVERY_CHANGED, None):
        return event.text
    return f"{event.non_fatal} {event.cause}"


def _coalesced(events: Iterable[Event]) -> list[Event]:
    kept: list[Event] = []
    last: dict[tuple[str | None, int | None, str], int] = {}
    until: dict[tuple[str | None, int | None, str], float] = {}
    for event in events:
        key = (event.address, event.code, _told_apart_by(event))
        if event.seconds is not None and key in last and 0 <= event.seconds - until[key] <= SAME_EVENT_SECONDS:
            kept[last[key]] = replace(kept[last[key]], times=kept[last[key]].times + 1)
        else:
            last[key] = len(kept)
            kept.append(event)
        if event.seconds is not None:
            until[key] = event.seconds
        else:
            last.pop(key, None)
    return kept
