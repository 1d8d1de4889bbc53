"""Validates the declared fleet on the control machine (documented in the module of the same name)."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import Fleet


class ActionModule(ActionBase):
    """Runs the validation that the inventory plugin runs on its file."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the number of declared hosts, or the failure that says what is wrong."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            argument_spec={
                "fleet": {"type": "dict", "required": True},
                "name": {"type": "str", "default": "muster_fleet"},
            }
        )
        try:
            fleet = Fleet.from_variables(arguments["fleet"], arguments["name"])
        except FleetError as exc:
            return {**result, "failed": True, "msg": str(exc)}
        return {**result, "changed": False, "hosts": len(fleet.nodes)}
