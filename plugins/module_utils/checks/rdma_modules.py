"""Are the loaded RDMA modules of the kernel the installed ones?

After an installation of DOCA-OFED the kernel's own stay loaded until a reboot: what burn-in and acceptance then measure
says nothing of the driver with which the node starts the next time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.rdma_modules import Module, replaced, shown
from ..words.expectations import Expectations
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "rdma_modules"
RULES = 1
PROBES: tuple[str, ...] = ("rdma_modules",)
SUBJECT = "rdma_modules"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the one part on an RDMA fabric."""
    return [SUBJECT] if expect.fabric is not None else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare the builds; without a loaded module there is nothing to compare."""
    if not subjects(expect):
        return []
    modules: Mapping[str, Module] = values["rdma_modules"]
    if not modules:
        why = "no RDMA module is loaded: load the driver of the NICs"
        return [Finding(NAME, SUBJECT, INCOMPLETE, None, "the installed modules", "", why, "investigate")]
    measured, expected = (
        "; ".join(f"{name} {shown(build)}" for name, build in builds)
        for builds in (
            [(name, each.loaded) for name, each in modules.items()],
            [(name, each.installed) for name, each in modules.items()],
        )
    )
    if waiting := replaced(modules):
        why = f"reboot pending for RDMA modules: {'; '.join(waiting)}"
        return [Finding(NAME, SUBJECT, FAIL, measured, expected, "", why, "reboot")]
    return [Finding(NAME, SUBJECT, PASS, measured, expected)]
