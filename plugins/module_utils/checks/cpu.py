"""Are all CPU sockets, cores and threads there, and of the declared model?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.lscpu import Cpu
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding, Value

NAME = "cpu"
RULES = 2
PROBES: tuple[str, ...] = ("lscpu",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host."""
    return ["host"]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare what is declared, most telling first; more than declared is another machine, not a better one."""
    found: Cpu = values["lscpu"]
    wanted = expect.cpu
    if found.offline:
        why = f"CPUs {found.offline} are switched off"
        return [Finding(NAME, "host", FAIL, f"{found.offline} off", "all on", "", why, "investigate")]
    undeclared = []
    compared: tuple[tuple[Value, Value, str, str], ...] = (
        (found.architecture, wanted.architecture, "", "architecture"),
        (found.sockets, wanted.sockets, "sockets", "number of CPUs"),
        (found.cores, wanted.cores, "cores", "number of cores"),
        (found.threads_per_core, wanted.threads_per_core, "threads per core", "number of threads per core (SMT)"),
        (found.model, wanted.model, "", "model of CPU"),
    )
    for measured, expected, unit, what in compared:
        if expected is None:
            undeclared.append(f"{what} is {measured or 'unknown'}, none declared")
        elif measured is None:
            why = f"lscpu does not report the {what}"
            return [Finding(NAME, "host", INCOMPLETE, None, expected, unit, why, "investigate")]
        elif measured != expected:
            return [Finding(NAME, "host", FAIL, measured, expected, unit, f"another {what}", "investigate")]
    return [Finding(NAME, "host", PASS, found.cores, wanted.cores, "cores", "; ".join(undeclared))]
