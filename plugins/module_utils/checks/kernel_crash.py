"""Did the kernel crash, lock up or wait without end since boot?

Formats: the kernel's panic.c, watchdog.c, hung_task.c, rcu/tree_stall.h, arch/x86/mm/fault.c and kernel/traps.c; of
arm64 arch/arm64/kernel/traps.c and mm/fault.c. A crash that was asked for (``sysrq: Trigger a crash``) is no fault.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.log_faults import HOST, Fault, findings_of, matches, rule
from ..words.expectations import Expectations
from ..words.finding import FAIL, PASS, Finding

NAME = "kernel_crash"
RULES = 5
PROBES: tuple[str, ...] = ("kernel_log",)

_ASKED_FOR = re.compile(r"sysrq: .*Trigger a crash", re.IGNORECASE)
_AFTER_SECONDS = 5.0
_WORDS = (
    *("anic", "BUG", "Oops", "lockup", "LOCKUP", "blocked ", "stall", "protection fault", "NMI", "sysrq"),
    *("Internal error", "Unable to handle", "SError", "PANIC", " [#", "kthread starved"),
)
_RULES = (
    rule(r"sysrq: .*[Tt]rigger a crash", "a crash was asked for (sysrq)", PASS, "investigate"),
    rule(r"Kernel panic - not syncing: (?P<why>.{0,60})", "kernel panic: {why}", FAIL, "investigate"),
    rule(r"BUG: soft lockup - CPU#(?P<cpu>\d+)", "CPU {cpu} locked up", FAIL, "investigate"),
    rule(r"hard LOCKUP on cpu (?P<cpu>\d+)", "CPU {cpu} locked up", FAIL, "investigate"),
    rule(r"hard LOCKUP", "a CPU locked up", FAIL, "investigate"),
    rule(r"INFO: task (?P<task>.{1,80}?) blocked(?: in I/O wait)? for more than (?P<seconds>\d+) seconds",
         "task {task} waited more than {seconds} s", FAIL, "investigate"),
    rule(r"rcu: INFO: .*(?:self-detected stall|detected stalls)|INFO: rcu_\w+ .*stall|rcu_\w+ kthread starved for",
         "a CPU stalled (RCU)", FAIL, "investigate"),
    # What the kernel calls so though only firmware's tables disagree with each other (kernel/sched/topology.c).
    rule(r"\bBUG: arch topology", "CPU topology of the firmware is odd (harmless)", PASS, "none"),
    rule(r"(?:^ *BUG: |\b(?:kernel )?BUG:? (?=unable to handle|at |Bad page|workqueue lockup))(?P<what>.{0,50})",
         "kernel bug: {what}", FAIL, "investigate"),
    rule(r"^Unable to handle kernel (?P<what>.{0,50})", "kernel bug: unable to handle {what}", FAIL, "investigate"),
    rule(r"^Internal error: (?P<what>.{0,60})", "kernel oops: {what}", FAIL, "investigate"),
    rule(r"SError Interrupt on CPU(?P<cpu>\d+)", "CPU {cpu} took an asynchronous error of the hardware (SError)",
         FAIL, "investigate"),
    rule(r"^general protection fault", "kernel protection fault", FAIL, "investigate"),
    rule(r"\bPANIC: (?P<why>double fault.{0,50})", "kernel panic: {why}", FAIL, "investigate"),
    # How x86 begins its report, whatever the trap: "invalid opcode: 0000 [#1] SMP" (arch/x86/kernel/dumpstack.c).
    rule(r"^Oops: |\bOops: [0-9a-f]{4} |: [0-9a-f]{4} \[#\d+\]", "kernel oops", FAIL, "investigate"),
    rule(r"NMI: (?:PCI system error|IOCK error|memory parity error)|Uhhuh\. NMI received", "hardware raised an NMI",
         FAIL, "investigate"),
)  # fmt: skip


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return [HOST]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host."""
    messages = values["kernel_log"]
    asked = [message.seconds for message in messages if "sysrq" in message.text and _ASKED_FOR.search(message.text)]
    faults = []
    for message, item, match in matches(messages, _RULES, _WORDS):
        what, verdict = item.what.format(**match.groupdict()), item.verdict
        if verdict == FAIL and _soon_after(message.seconds, asked):
            what, verdict = f"{what} (asked for)", PASS
        faults.append(Fault(HOST, what, verdict, item.action, message.stamp))
    return findings_of(NAME, faults, [HOST])


def _soon_after(now: float | None, times: Sequence[float | None]) -> bool:
    return now is not None and any(time is not None and 0 <= now - time <= _AFTER_SECONDS for time in times)
