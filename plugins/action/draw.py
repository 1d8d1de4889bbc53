"""Action plugin draw: the nodes whose evidence is judged on the control machine too."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.rejudging.drawing import STAGES, Handed, draw


class ActionModule(LocalAction):
    """Draw nodes."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "stage": {"type": "str", "required": True, "choices": list(STAGES)},
        "evidence": {"type": "dict", "required": True},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return whom to ask for what."""
        handed = Handed(Fleet.from_variables(given["fleet"]), given["stage"], given["evidence"])
        return draw(handed, secrets.token_hex(16), time.time(), self.check)
