"""Action plugin rejudge: findings of drawn nodes held against their raw outputs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.rejudging.drawing import STAGES, Handed, rejudge


class ActionModule(LocalAction):
    """Judge on the control machine."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "stage": {"type": "str", "required": True, "choices": list(STAGES)},
        "evidence": {"type": "dict", "required": True},
        "drawn": {"type": "dict", "required": True},
        "fetched": {"type": "list", "elements": "dict", "default": []},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what came of it."""
        handed = Handed(Fleet.from_variables(given["fleet"]), given["stage"], given["evidence"])
        return rejudge(handed, given["drawn"], given["fetched"], time.time())
