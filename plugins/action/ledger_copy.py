"""Action plugin ledger_copy: saves a cluster's ledger to a file, or makes it again from one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger_copy import file_name, restore, save


class ActionModule(LocalAction):
    """Save or restore a ledger."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "directory": {"type": "path", "required": True},
        "state": {"type": "str", "choices": ["saved", "restored"], "required": True},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the copy's path, and whether copy or ledger was made."""
        fleet = Fleet.from_variables(given["fleet"])
        address = (fleet.ledger.url, fleet.ledger.id, fleet.cluster)
        path = Path(given["directory"]) / file_name(address[0])
        if given["state"] == "restored":
            return {"changed": restore(*address, path, self.check), "path": str(path)}
        if not self.check:
            save(*address, path)
        return {"changed": True, "path": str(path)}
