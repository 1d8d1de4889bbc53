"""Did CPU or memory err since boot (machine checks, EDAC, firmware records), or a part of the host overheat?

Formats: the kernel's drivers/edac/edac_mc.c (``EDAC MC0: 16384 CE memory read error on LABEL (...)``), skx and i10nm
decoders, mce_amd.c (``MC17_STATUS[Over|UE|...``), arch/x86/kernel/cpu/mce, drivers/thermal/thermal_core.c; bits of a
bank's status: Intel SDM volume 3B, 16.3.2.2. Owed on the host; a DIMM or CPU that errs has a finding of its own, a DIMM
under EDAC's label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.hardware_error import hardware_errors_in
from ..judging.log_faults import HOST, Fault, findings_of, matches, rule
from ..probes.kernel_log import Message
from ..words.expectations import Expectations
from ..words.finding import FAIL, PASS, Finding

NAME = "machine_check"
RULES = 3
PROBES: tuple[str, ...] = ("kernel_log",)

CPU = "cpu"
_WORDS = (
    *("EDAC", "mce", "MCE", "Hardware Error", "Memory failure", "achine check", "Machine Check", "temperature"),
    *("do_boot_cpu", "failed to come online"),
)
_EDAC = re.compile(r"EDAC MC\d+: (?:(\d+) )?(CE|UE)\b(?:.*? on (.+?) \(|.* label \"([^\"]*)\"|)", re.ASCII)
_STATUS = re.compile(r"Machine Check(?: Exception| Event)?: *\S+ Bank (\d+): (?:0x)?([0-9a-fA-F]{16})\b", re.ASCII)
_OVERFLOWED, _UNCORRECTED = 1 << 62, 1 << 61
_RULES = (
    rule(r"mce: .*Uncorrected hardware memory error", "uncorrected memory error", FAIL, "replace"),
    rule(r"Memory failure: 0x", "memory page lost", FAIL, "replace"),
    rule(r"MCE: Killing .* due to hardware memory corruption", "a program met lost memory", FAIL, "replace"),
    rule(r"\[Hardware Error\]: .*\bMC\d+_STATUS\[(?:Over|-)\|UE\|", "uncorrected machine check", FAIL, "replace"),
    rule(r"\[Hardware Error\]: .*\bMC\d+_STATUS\[[^\]]*\bDeferred\b", "deferred machine check", FAIL, "investigate"),
    rule(r"EDAC DEVICE\d+: UE\b", "uncorrected error of a part with error correction", FAIL, "replace"),
    rule(r"do_boot_cpu failed|\bCPU\d+: failed to come online", "CPU did not start", FAIL, "investigate"),
    rule(r"\bcritical temperature reached", "a part reached its critical temperature", FAIL, "investigate"),
    rule(r"Kernel panic - not syncing: .*[Mm]achine check", "panic by machine check", FAIL, "replace"),
    rule(r"mce: .*(?:Fatal [Mm]achine check|Processor context corrupt)", "fatal machine check", FAIL, "replace"),
    rule(r"\[Hardware Error\]: (?:System Fatal error|Uncorrected)", "uncorrected machine check", FAIL, "replace"),
    rule(r"\[Hardware Error\]: Deferred error", "deferred machine check", FAIL, "investigate"),
    rule(r"\bCPU\d+: Package temperature(?:/speed)? (?:is )?above threshold", "CPU too hot", FAIL, "investigate"),
    rule(r"\bCPU\d+: Core temperature(?:/speed)? (?:is )?above threshold", "CPU core hot", PASS, "investigate"),
    rule(r"Machine check events logged", "machine check events logged", PASS, "investigate"),
    rule(r"\[Hardware Error\]: Corrected error", "corrected machine check", PASS, "none"),
)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return [HOST]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host and one for each part of which the log tells something."""
    messages = values["kernel_log"]
    limit = expect.kernel_log.memory_corrected_errors
    faults = [
        Fault(CPU if "CPU" in item.what else HOST, item.what, item.verdict, item.action, message.stamp)
        for message, item, _ in matches(messages, _RULES, _WORDS)
    ]
    faults += _memory(messages, limit) + _banks(messages, limit) + _from_firmware(messages)
    return findings_of(NAME, faults, [HOST])


def _memory(messages: Sequence[Message], limit: float) -> list[Fault]:
    """Return EDAC's errors; corrected ones are a fault above the class's limit, or where their counter ran over."""
    faults: list[Fault] = []
    counts: dict[str, int] = {}
    for message in messages:
        match = _EDAC.search(message.text) if "EDAC MC" in message.text else None
        if not match:
            continue
        part = f"dimm {match.group(3) or match.group(4) or 'unknown'}"
        if match.group(2) == "UE":
            faults.append(Fault(part, "uncorrected memory error", FAIL, "replace", message.stamp))
            continue
        counts[part] = counts.get(part, 0) + int(match.group(1) or 1)
        if "OVERFLOW" in message.text:
            faults.append(Fault(part, "corrected memory errors faster than they are counted", FAIL, "replace"))
    for part, count in counts.items():
        what = f"{count} corrected memory errors, class limit {limit:g}"
        faults.append(Fault(part, what, *((FAIL, "replace") if count > limit else (PASS, "none"))))
    return faults


def _banks(messages: Sequence[Message], limit: float) -> list[Fault]:
    faults: list[Fault] = []
    corrected = 0
    for message in messages:
        match = _STATUS.search(message.text) if "Machine Check" in message.text else None
        if not match:
            continue
        status = int(match.group(2), 16)
        if status & _UNCORRECTED:
            what = f"uncorrected machine check in bank {match.group(1)}"
            faults.append(Fault(CPU, what, FAIL, "investigate", message.stamp))
        # What EDAC decodes is counted there, by DIMM.
        elif "EDAC" not in message.text:
            corrected += 1
            if status & _OVERFLOWED:
                what = f"corrected machine checks in bank {match.group(1)} faster than they are counted"
                faults.append(Fault(CPU, what, FAIL, "investigate", message.stamp))
    if corrected:
        what = f"{corrected} corrected machine checks, class limit {limit:g}"
        faults.append(Fault(CPU, what, *((FAIL, "investigate") if corrected > limit else (PASS, "none"))))
    return faults


def _from_firmware(messages: Sequence[Message]) -> list[Fault]:
    faults = []
    for record in hardware_errors_in(messages):
        section = record.fields.get("section", "unknown section")
        if "pcie" in section.lower() or record.corrected:
            # Of corrected memory errors EDAC speaks as well (ghes_edac), with a count.
            continue
        dimm = record.fields.get("dimm")
        action = "replace" if "memory" in section else "investigate"
        what = f"{record.severity} {section} reported by firmware"
        faults.append(Fault(f"dimm {dimm}" if dimm else HOST, what, FAIL, action, record.stamp))
    return faults
