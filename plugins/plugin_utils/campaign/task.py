"""The task of a stage that is walked in rounds, as Ansible runs it."""

from __future__ import annotations

import os
import time
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.module_utils.common.text.converters import to_text
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.walk import (
    Abandoned,
    Means,
    RoundError,
    WorkOf,
    led,
    prove,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import LedgerError

ARGUMENTS: dict[str, Any] = {
    "fleet": {"type": "dict", "required": True},
    "nodes": {"type": "list", "elements": "str", "required": True},
    "partners": {"type": "list", "elements": "str", "default": []},
    "evidence": {"type": "dict", "required": True},
    "environment": {"type": "dict", "default": {}},
    "port": {"type": "int", "default": 29400},
    "budget_seconds": {"type": "int", "default": 3600},
    "round_seconds": {"type": "int", "default": 300},
}


class CampaignAction(ActionBase):
    """Walk a stage's rounds from the host that the task is delegated to; ``module`` runs one of them there."""

    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = False

    module: str
    work_of: WorkOf
    arguments: ClassVar[dict[str, Any]] = ARGUMENTS

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the task's result; a node that did not pass does not fail the task."""
        super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(argument_spec=type(self).arguments)
        request = Request(**given, check=self._task.check_mode)

        # This runs in a worker of its own, which a kill of the playbook does not reach.
        parent = os.getppid()
        run_round = led(lambda arguments: self._run_round(arguments, task_vars or {}), lambda: os.getppid() == parent)
        try:
            return prove(request, type(self).work_of, Means(run_round, Display().display, time.time))
        except (LedgerError, FleetError, Abandoned) as exc:
            raise AnsibleActionFail(str(exc)) from exc
        except KeyError as exc:
            raise AnsibleActionFail(f"fleet lacks {exc}, expected the variable muster_fleet") from exc

    def _run_round(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            result = self._execute_module(module_name=self.module, module_args=arguments, task_vars=task_vars)
        except AnsibleConnectionFailure as exc:
            raise RoundError(f"controller not reachable: {to_text(exc)}") from exc
        if result.get("failed") or result.get("unreachable") or not isinstance(result.get("observations"), list):
            said = ["no observations", result.get("msg"), result.get("exception"), result.get("module_stderr")]
            raise RoundError(": ".join(to_text(text).strip() for text in said if text)[:1000])
        observations: list[dict[str, Any]] = result["observations"]
        return observations
