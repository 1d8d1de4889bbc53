"""Waiting for a node's burn-in: it is asked less and less often, until it has ended or the time is up."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.slurm.drain_reason import BURN_IN
from ansible_collections.muster.cluster.plugins.module_utils.words.answer import evidence_in
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import EvidenceError
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import UnreachableError
from ansible_collections.muster.cluster.plugins.plugin_utils.control.progress import HostProgress

# From one question to the next, growing: a run of days need not be asked every second.
FIRST_DELAY_SECONDS, DELAY_GROWTH, LONGEST_DELAY_SECONDS = 1.0, 1.5, 60.0
# A node may drop a connection; one that does not come back is unreachable.
CONNECTION_ATTEMPTS = 3
# One whose plan reboots it comes back later, if it does.
REBOOT_ATTEMPTS = 30
ENDED = ("finished", "none")
# What gives a node back that was drained for its burn-in; nobody else's drain is touched.
RESUME = {"state": "resumed", "reason": BURN_IN}


class WaitingError(MusterError):
    """A burn-in that cannot be waited for; says why."""


@dataclass(frozen=True)
class Node:
    """A node that is asked; ``command`` runs a shell command there and returns rc, stdout and stderr.

    It raises UnreachableError. With ``check`` nothing is changed there.
    """

    host: str
    tool: str
    command: Callable[[str], Mapping[str, Any]]
    check: bool = False

    def status(self) -> dict[str, Any]:
        """Return what the node says, after closing a run that was cut off; raises WaitingError, UnreachableError."""
        status = self._ask("status")
        if status["status"] == "interrupted" and not self.check:
            status = self._ask("settle")
        return status

    def _ask(self, action: str) -> dict[str, Any]:
        """Run the program on the node: a command costs a tenth of a module, and this is asked often."""
        answer = self.command(f"{shlex.quote(self.tool)} burn-in {action} --evidence")
        if answer["rc"] == 127 and self.check:
            return {"status": "none"}
        lines = [line for line in answer["stdout"].splitlines() if line.startswith("{")]
        try:
            status = json.loads(lines[-1])
            status["status"]
        except (IndexError, ValueError, KeyError, TypeError) as exc:
            text = (answer.get("stderr") or answer["stdout"]).strip()[-500:]
            raise WaitingError(f"{self.tool} burn-in {action}: exit status {answer['rc']}: {text}") from exc
        return dict(status)


def checked_seconds(seconds: float) -> float:
    """Return for how long to wait; raises WaitingError for what is no time."""
    if not 0 <= seconds < float("inf"):
        raise WaitingError(f"wait_seconds is {seconds!r}, expected a number of seconds, 0 or more")
    return seconds


def wait_for(node: Node, deadline: float, show: Callable[[HostProgress], None]) -> dict[str, Any]:
    """Return status, evidence (None where there is none) and where the node keeps it; ``deadline`` is an epoch.

    Raises WaitingError, and UnreachableError for a node that stays away.
    """
    delay = FIRST_DELAY_SECONDS
    attempts = 0
    status: dict[str, Any] = {"status": "unknown"}
    while True:
        try:
            status = node.status()
            attempts = 0
        except UnreachableError as exc:
            attempts += 1
            patience = REBOOT_ATTEMPTS if status.get("reboots_left") else CONNECTION_ATTEMPTS
            show(HostProgress(unreachable=True, waiting=attempts < patience))
            if attempts >= patience or (time.time() >= deadline > 0 and attempts >= CONNECTION_ATTEMPTS):
                raise UnreachableError(f"waiting for burn-in, last status {status['status']}: {exc}") from exc
        else:
            ended = status["status"] in ENDED
            waiting = not ended and time.time() < deadline
            failed, eta = int(status.get("failed", 0)), float(status.get("eta_seconds", 0))
            show(HostProgress(ended, failed, eta, waiting=waiting))
            if not waiting:
                return _ended(status, node.host)
        left = deadline - time.time()
        # The end is known to the second; there is no point in waking up long after it.
        expected = max(FIRST_DELAY_SECONDS, float(status.get("eta_seconds") or delay))
        time.sleep(max(0.1, min(delay, expected, max(left, FIRST_DELAY_SECONDS))))
        delay = min(delay * DELAY_GROWTH, LONGEST_DELAY_SECONDS)


def has_passed(ended: Mapping[str, Any]) -> bool:
    """Return whether a burn-in that was waited for has passed: then the node has to be drained no longer."""
    findings = (ended["evidence"] or {}).get("findings", [])
    return bool(findings) and all(finding["verdict"] == PASS for finding in findings)


def _ended(status: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return the last status with the evidence of a run that has ended, or why it is none of this node's burn-in."""
    ended = {
        "status": status["status"],
        "id": status.get("id", ""),
        "evidence": None,
        "evidence_path": status.get("evidence_path", ""),
        "percent": status.get("percent", 0),
        "eta_seconds": status.get("eta_seconds", 0),
    }
    if status["status"] != "finished":
        return ended
    if status.get("evidence") is None:
        why = status.get("message", "its evidence is missing")
        return {**ended, "failed": True, "msg": f"burn-in has ended, {why}"}
    try:
        evidence = evidence_in(status["evidence"], id=str(status.get("id")), node=host, stage="burn_in")
    except EvidenceError as exc:
        return {**ended, "failed": True, "msg": f"burn-in has ended, {exc}"}
    return {**ended, "evidence": evidence.to_dict()}
