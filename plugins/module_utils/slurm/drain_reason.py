"""The reasons that Muster gives a drain in Slurm, and what may be done with a drain by its reason.

A drain is Muster's own where the whole reason is one that this file builds and where root or Slurm's user gave it.
Everything else is a person's word or Slurm's, and is left to people.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A fault that was measured: muster:health:CHECK:EVIDENCE.
FAULT = "muster:health:"
# A boot without a preflight that passed: muster:boot:BOOT.
BOOT = "muster:boot:"
# Something that could not be measured: muster:incomplete:CHECK:EVIDENCE. The hook `health` of role slurm gives
# muster:incomplete:program:exit-STATUS.
INCOMPLETE = "muster:incomplete:"
# Role boot's while it restarts a node, role gpu_stack's while it changes one.
RESTART = "muster: boot restarts this node"
CHANGE = "muster: gpu_stack changes this node"
# Role burn_in's, from before a burn-in starts until one has passed.
BURN_IN = "muster: burn_in loads this node"
AT_WORK = (RESTART, CHANGE, BURN_IN)
# Slurm's own (22.05): the first two it gives when our hooks fail, the last is lifted by the node's next word.
HOOK_FAILED = ("Prolog error", "Epilog error")
SILENT = "Not responding"
REBOOTED = "Node unexpectedly rebooted"
# Slurm's own of a node that registered with less than its line in slurm.conf declares, or with GPUs beside a part of a
# socket (seen with 24.11), one such text or several (validate_node_specs, 22.05 to 25.11). Its user is slurm, or root
# once the node has registered again.
_LESS = (
    r"(?:gres/\w+ count reported lower than configured \(\d+ < \d+\)"
    r"|gres/\w+ GRES autodetected core affinity \S+ on node \S+ doesn't match socket boundaries\."
    r" \(Socket \d+ is cores [\d-]+\)\. Consider setting SlurmdParameters=l3cache_as_socket \(recommended\) or override"
    r" this by manually specifying core affinity in gres\.conf\."
    r"|Low socket\*core\*thread count|Low CPUs|Low TmpDisk"
    r"|Low RealMemory \(reported:\d+ < [\d.]+% of configured:\d+\))"
)

# Roles and slurmd's hooks act as root.
_USERS = ("root", "slurm")
_ID = r"[A-Za-z0-9_.-]+"
_FAULT = re.compile(rf"{FAULT}([a-z0-9_]+):([A-Za-z0-9_.-]*)(?:\s.*)?")
_REGISTRATION = re.compile(rf"{_LESS}(?:, {_LESS})*")
_CHECKED = re.compile(rf"(?:{FAULT}|{INCOMPLETE})[a-z0-9_]+:{_ID}|{BOOT}{_ID}")


@dataclass(frozen=True)
class Fault:
    """What a health drain tells: which check failed, and the evidence of it."""

    check: str
    evidence_id: str


def fault_reason(check: str, evidence_id: str) -> str:
    """Return the reason of a drain for a measured fault."""
    return f"{FAULT}{check}:{evidence_id}"


def boot_reason(boot_id: str) -> str:
    """Return the reason of a drain for a boot without a preflight that passed."""
    return f"{BOOT}{boot_id}"


def incomplete_reason(check: str, evidence_id: str) -> str:
    """Return the reason of a drain for want of a measurement."""
    return f"{INCOMPLETE}{check}:{evidence_id}"


def is_own(reason: str, by: str) -> bool:
    """Return whether Muster itself gave a reason that scontrol shows as given by the user ``by``.

    A word more, or another user, makes it a person's: "muster:health:xid:e1 but keep".
    """
    return by in _USERS and (reason in AT_WORK or _CHECKED.fullmatch(reason) is not None)


def as_others(reason: str) -> str:
    """Return a person's reason as root may give it again, without making it one of Muster's own or Slurm's."""
    taken = any(is_own(reason, user) or for_registration(reason, user) for user in _USERS)
    return f"restored: {reason}" if taken else reason


def fault_in(reason: str) -> Fault | None:
    """Return the fault that a reason tells of, None for a reason of another kind.

    A person's words behind it change nothing about the fault: it closes the node all the same.
    """
    match = _FAULT.fullmatch(reason)
    return Fault(*match.groups()) if match else None


def waits(reason: str) -> bool:
    """Return whether the drain waits for a measurement and is over when that passes."""
    return reason.startswith((BOOT, INCOMPLETE))


def for_registration(reason: str, by: str) -> bool:
    """Return whether Slurm drained a node that registered with less than declared; a word more is a person's."""
    return by in _USERS and _REGISTRATION.fullmatch(reason) is not None


def boot_in(reason: str) -> str:
    """Return the boot that a boot drain names, nothing for a reason of another kind."""
    return reason[len(BOOT) :] if reason.startswith(BOOT) else ""
