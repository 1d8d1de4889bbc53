"""Action plugin record: evidence into the ledger at once, so that a run which dies later loses none of it."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.module_utils.evidence import STAGES, Evidence, EvidenceError
from ansible_collections.muster.cluster.plugins.plugin_utils.cases import compute_nodes
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Ledger, LedgerError, Refused

# Acceptance is measured between nodes, and only who led the rounds can say what came of them.
RECORDED = tuple(stage for stage in STAGES if stage not in ("fabric", "acceptance"))


def record(
    fleet: Mapping[str, Any], stage: str, evidence: Mapping[str, Any], now: float, check: bool = False
) -> dict[str, Any]:
    """Append the evidence that each host gave of one stage in one transaction and return the task's result.

    What cannot be imported is told and left out: a sick host's record must not cost the others theirs. Raises
    LedgerError, also for a stage of which no host's word is taken.
    """
    if stage not in RECORDED:
        raise LedgerError(f"stage {stage!r}, expected one of {', '.join(RECORDED)}")
    known = compute_nodes(fleet)
    parsed: list[Evidence] = []
    refused: list[Refused] = []
    for host, item in evidence.items():
        try:
            each = Evidence.from_dict(item)
        except EvidenceError as exc:
            refused.append(Refused(host, "", str(exc)))
            continue
        if why := _strange(each, host, stage, known):
            refused.append(Refused(host, each.id, f"evidence {each.id}: {why}"))
        else:
            parsed.append(each)
    ledger = Ledger.open(fleet["ledger"]["url"], fleet["ledger"]["id"], fleet["cluster"], read_only=check)
    if parsed:
        with ledger.rehearsing() if check else ledger.writing() as writer:
            refused += writer.add_evidence(parsed, now)
    left_out = {(item.node, item.id) for item in refused}
    return {
        # Gathering evidence is no change.
        "changed": False,
        "recorded": [item.id for item in parsed if (item.node, item.id) not in left_out],
        "refused": [vars(item) for item in refused],
        "warnings": [f"{item.node}: {item.reason}" for item in refused],
    }


def _strange(evidence: Evidence, host: str, stage: str, known: Container[str]) -> str:
    """Return why this is not what the host was asked for."""
    if host not in known:
        return f"{host} is no compute node of the fleet"
    if evidence.node != host:
        return f"belongs to node {evidence.node}, expected {host}"
    return "" if evidence.stage == stage else f"is {evidence.stage}, expected {stage}"


class ActionModule(ActionBase):
    """Record evidence; runs on the control machine and needs no connection."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the task's result."""
        super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            argument_spec={
                "fleet": {"type": "dict", "required": True},
                "stage": {"type": "str", "required": True, "choices": list(RECORDED)},
                "evidence": {"type": "dict", "required": True},
            }
        )
        try:
            return record(given["fleet"], given["stage"], given["evidence"], time.time(), self._task.check_mode)
        except LedgerError as exc:
            raise AnsibleActionFail(str(exc)) from None
