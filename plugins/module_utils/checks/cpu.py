"""Are all CPU sockets and cores there?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..finding import FAIL, PASS, Finding
from ..probes.lscpu import Cpu

NAME = "cpu"
PROBES: tuple[str, ...] = ("lscpu",)


def subjects(expect: Mapping[str, Any]) -> Sequence[str]:
    """Return the host."""
    return ["host"]


def decide(values: Mapping[str, Any], expect: Mapping[str, Any]) -> Sequence[Finding]:
    """Compare sockets, then physical cores; more than declared is another machine, not a better one."""
    found: Cpu = values["lscpu"]
    wanted = expect["cpu"]
    sockets, cores = wanted["sockets"], wanted["cores"]
    if found.sockets != sockets:
        return [Finding(NAME, "host", FAIL, found.sockets, sockets, "sockets", "another number of CPUs", "investigate")]
    if found.cores != cores:
        return [Finding(NAME, "host", FAIL, found.cores, cores, "cores", "another number of cores", "investigate")]
    return [Finding(NAME, "host", PASS, found.cores, cores, "cores")]
