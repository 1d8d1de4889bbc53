"""Action plugin switch_sheets: writes the hand-over sheets of the fleet's switches on the control machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.cabling import switches_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.declared import ROCE
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.sheets import sheets_of

ARGUMENTS: dict[str, Any] = {
    "fleet": {"type": "dict", "required": True},
    "switches": {"type": "list", "elements": "str", "default": []},
    "dest": {"type": "path", "required": True},
}


class ActionModule(ActionBase):
    """Writes one file for each switch and one for all; replaces those whose text changed."""

    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(ARGUMENTS)
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return how many sheets there are and which of them changed."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
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
                if not self._task.check_mode:
                    directory.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
        except OSError as exc:
            raise AnsibleActionFail(f"switch_sheets: cannot write {exc.filename}: {exc.strerror}") from exc
        result |= {"changed": bool(changed), "files": count, "changed_files": changed}
        return result | {"directory": str(directory)}
