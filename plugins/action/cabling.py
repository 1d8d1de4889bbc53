"""Action plugin that holds the live fabric against the cabling plan (documented in the module of the same name)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.finding import PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.comparison import Comparison, compare
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.plan import plan_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.reading import live_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.local_action import LocalAction

ARGUMENTS: dict[str, Any] = {
    "fleet": {"type": "dict", "required": True},
    "infiniband": {"type": "dict"},
    "lldp": {"type": "dict"},
    "others": {"type": "list", "elements": "str", "default": []},
    "dest": {"type": "path", "required": True},
}


def told(comparison: Comparison) -> str:
    """Return what people read: one line for each fault, and what could not be known."""
    lines = [f"{len(comparison.plan.cables)} cables planned, {len(comparison.faults)} faults"]
    lines += [f"- {fault}" for fault in comparison.faults]
    lines += [f"- not known: {reason}" for reason in comparison.unread]
    if comparison.unseen:
        lines.append(
            f"{len(comparison.unseen)} cables were not asked about, neither of their ends being one of the hosts"
        )
    return "\n".join(lines)


class ActionModule(LocalAction):
    """Compares on the control machine and writes the report."""

    arguments = ARGUMENTS

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the verdict and what people read; failed unless all that was asked about is as planned."""
        try:
            fleet = Fleet.from_variables(given["fleet"])
        except FleetError as exc:
            return {"failed": True, "msg": str(exc)}
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
            result |= {"verdict": verdict, "failed": verdict != PASS, "msg": told(comparison)}
        dest = Path(given["dest"]).absolute()
        self.write({dest / name: text for name, text in texts.items()})
        return {**result, "files": [str(dest / name) for name in texts]}
