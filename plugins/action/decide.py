"""Action plugin decide: an operator's decision about a node, above all evidence until it is released."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.plugin_utils.admission import DECISIONS
from ansible_collections.muster.cluster.plugins.plugin_utils.cases import compute_nodes
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Ledger, LedgerError, operator

RELEASE = "release"


def decide(given: Mapping[str, Any], who: str, now: float, check: bool = False) -> dict[str, Any]:
    """Record the decision and return the task's result; raises LedgerError."""
    fleet, node, decision = given["fleet"], given["node"], given["decision"]
    known = compute_nodes(fleet)
    if node not in known:
        raise LedgerError(f"node {node!r} is no compute node of the fleet")
    if not given["reason"].strip():
        raise LedgerError(f"node {node}: a decision needs a reason, -e reason='...'")
    ledger = Ledger.open(fleet["ledger"]["url"], fleet["ledger"]["id"], fleet["cluster"], read_only=check)
    # An admission under way would go on to render what it read before.
    with nullcontext() if check else ledger.locked(), ledger.rehearsing() if check else ledger.writing() as writer:
        writer.declare({node: known[node]["hardware_class"]}, now)
        move = writer.decide(node, "none" if decision == RELEASE else decision, given["reason"], who, now)
        state = writer.states()[node]
    return {"changed": move is not None, "node": node, "state": state, "transition": vars(move) if move else None}


class ActionModule(ActionBase):
    """Record a decision; runs on the control machine and needs no connection."""

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
                "node": {"type": "str", "required": True},
                "decision": {"type": "str", "required": True, "choices": [*DECISIONS, RELEASE]},
                "reason": {"type": "str", "required": True},
            }
        )
        try:
            return decide(given, operator(), time.time(), self._task.check_mode)
        except LedgerError as exc:
            raise AnsibleActionFail(str(exc)) from None
