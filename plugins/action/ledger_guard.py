"""Action plugin ledger_guard: is this the ledger that the gate was rendered from? Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.action.admit import Gate, GateError, ModuleGate, compare
from ansible_collections.muster.cluster.plugins.plugin_utils.admission import Policy, PolicyError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Ledger, LedgerError


def guard(fleet: Mapping[str, Any], gate: Gate) -> dict[str, Any]:
    """Return what the ledger and the controller say; raises LedgerError or PolicyError where a run must stop.

    A controller that does not answer is told, not an error: it may be about to be provisioned.
    """
    Policy.from_fleet(fleet["policy"])
    ledger = Ledger.open(fleet["ledger"]["url"], fleet["ledger"]["id"], fleet["cluster"], read_only=True)
    with ledger.reading() as reader:
        generation, nodes = reader.generation(), len(reader.states())
    result: dict[str, Any] = {"changed": False, "generation": generation, "nodes": nodes, "compared": True}
    try:
        compare(ledger, generation, gate.read())
    except GateError as exc:
        result |= {"compared": False, "warnings": [f"the ledger could not be compared with the gate: {exc}"]}
    return result


class ActionModule(ActionBase):
    """Guard the ledger; delegated to the controller."""

    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the task's result."""
        super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(argument_spec={"fleet": {"type": "dict", "required": True}})
        try:
            return guard(given["fleet"], ModuleGate.of_action(self, given["fleet"], task_vars))
        except (LedgerError, PolicyError) as exc:
            raise AnsibleActionFail(str(exc)) from None
