"""Action that waits for a node's burn-in and fetches its evidence."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.control.burn_in_waiting import (
    RESUME,
    Node,
    checked_seconds,
    has_passed,
    wait_for,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import (
    MusterAction,
    UnreachableError,
    show,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.control.progress import HostProgress, SharedProgress


class ActionModule(MusterAction):
    """Polls ``muster burn-in status`` on the node until it has ended or the time is up."""

    arguments: ClassVar[dict[str, Any]] = {
        "wait_seconds": {"type": "float", "default": 0},
        "tool": {"type": "str", "default": "/usr/libexec/muster/muster"},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return status, evidence (None where there is none) and where the node keeps it; resume a node that passed."""
        seconds = checked_seconds(given["wait_seconds"])
        host, batch = self.host, self.batch
        progress = SharedProgress("burn-in", [str(os.getppid()), str(self._task._uuid), *batch], len(batch))

        def report(state: HostProgress) -> None:
            if line := progress.report(host, state):
                show(line)

        ended = wait_for(Node(host, given["tool"], self.command, self.check), progress.deadline(seconds), report)
        return {**ended, **self._given_back()} if has_passed(ended) and not self.check else ended

    def _given_back(self) -> dict[str, Any]:
        """Lift the drain under which the node was burned in. Where that fails, the next run's examination does it."""
        try:
            done = self.execute("slurm_drain", {"node": self.host, **RESUME})
        except UnreachableError as exc:
            done = {"failed": True, "msg": str(exc)}
        if done.get("failed"):
            return {"warnings": [f"{self.host} stays drained until the next run: {done.get('msg')}"]}
        return {"changed": bool(done.get("changed"))}
