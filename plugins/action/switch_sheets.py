"""Action plugin switch_sheets: writes the hand-over sheets of the fleet's switches on the control machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_sheets import sheets_of


class ActionModule(LocalAction):
    """Writes one file for each switch and one for all; replaces those whose text changed."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "switches": {"type": "list", "elements": "str", "default": []},
        "dest": {"type": "path", "required": True},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return how many sheets there are and which of them changed."""
        fleet = Fleet.from_variables(given["fleet"])
        directory = Path(given["dest"]).absolute()
        sheets = {directory / name: text for name, text in sheets_of(fleet, given["switches"])}
        changed = self.changed(sheets)
        self.write(changed)
        names = [path.name for path in changed]
        return {"changed": bool(names), "files": len(sheets), "changed_files": names, "directory": str(directory)}
