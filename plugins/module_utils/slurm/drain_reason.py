"""The reasons that Muster's own checks give a drain in Slurm, and what may be done with a drain by its reason.

Everything else is a person's word or Slurm's, and is left to people.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A fault that was measured: muster:health:CHECK:EVIDENCE.
FAULT = "muster:health:"
# A boot without a preflight that passed: muster:boot:BOOT.
BOOT = "muster:boot:"
# Something that could not be measured: muster:incomplete:CHECK:EVIDENCE.
INCOMPLETE = "muster:incomplete:"
# Role boot's, while it restarts a node.
RESTART = "muster: boot restarts this node"
# Slurm's own (22.05): the first two it gives when our hooks fail, the last is lifted by the node's next word.
HOOK_FAILED = ("Prolog error", "Epilog error")
SILENT = "Not responding"
REBOOTED = "Node unexpectedly rebooted"

_FAULT = re.compile(rf"{FAULT}([a-z0-9_]+):([A-Za-z0-9_.-]*)(?:\s.*)?")


@dataclass(frozen=True)
class Fault:
    """What a health drain tells: which check failed, and the evidence of it."""

    check: str
    evidence_id: str


def fault_in(reason: str) -> Fault | None:
    """Return the fault that a reason tells of, None for a reason of another kind."""
    match = _FAULT.fullmatch(reason)
    return Fault(*match.groups()) if match else None


def waits(reason: str) -> bool:
    """Return whether the drain waits for a measurement and is over when that passes."""
    return reason.startswith((BOOT, INCOMPLETE))


def boot_in(reason: str) -> str:
    """Return the boot that a boot drain names, nothing for a reason of another kind."""
    return reason[len(BOOT) :].partition(" ")[0] if reason.startswith(BOOT) else ""
