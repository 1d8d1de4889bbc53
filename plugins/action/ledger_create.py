"""Action plugin ledger_create: makes a cluster's ledger, once; delegated to the controller."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import ModuleGate
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate_ledger import create
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import MusterAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


class ActionModule(MusterAction):
    """Make a ledger."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "recreate": {"type": "bool", "default": False},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ledger's id, and whether it was made."""
        fleet = Fleet.from_variables(given["fleet"])
        gate = ModuleGate(self.execute, fleet)
        return create(fleet, gate, given["recreate"], time.time(), self.check)
