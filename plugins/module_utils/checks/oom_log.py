"""Did the host run out of memory since boot?

Burn-in leaves head-room, so that a host which runs out under it is not as declared; a program that only reached the
limit of its own control group (CONSTRAINT_MEMCG) says nothing of the host. Formats: the kernel's mm/oom_kill.c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.log_faults import HOST, faults_in, findings_of, rule
from ..words.expectations import Expectations
from ..words.finding import FAIL, PASS, Finding

NAME = "oom_log"
RULES = 2
PROBES: tuple[str, ...] = ("kernel_log",)

_WORDS = ("emory", "oom-kill", "page allocation")
_RULES = (
    rule(r"oom-kill:constraint=CONSTRAINT_MEMCG|Memory cgroup out of memory", "a program reached its own limit",
         PASS, "none"),
    rule(r"\bOut of memory(?: \(oom_kill_allocating_task\))?: Kill", "the host ran out of memory", FAIL, "investigate"),
    rule(r"oom-kill:constraint=CONSTRAINT_(?:NONE|MEMORY_POLICY|CPUSET)", "the host ran out of memory",
         FAIL, "investigate"),
    rule(r"page allocation failure: order:0\b", "the host ran out of memory", FAIL, "investigate"),
)  # fmt: skip


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return [HOST]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host."""
    return findings_of(NAME, faults_in(values["kernel_log"], _RULES, _WORDS), [HOST])
