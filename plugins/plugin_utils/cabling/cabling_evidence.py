"""What the comparison of the cables adds to the conclusion of the fabric rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cable_faults import (
    Comparison,
    cabling_findings,
    compare,
    fabric_findings,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import plan_of
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.task_results import live_of
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


def comparison_of(fleet: Fleet, given: Mapping[str, Any]) -> Comparison:
    """Return how the live fabric compares with the fleet's plan; all is unread where nothing is given."""
    plan = plan_of(fleet)
    live = live_of(plan, given)
    return Comparison(plan, (), ("the live fabric was not read",)) if live is None else compare(plan, live)


def with_cabling(conclusion: Conclusion, comparison: Comparison, partners: Iterable[str]) -> Conclusion:
    """Return the conclusion with a finding on the cable of every rail.

    A wrong cable rejects its host whatever its bandwidth is; a host of which it is not known is held. Faults of no host
    (between switches, strangers) are remarks: bandwidth and counters across them are what judges hosts.
    """
    findings, held = dict(conclusion.findings), dict(conclusion.held)
    for node, measured in conclusion.findings.items():
        cables = cabling_findings(comparison, node)
        findings[node] = (*measured, *cables)
        if why := next((each.reason for each in cables if each.verdict == INCOMPLETE), ""):
            held.setdefault(node, why)
    doubted = dict(conclusion.doubted)
    for node in partners:
        if why := next((each.reason for each in cabling_findings(comparison, node) if each.verdict == FAIL), ""):
            doubted.setdefault(node, why)
    remarks = tuple(each.reason for each in fabric_findings(comparison))
    return replace(conclusion, findings=findings, held=held, doubted=doubted, remarks=(*conclusion.remarks, *remarks))
