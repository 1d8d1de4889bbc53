"""Action plugin record: evidence into the ledger at once, so that a run which dies later loses none of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.module_utils.evidence import Evidence, EvidenceError
from ansible_collections.muster.cluster.plugins.plugin_utils.cases import compute_nodes
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Ledger, LedgerError, Refused


def record(fleet: Mapping[str, Any], evidence: Sequence[Any], now: float, check: bool = False) -> dict[str, Any]:
    """Append evidence to the ledger in one transaction and return the task's result; raises LedgerError.

    What cannot be imported is told and left out: a sick host's record must not cost the others theirs.
    """
    known = compute_nodes(fleet)
    parsed: list[Evidence] = []
    refused: list[Refused] = []
    for item in evidence:
        try:
            each = Evidence.from_dict(item)
        except EvidenceError as exc:
            name = item.get("node") if isinstance(item, Mapping) else None
            refused.append(Refused(str(name), "", str(exc)))
            continue
        if each.node in known:
            parsed.append(each)
        else:
            refused.append(
                Refused(each.node, each.id, f"evidence {each.id}: {each.node} is no compute node of the fleet")
            )
    ledger = Ledger.open(fleet["ledger"]["url"], fleet["ledger"]["id"], fleet["cluster"], read_only=check)
    if parsed:
        with ledger.rehearsing() if check else ledger.writing() as writer:
            refused += writer.add_evidence(parsed, now)
    left_out = {item.id for item in refused}
    return {
        # Gathering evidence is no change.
        "changed": False,
        "recorded": [item.id for item in parsed if item.id not in left_out],
        "refused": [vars(item) for item in refused],
        "warnings": [f"{item.node}: {item.reason}" for item in refused],
    }


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
                "evidence": {"type": "list", "elements": "raw", "required": True},
            }
        )
        try:
            return record(given["fleet"], given["evidence"], time.time(), self._task.check_mode)
        except LedgerError as exc:
            raise AnsibleActionFail(str(exc)) from None
