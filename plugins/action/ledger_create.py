"""Action plugin ledger_create: makes a cluster's ledger, once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.action.admit import Gate, GateError, GateInfo, ModuleGate
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Ledger, LedgerError

SWITCH = "-e ledger_recreate=true"


def create(fleet: Mapping[str, Any], gate: Gate, recreate: bool, now: float, check: bool = False) -> dict[str, Any]:
    """Make the ledger unless it is there and return the task's result.

    Raises LedgerError where the gate says that there has been one: a new one knows no node, and the next reconcile
    would close all of them.
    """
    address = fleet["ledger"]
    try:
        ledger = Ledger.open(address["url"], address["id"], fleet["cluster"], read_only=True)
    except LedgerError as exc:
        if not exc.absent:
            raise
    else:
        return {"changed": False, "id": ledger.id}
    info = _read(gate)
    if info.ledger_id not in (None, address["id"]):
        raise LedgerError(
            f"the controller's gate was rendered from ledger {info.ledger_id}, the fleet file's ledger.id is "
            f"{address['id']}; no ledger was made"
        )
    lost = info.generation if info.ledger_id is not None else None
    if lost is not None and not recreate:
        raise LedgerError(
            f"the controller's gate was rendered from generation {lost} of ledger {address['id']}: restore the newest "
            f"copy of it, or, to have every node proven again, make a new one with {SWITCH}; no ledger was made"
        )
    if not check:
        # Ahead of the gate from the first, so that it is never taken for an older copy of what was lost.
        generation = 0 if lost is None else lost + 1
        Ledger.create(address["url"], address["id"], fleet["cluster"], now, generation)
    return {"changed": True, "id": address["id"]}


def _read(gate: Gate) -> GateInfo:
    try:
        return gate.read()
    except GateError as exc:
        raise LedgerError(
            f"the controller cannot be asked whether there has been a ledger already and how far it had come ({exc}); "
            "no ledger was made; run again when the controller answers"
        ) from exc


class ActionModule(ActionBase):
    """Make a ledger; delegated to the controller."""

    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the task's result."""
        super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            argument_spec={
                "fleet": {"type": "dict", "required": True},
                "recreate": {"type": "bool", "default": False},
            }
        )
        gate = ModuleGate.of_action(self, given["fleet"], task_vars)
        try:
            return create(given["fleet"], gate, given["recreate"], time.time(), self._task.check_mode)
        except LedgerError as exc:
            raise AnsibleActionFail(str(exc)) from None
