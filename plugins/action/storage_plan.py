"""Action plugin storage_plan: how often to save checkpoints, what failures cost, how fast storage has to be."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan_table import (
    FORMULAS,
    plan_lines,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.measured_plan import (
    RESTART_SECONDS,
    WANTED_LOSS_PERCENT,
    Wishes,
    recorded_plan,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction, show
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


class ActionModule(LocalAction):
    """Prints the plan and writes it down; asks no host."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "restart_seconds": {"type": "float", "default": RESTART_SECONDS},
        "wanted_loss_percent": {"type": "float", "default": WANTED_LOSS_PERCENT},
        "blocking_seconds": {"type": "float"},
        "failures_per_1000_node_days": {"type": "float"},
        "dest": {"type": "path", "required": True},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plan and the file it is in."""
        # Plain data, free of what Ansible attaches to a value to say where it came from.
        fleet = Fleet.from_variables(json.loads(json.dumps(given["fleet"])))
        wishes = Wishes(**{key: given[key] for key in Wishes.__dataclass_fields__})
        plan = recorded_plan(fleet, time.time(), wishes)
        written = {"cluster": fleet.cluster, "formulas": list(FORMULAS), **plan.to_dict()}
        file = Path(given["dest"]).absolute()
        self.write({file: json.dumps(written, indent=2) + "\n"})
        show("\n" + "\n".join(plan_lines(plan)) + "\n")
        return {"plan": plan.to_dict(), "plan_file": str(file)}
