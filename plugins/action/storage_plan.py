"""Action plugin storage_plan: how often to save checkpoints, what failures cost, how fast storage has to be."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Ledger, LedgerError
from ansible_collections.muster.cluster.plugins.plugin_utils.local_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.storage.plan import Plan
from ansible_collections.muster.cluster.plugins.plugin_utils.storage.plan_table import FORMULAS, plan_lines
from ansible_collections.muster.cluster.plugins.plugin_utils.storage.planning import (
    RESTART_SECONDS,
    WANTED_LOSS_PERCENT,
    PlanningError,
    Wishes,
    fleet_plan,
)

ARGUMENTS: dict[str, Any] = {
    "fleet": {"type": "dict", "required": True},
    "restart_seconds": {"type": "float", "default": RESTART_SECONDS},
    "wanted_loss_percent": {"type": "float", "default": WANTED_LOSS_PERCENT},
    "blocking_seconds": {"type": "float"},
    "failures_per_1000_node_days": {"type": "float"},
    "dest": {"type": "path", "required": True},
}


class ActionModule(LocalAction):
    """Prints the plan and writes it down; asks no host."""

    arguments = ARGUMENTS

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plan and the file it is in."""
        # Plain data, free of what Ansible attaches to a value to say where it came from.
        fleet = json.loads(json.dumps(given["fleet"]))
        try:
            plan = _planned(fleet, Wishes(**{key: given[key] for key in Wishes.__dataclass_fields__}))
        except (LedgerError, PlanningError) as exc:
            raise AnsibleActionFail(f"storage_plan: {exc}") from exc
        except KeyError as exc:
            raise AnsibleActionFail(f"storage_plan: fleet lacks {exc}") from exc
        written = {"cluster": fleet["cluster"], "formulas": list(FORMULAS), **plan.to_dict()}
        file = Path(given["dest"]).absolute()
        self.write({file: json.dumps(written, indent=2) + "\n"})
        Display().display("\n" + "\n".join(plan_lines(plan)) + "\n")
        return {"plan": plan.to_dict(), "plan_file": str(file)}


def _planned(fleet: Mapping[str, Any], wishes: Wishes) -> Plan:
    named = fleet["ledger"]
    try:
        ledger = Ledger.open(named["url"], named["id"], fleet["cluster"], read_only=True)
    except LedgerError as exc:
        if not exc.absent:
            raise
        # A cluster is planned before it has one.
        return fleet_plan(fleet, None, time.time(), wishes)
    with ledger.reading() as reader:
        return fleet_plan(fleet, reader, time.time(), wishes)
