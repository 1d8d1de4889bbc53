"""Action plugin switch_sheets: writes the hand-over sheets of the fleet's switches on the control machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.cabling import switches_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.declared import ROCE
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.local_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.sheets import sheets_of

ARGUMENTS: dict[str, Any] = {
    "fleet": {"type": "dict", "required": True},
    "switches": {"type": "list", "elements": "str", "default": []},
    "dest": {"type": "path", "required": True},
}


class ActionModule(LocalAction):
    """Writes one file for each switch and one for all; replaces those whose text changed."""

    arguments = ARGUMENTS

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return how many sheets there are and which of them changed."""
        try:
            fleet = Fleet.from_variables(given["fleet"])
        except FleetError as exc:
            raise AnsibleActionFail(f"switch_sheets: {exc}") from exc
        if fleet.fabric.kind != ROCE:
            raise AnsibleActionFail(f"switch_sheets: fabric.kind is {fleet.fabric.kind}, expected {ROCE}")
        if unknown := sorted(set(given["switches"]) - set(switches_of(fleet.fabric))):
            raise AnsibleActionFail(f"switch_sheets: {', '.join(unknown)} is no switch of fabric.switches")
        directory = Path(given["dest"]).absolute()
        count, changed = 0, []
        try:
            for name, text in sheets_of(fleet, set(given["switches"]) or None):
                count += 1
                path = directory / name
                if path.exists() and path.read_text(encoding="utf-8") == text:
                    continue
                changed.append(name)
                self.write({path: text})
        except OSError as exc:
            raise AnsibleActionFail(f"switch_sheets: cannot read {exc.filename}: {exc.strerror}") from exc
        return {"changed": bool(changed), "files": count, "changed_files": changed, "directory": str(directory)}
