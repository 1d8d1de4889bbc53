"""Action plugin admit: judges nodes and reconciles the gate; delegated to the controller, run once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission_request import Request
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admitting import admit
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import ModuleGate
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import MusterAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import operator


class ActionModule(MusterAction):
    """Judge nodes and reconcile the gate."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "nodes": {"type": "list", "elements": "str", "required": True},
        "evidence": {"type": "dict", "default": {}},
        "health": {"type": "dict", "default": {}},
        "stopped": {"type": "dict", "default": {}},
        "unreachable": {"type": "list", "elements": "str", "default": []},
        "close_only": {"type": "bool", "default": False},
        "allow_mass_close": {"type": "bool", "default": False},
        "trust_ledger": {"type": "bool", "default": False},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the verdicts and what was changed."""
        request = Request(**{**given, "fleet": Fleet.from_variables(given["fleet"])}, check=self.check)
        return admit(request, ModuleGate(self.execute, request.fleet, request.unreachable), time.time(), operator())
