"""Action plugin decide: an operator's decision about a node, above all evidence until it is released."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.admission.recording import RELEASE, Decision, decide
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import operator
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import DECISIONS


class ActionModule(LocalAction):
    """Record a decision."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "node": {"type": "str", "required": True},
        "decision": {"type": "str", "required": True, "choices": [*DECISIONS, RELEASE]},
        "reason": {"type": "str", "required": True},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the node's state, and whether it is another."""
        decision = Decision(given["node"], given["decision"], given["reason"])
        return decide(Fleet.from_variables(given["fleet"]), decision, operator(), time.time(), self.check)
