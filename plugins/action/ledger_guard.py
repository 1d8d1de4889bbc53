"""Action plugin ledger_guard: is this the ledger that the gate was rendered from? Delegated to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import ModuleGate
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate_ledger import guard
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import MusterAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


class ActionModule(MusterAction):
    """Guard the ledger."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "trust_ledger": {"type": "bool", "default": False},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the ledger and the controller say."""
        fleet = Fleet.from_variables(given["fleet"])
        return guard(fleet, ModuleGate(self.execute, fleet), given["trust_ledger"], self.check)
