"""Are all CPU sockets, cores and threads there, and of the declared model?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..finding import FAIL, INCOMPLETE, PASS, Finding
from ..probes.lscpu import Cpu

NAME = "cpu"
PROBES: tuple[str, ...] = ("lscpu",)


def subjects(expect: Mapping[str, Any]) -> Sequence[str]:
    """Return the host."""
    return ["host"]


def decide(values: Mapping[str, Any], expect: Mapping[str, Any]) -> Sequence[Finding]:
    """Compare what is declared, most telling first; more than declared is another machine, not a better one."""
    found: Cpu = values["lscpu"]
    wanted = expect["cpu"]
    if found.offline:
        why = f"CPUs {found.offline} are switched off"
        return [Finding(NAME, "host", FAIL, f"{found.offline} off", "all on", "", why, "investigate")]
    undeclared = []
    for name, measured, unit, what in (
        ("sockets", found.sockets, "sockets", "number of CPUs"),
        ("cores", found.cores, "cores", "number of cores"),
        ("threads_per_core", found.threads_per_core, "threads per core", "number of threads per core (SMT)"),
        ("model", found.model, "", "model of CPU"),
    ):
        if wanted[name] is None:
            undeclared.append(f"{what} is {measured or 'unknown'}, none declared")
        elif measured is None:
            why = f"lscpu does not tell the {what}"
            return [Finding(NAME, "host", INCOMPLETE, None, wanted[name], unit, why, "investigate")]
        elif measured != wanted[name]:
            return [Finding(NAME, "host", FAIL, measured, wanted[name], unit, f"another {what}", "investigate")]
    return [Finding(NAME, "host", PASS, found.cores, wanted["cores"], "cores", "; ".join(undeclared))]
