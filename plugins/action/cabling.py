"""Action plugin that holds the live fabric against the cabling plan (documented in the module of the same name)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cable_faults import compare
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import plan_of
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.task_results import live_of
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


class ActionModule(LocalAction):
    """Compares on the control machine and writes the report."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "infiniband": {"type": "dict"},
        "lldp": {"type": "dict"},
        "others": {"type": "list", "elements": "str", "default": []},
        "dest": {"type": "path", "required": True},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the verdict and what people read; failed unless all that was asked about is as planned."""
        fleet = Fleet.from_variables(given["fleet"])
        plan = plan_of(fleet.nodes, fleet.fabric, given["others"])
        if not plan.cables:
            msg = "the fleet declares no cables: found neither nodes[].rails.switches nor fabric.switches[].uplinks"
            return {"failed": True, "msg": msg}
        live = live_of(plan, given)
        texts = {"plan.csv": plan.to_csv()}
        result: dict[str, Any] = {"cables": len(plan.cables)}
        if live is not None:
            comparison = compare(plan, live)
            texts["report.json"] = json.dumps(comparison.to_dict(), indent=2) + "\n"
            verdict = comparison.verdict
            result |= {"verdict": verdict, "failed": verdict != PASS, "msg": comparison.summary()}
        dest = Path(given["dest"]).absolute()
        self.write({dest / name: text for name, text in texts.items()})
        return {**result, "files": [str(dest / name) for name in texts]}
