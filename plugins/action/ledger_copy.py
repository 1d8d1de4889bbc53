"""Action plugin ledger_copy: saves a cluster's ledger to a file, or makes it again from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import LedgerError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger_copy import file_name, restore, save


class ActionModule(ActionBase):
    """Save or restore a ledger."""

    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the task's result."""
        super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            argument_spec={
                "fleet": {"type": "dict", "required": True},
                "directory": {"type": "path", "required": True},
                "state": {"type": "str", "choices": ["saved", "restored"], "required": True},
            }
        )
        fleet = given["fleet"]
        address = (fleet["ledger"]["url"], fleet["ledger"]["id"], fleet["cluster"])
        path = Path(given["directory"]) / file_name(address[0])
        try:
            if given["state"] == "saved":
                if not self._task.check_mode:
                    save(*address, path)
                return {"changed": True, "path": str(path)}
            return {"changed": restore(*address, path, self._task.check_mode), "path": str(path)}
        except LedgerError as exc:
            raise AnsibleActionFail(str(exc)) from None
