"""Action plugin switch_sheets: writes the hand-over sheets of the fleet's switches on the control machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_choice import require_switches
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
        require_switches(fleet, given["switches"])
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
