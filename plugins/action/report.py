"""Action plugin that writes the verdicts down and shows them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.color import ANSIBLE_COLOR
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.evidence import STAGES, Evidence
from ansible_collections.muster.cluster.plugins.plugin_utils.latency import LatencyProfile
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Ledger, LedgerError, Reader
from ansible_collections.muster.cluster.plugins.plugin_utils.local_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.report.acceptance import Recorded
from ansible_collections.muster.cluster.plugins.plugin_utils.report.comparison import Summary, Value, values_of
from ansible_collections.muster.cluster.plugins.plugin_utils.report.page import About, Part, report_page
from ansible_collections.muster.cluster.plugins.plugin_utils.report.recorded import (
    campaigns_of,
    lost_campaigns,
    recorded_campaign,
    told_by_classes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.table import verdict_table, width_of
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict import (
    QUIET_STATES,
    ReportError,
    Verdict,
    verdict_rows,
    verdicts_from,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.storage.plan import Plan
from ansible_collections.muster.cluster.plugins.plugin_utils.storage.planning import (
    PlanningError,
    checkpoint_of,
    fleet_plan,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.zipapp import ZipappError, version_of

COLLECTION = Path(__file__).resolve().parents[2]
ARGUMENTS: dict[str, Any] = {
    "verdicts": {"type": "list", "elements": "dict", "required": True},
    "fleet": {"type": "dict", "required": True},
    "dest": {"type": "path", "required": True},
}


class ActionModule(LocalAction):
    """Writes ``verdicts.json``, ``report.html`` and ``acceptance.json``; never changes a host."""

    arguments = ARGUMENTS

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the paths written and the number of nodes in each state."""
        # Plain data, free of what Ansible attaches to a value to say where it came from.
        plain = json.loads(json.dumps({key: given[key] for key in ("verdicts", "fleet")}))
        fleet = plain["fleet"]
        try:
            verdicts = verdicts_from(plain["verdicts"])
            page, summary = page_of(verdicts, fleet)
        except (ReportError, LedgerError, ZipappError) as exc:
            raise AnsibleActionFail(f"report: {exc}") from exc
        except KeyError as exc:
            raise AnsibleActionFail(f"report: fleet lacks {exc}") from exc
        texts = {
            "verdicts.json": json.dumps([verdict.to_dict() for verdict in verdicts], indent=2) + "\n",
            "report.html": page,
        }
        if any(summary.classes.values()):
            # For a comparison with a fleet that is somewhere else.
            texts["acceptance.json"] = json.dumps(summary.to_dict(), indent=1) + "\n"
        files = {name: Path(given["dest"]).absolute() / name for name in texts}
        self.write({path: texts[name] for name, path in files.items()})
        display, coloured = Display(), bool(ANSIBLE_COLOR)
        table = verdict_table(verdict_rows(verdicts), width_of(display.columns, coloured), coloured)
        display.display(f"\n{table}\n")
        states = [verdict.state for verdict in verdicts]
        return {
            "states": {state: states.count(state) for state in sorted(set(states))},
            "verdicts_file": str(files["verdicts.json"]),
            "report_file": str(files["report.html"]),
            "acceptance_file": str(files["acceptance.json"]) if "acceptance.json" in files else None,
        }


def page_of(verdicts: Sequence[Verdict], fleet: Mapping[str, Any]) -> tuple[str, Summary]:
    """Return the page, and what it shows of acceptance as a comparison takes it.

    Raises LedgerError, ZipappError, and KeyError where the fleet lacks something.
    """
    named = fleet["ledger"]
    sick = [verdict.node for verdict in verdicts if verdict.state not in QUIET_STATES]
    evidence: dict[str, list[Evidence]] = {}
    now = time.time()
    with Ledger.open(named["url"], named["id"], read_only=True).reading() as ledger:
        for node, records in ledger.records(STAGES, [verdict.node for verdict in verdicts]).items():
            evidence[node] = [record.evidence for record in records]
        parts = {
            node: [Part(part["kind"], part["slot"], part["serial"], part["last_seen"]) for part in ledger.parts(node)]
            for node in sick
        }
        plan = _plan(fleet, ledger, now)
        plans = ledger.plans()
        recorded = tuple(_recorded(fleet, ledger, campaigns_of(evidence, plans)))
    lost = lost_campaigns(evidence, plans)
    about = About(now, fleet["cluster"], version_of(COLLECTION), named["id"], plan, recorded, lost)
    return report_page(verdicts, evidence, about, fleet["nodes"], parts), _summary(fleet, recorded)


def _summary(fleet: Mapping[str, Any], recorded: Sequence[Recorded]) -> Summary:
    """Return what was measured of each hardware class by the first of its campaigns, that of most nodes."""
    classes: dict[str, tuple[Value, ...]] = {}
    for one in recorded:
        if values := values_of(one.measured, fleet["nodes"]):
            classes.setdefault(one.hardware_class, values)
    return Summary(fleet["cluster"], str((fleet.get("fabric") or {}).get("kind", "")), classes)


def _recorded(fleet: Mapping[str, Any], ledger: Reader, campaigns: Sequence[str]) -> list[Recorded]:
    classes = {name: node.get("hardware_class") for name, node in fleet["nodes"].items()}
    profile = LatencyProfile.from_policy(fleet.get("policy") or {})
    told_of = told_by_classes(fleet)
    return [recorded_campaign(ledger, campaign, classes, profile, told_of) for campaign in campaigns]


def _plan(fleet: Mapping[str, Any], ledger: Reader, now: float) -> Plan | None:
    """Return the plan of the declared checkpoints; what cannot be planned keeps nobody from reading the verdicts."""
    try:
        return fleet_plan(fleet, ledger, now) if checkpoint_of(fleet) else None
    except PlanningError as exc:
        Display().warning(f"report: no plan of checkpoints: {exc}")
        return None
