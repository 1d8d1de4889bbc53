"""Action that waits for a node's burn-in and fetches its evidence."""

from __future__ import annotations

import json
import os
import shlex
import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.words.answer import evidence_in
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import EvidenceError
from ansible_collections.muster.cluster.plugins.plugin_utils.control.progress import HostProgress, SharedProgress

display = Display()

# From one question to the next, growing: a run of days need not be asked every second.
FIRST_DELAY_SECONDS, DELAY_GROWTH, LONGEST_DELAY_SECONDS = 1.0, 1.5, 60.0
# A node may drop a connection; one that does not come back is unreachable.
CONNECTION_ATTEMPTS = 3
# One whose plan reboots it comes back later, if it does.
REBOOT_ATTEMPTS = 30
ENDED = ("finished", "none")


class ActionModule(ActionBase):
    """Polls ``muster burn-in status`` on the node until it has ended or the time is up."""

    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("wait_seconds", "tool"))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return status, evidence (None where there is none) and where the node keeps it."""
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        wait_seconds = _seconds(self._task.args.get("wait_seconds", 0))
        tool = str(self._task.args.get("tool", "/usr/libexec/muster/muster"))
        batch = [str(host) for host in variables.get("ansible_play_batch", [])]
        progress = SharedProgress("burn-in", [str(os.getppid()), str(self._task._uuid), *batch], len(batch))
        deadline = progress.deadline(wait_seconds)
        host = str(variables.get("inventory_hostname", ""))
        delay = FIRST_DELAY_SECONDS
        attempts = 0
        status: dict[str, Any] = {"status": "unknown"}
        while True:
            try:
                status = self._status(tool)
                attempts = 0
            except AnsibleConnectionFailure:
                attempts += 1
                patience = REBOOT_ATTEMPTS if status.get("reboots_left") else CONNECTION_ATTEMPTS
                self._show(progress, host, HostProgress(unreachable=True, waiting=attempts < patience))
                if attempts >= patience or (time.time() >= deadline > 0 and attempts >= CONNECTION_ATTEMPTS):
                    display.warning(f"{host}: unreachable while waiting for burn-in, last status {status['status']}")
                    raise
            else:
                ended = status["status"] in ENDED
                waiting = not ended and time.time() < deadline
                failed, eta = int(status.get("failed", 0)), float(status.get("eta_seconds", 0))
                self._show(progress, host, HostProgress(ended, failed, eta, waiting=waiting))
                if not waiting:
                    break
            left = deadline - time.time()
            # The end is known to the second; there is no point in waking up long after it.
            expected = max(FIRST_DELAY_SECONDS, float(status.get("eta_seconds") or delay))
            time.sleep(max(0.1, min(delay, expected, max(left, FIRST_DELAY_SECONDS))))
            delay = min(delay * DELAY_GROWTH, LONGEST_DELAY_SECONDS)
        result.update(
            changed=False,
            status=status["status"],
            id=status.get("id", ""),
            evidence=None,
            evidence_path=status.get("evidence_path", ""),
            percent=status.get("percent", 0),
            eta_seconds=status.get("eta_seconds", 0),
        )
        if status["status"] == "finished":
            result.update(_collected(status, host))
        return result

    def _status(self, tool: str) -> dict[str, Any]:
        """Return what the node says, after closing a run that was cut off; raises AnsibleConnectionFailure."""
        status = self._ask(tool, "status")
        if status["status"] == "interrupted" and not self._task.check_mode:
            status = self._ask(tool, "settle")
        return status

    def _ask(self, tool: str, action: str) -> dict[str, Any]:
        """Run the program on the node: a command costs a tenth of a module, and this is asked often."""
        answer = self._low_level_execute_command(f"{shlex.quote(tool)} burn-in {action} --evidence")
        if answer["rc"] == 127 and self._task.check_mode:
            return {"status": "none"}
        lines = [line for line in answer["stdout"].splitlines() if line.startswith("{")]
        try:
            status = json.loads(lines[-1])
            status["status"]
        except (IndexError, ValueError, KeyError, TypeError) as exc:
            text = (answer.get("stderr") or answer["stdout"]).strip()[-500:]
            raise AnsibleActionFail(f"{tool} burn-in {action}: exit status {answer['rc']}: {text}") from exc
        return dict(status)

    @staticmethod
    def _show(progress: SharedProgress, host: str, state: HostProgress) -> None:
        line = progress.report(host, state)
        if line:
            display.display(line)


def _collected(status: dict[str, Any], host: str) -> dict[str, Any]:
    """Return the evidence of a run that has ended, or why it is none of this node's burn-in."""
    if status.get("evidence") is None:
        return {"failed": True, "msg": f"burn-in has ended, {status.get('message', 'its evidence is missing')}"}
    try:
        evidence = evidence_in(status["evidence"], id=str(status.get("id")), node=host, stage="burn_in")
    except EvidenceError as exc:
        return {"failed": True, "msg": f"burn-in has ended, {exc}"}
    return {"evidence": evidence.to_dict()}


def _seconds(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError) as exc:
        raise AnsibleActionFail(f"wait_seconds is {value!r}, expected a number of seconds") from exc
    if not 0 <= seconds < float("inf"):
        raise AnsibleActionFail(f"wait_seconds is {value!r}, expected a number of seconds, 0 or more")
    return seconds
