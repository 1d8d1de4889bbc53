"""Action that waits on the control machine until a node's turn in the ramp has come, and starts its burn-in then."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import MusterAction, show
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.ramp_plan import Turn
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.shared_ramp import SharedRamp

_NOTHING = {"id": "", "status": "none", "started_now": False, "jobs": [], "discarded": "", "plan_differs": []}


class ActionModule(MusterAction):
    """Runs the module of the same name when the ramp has come to the host; attaches to a run without a wait."""

    # Those of the module, which gets all but the first two.
    arguments: ClassVar[dict[str, Any]] = {
        "turn": {"type": "dict", "default": {}},
        "alarm": {"type": "list", "elements": "str", "default": []},
        "node": {"type": "str", "required": True},
        "profile": {"type": "str", "required": True},
        "steps": {"type": "list", "elements": "dict", "required": True},
        "interval_seconds": {"type": "float", "required": True},
        "stop_on_fail": {"type": "bool", "default": True},
        "allow_reboot": {"type": "bool", "default": False},
        "waivers": {"type": "list", "elements": "dict", "default": []},
        "expect": {"type": "dict", "required": True},
        "known": {"type": "list", "elements": "str", "default": []},
        "jobs_wait_seconds": {"type": "float", "default": 0},
        "may_start": {"type": "bool", "default": True},
        "tool": {"type": "path", "default": "/usr/libexec/muster/muster"},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the module's result, or why the host is not started in this run."""
        own = {name: value for name, value in given.items() if name not in ("turn", "alarm")}
        turn = Turn(**given["turn"]) if given["turn"] else Turn("the fleet")
        if turn.running:
            # It may have been cut off: then it begins anew, and needs a turn.
            attached = self.execute("burn_in_job", {**own, "may_start": False})
            if attached.get("failed") or not attached["waits"]:
                return attached
        if turn.waits:
            return {**_NOTHING, "waits": turn.waits}
        if self.check:
            return self.execute("burn_in_job", own)
        # Not by the hosts of the batch: these become fewer while the task runs, and a stop would be forgotten.
        ramp = SharedRamp([str(os.getppid()), str(self._task._uuid)], given["alarm"], show)
        if why := ramp.wait_for(turn):
            return {**_NOTHING, "waits": why}
        done = self.execute("burn_in_job", own)
        if done.get("waits"):
            ramp.stop(turn, done["waits"])
        return done
