"""Validates the declared fleet on the control machine (documented in the module of the same name)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


class ActionModule(LocalAction):
    """Runs the validation that the inventory plugin runs on its file."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "name": {"type": "str", "default": "muster_fleet"},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the number of declared hosts and what is asked less; raises FleetError, which says what is wrong."""
        fleet = Fleet.from_variables(given["fleet"], given["name"])
        weaker = list(dict.fromkeys(text for texts in fleet.weaker.values() for text in texts))
        # A fleet that is slow all over would pass: the one weakness that no node shows.
        return {"hosts": len(fleet.nodes), "weaker": weaker, "warnings": list(fleet.far_floors)}
