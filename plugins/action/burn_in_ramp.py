"""Action plugin burn_in_ramp: which burn-ins start in this run, in which order and when."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.power_drawn import give_back, plan_ramp
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.ramp_plan import waiting_lines


class ActionModule(LocalAction):
    """Plans the ramp, or gives back the shares of nodes that were not started."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "due": {"type": "list", "elements": "str", "default": []},
        "brought": {"type": "dict", "default": {}},
        "not_started": {"type": "list", "elements": "str", "default": []},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the turns of the due nodes."""
        fleet = Fleet.from_variables(given["fleet"])
        if given["not_started"] and fleet.policy.burn_in.kilowatts.declared and not self.check:
            give_back(fleet, given["not_started"])
        turns = {}
        if given["due"]:
            turns = plan_ramp(fleet, given["due"], given["brought"], time.time(), self.check)
        return {
            "turns": {name: turn.to_dict() for name, turn in turns.items()},
            "order": list(turns),
            "warnings": waiting_lines(turns),
        }
