"""A fleet's report: what admission said of the nodes, put together with what the ledger has of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import STAGES
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan import Plan
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.measured_plan import (
    PlanningError,
    fleet_plan,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import version_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, Reader
from ansible_collections.muster.cluster.plugins.plugin_utils.report.acceptance_shown import Recorded
from ansible_collections.muster.cluster.plugins.plugin_utils.report.fleet_comparison import Summary, Value, values_of
from ansible_collections.muster.cluster.plugins.plugin_utils.report.page import About, Part, report_page
from ansible_collections.muster.cluster.plugins.plugin_utils.report.recorded_campaigns import (
    campaigns_of,
    lost_campaigns,
    recorded_campaign,
    summary_by_classes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import QUIET_STATES, Verdict


@dataclass(frozen=True)
class FleetReport:
    """The verdicts with all their findings, the page, and what it shows of acceptance as a comparison takes it."""

    verdicts: Sequence[Verdict]
    page: str
    summary: Summary

    def texts(self) -> dict[str, str]:
        """Return the files by name."""
        texts = {
            "verdicts.json": json.dumps([verdict.to_dict() for verdict in self.verdicts], indent=2) + "\n",
            "report.html": self.page,
        }
        if any(self.summary.classes.values()):
            # For a comparison with a fleet that is somewhere else.
            texts["acceptance.json"] = json.dumps(self.summary.to_dict(), indent=1) + "\n"
        return texts


def report_of(verdicts: Sequence[Verdict], fleet: Fleet, now: float, warn: Callable[[str], None]) -> FleetReport:
    """Return the report as of ``now``, seconds since the epoch; ``warn`` hears what is left out.

    Raises LedgerError and ZipappError.
    """
    sick = [verdict.node for verdict in verdicts if verdict.state not in QUIET_STATES]
    with Ledger.open(fleet.ledger.url, fleet.ledger.id, read_only=True).reading() as ledger:
        records = ledger.records(STAGES, [verdict.node for verdict in verdicts])
        evidence = {node: [record.evidence for record in given] for node, given in records.items()}
        parts = {
            node: [Part(part.kind, part.slot, part.serial, part.last_seen) for part in ledger.parts(node)]
            for node in sick
        }
        plan = _plan(fleet, ledger, now, warn)
        plans = ledger.plans()
        recorded = tuple(_recorded(fleet, ledger, campaigns_of(evidence, plans)))
    lost = lost_campaigns(evidence, plans)
    whole = [verdict.completed(evidence.get(verdict.node, ())) for verdict in verdicts]
    about = About(now, fleet.cluster, version_of(), fleet.ledger.id, plan, recorded, lost)
    page = report_page(whole, evidence, about, fleet.node_variables(), parts)
    return FleetReport(whole, page, _summary(fleet, recorded))


def _summary(fleet: Fleet, recorded: Sequence[Recorded]) -> Summary:
    """Return what was measured of each hardware class by the first of its campaigns, that of most nodes."""
    classes: dict[str, tuple[Value, ...]] = {}
    for one in recorded:
        if values := values_of(one.measured, fleet.node_variables()):
            classes.setdefault(one.hardware_class, values)
    return Summary(fleet.cluster, fleet.fabric.kind, classes)


def _recorded(fleet: Fleet, ledger: Reader, campaigns: Sequence[str]) -> list[Recorded]:
    classes = {node.name: node.hardware_class for node in fleet.nodes}
    summary_of = summary_by_classes(fleet)
    return [recorded_campaign(ledger, campaign, classes, fleet.policy.latency, summary_of) for campaign in campaigns]


def _plan(fleet: Fleet, ledger: Reader, now: float, warn: Callable[[str], None]) -> Plan | None:
    """Return the plan of the declared checkpoints; what cannot be planned keeps nobody from reading the verdicts."""
    try:
        return fleet_plan(fleet, ledger, now) if fleet.storage.checkpoint else None
    except PlanningError as exc:
        warn(f"report: no plan of checkpoints: {exc}")
        return None
