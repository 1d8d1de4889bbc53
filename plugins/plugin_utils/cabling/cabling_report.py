"""The report of the cables: the plan, and how the live fabric compares with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cable_faults import Comparison, compare
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import Plan, plan_of
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.task_results import live_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


class CablingError(MusterError, ValueError):
    """A fleet whose cables cannot be compared; says what was found and what was expected."""


@dataclass(frozen=True)
class CablingReport:
    """The plan of a fleet's cables, and the comparison with the live fabric, None where nobody asked it."""

    plan: Plan
    comparison: Comparison | None

    def texts(self) -> dict[str, str]:
        """Return the files by name."""
        texts = {"plan.csv": self.plan.to_csv()}
        if self.comparison is not None:
            texts["report.json"] = json.dumps(self.comparison.to_dict(), indent=2) + "\n"
        return texts


def report_of(fleet: Fleet, others: Sequence[str], given: Mapping[str, Any]) -> CablingReport:
    """Return the report by results of tasks under ``infiniband`` or ``lldp``. Raises CablingError."""
    plan = plan_of(fleet, others)
    if not plan.cables:
        raise CablingError(
            "the fleet declares no cables: found neither nodes[].rails.switches nor fabric.switches[].uplinks"
        )
    live = live_of(plan, given)
    return CablingReport(plan, None if live is None else compare(plan, live))
