"""The task of a stage that runs in rounds, as Ansible runs it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible.module_utils.common.text.converters import to_text
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.campaign import (
    RoundError,
    Runtime,
    WorkOf,
    led,
    prove,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Request
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import (
    MusterAction,
    UnreachableError,
    show,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.packed_json import read_json

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


class CampaignAction(MusterAction):
    """Run a stage's rounds from the host that the task is delegated to; ``module`` runs one of them there."""

    module: str
    work_of: WorkOf
    arguments: ClassVar[dict[str, Any]] = ARGUMENTS

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the campaigns and the evidence; a node that did not pass does not fail the task."""
        # This runs in a worker of its own, which a kill of the playbook does not reach.
        parent = os.getppid()
        run_round = led(self._run_round, lambda: os.getppid() == parent)
        request = Request(**{**given, "fleet": Fleet.from_variables(given["fleet"])}, check=self.check)
        return prove(request, type(self).work_of, Runtime(run_round, show, time.time))

    def _run_round(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            result = self.execute(self.module, arguments)
        except UnreachableError as exc:
            raise RoundError(f"controller not reachable: {exc}") from exc
        if result.get("failed") or result.get("unreachable") or not isinstance(result.get("observations"), list):
            said = ["no observations", result.get("msg"), result.get("exception"), result.get("module_stderr")]
            raise RoundError(": ".join(to_text(text).strip() for text in said if text)[:1000])
        observations: list[dict[str, Any]] = result["observations"]
        return observations

    def _parse_returned_data(self, res: dict[str, Any], *how: Any) -> dict[str, Any]:
        """Return what a round's module printed, its observations as the ledger reads them.

        Ansible would make lists of the millions of times in them; it gets everything else.
        """
        try:
            printed = read_json(res["stdout"])
        except ValueError:
            printed = None
        if not isinstance(printed, dict) or not isinstance(printed.get("observations"), list):
            return dict(super()._parse_returned_data(res, *how))
        observations = printed.pop("observations")
        return {
            **super()._parse_returned_data({**res, "stdout": json.dumps(printed)}, *how),
            "observations": observations,
        }
