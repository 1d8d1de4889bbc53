"""Whether ledger and gate belong together, and a new ledger where there is none yet."""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.admission.controller_gate import (
    ControllerError,
    Gate,
    GateInfo,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.last_seen import last_seen
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, LedgerError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import Progress

RESTORE_HINT = "restore the ledger from its newest copy (docs/admission.md)"
SWITCH = "-e ledger_recreate=true"
TRUST_SWITCH = "ledger_trust=true"


def require_match(ledger_id: str, progress: Progress, info: GateInfo | None, trust: bool = False) -> None:
    """Raise LedgerError if the gate was rendered from another ledger, or this is, or may be, an older copy of it.

    ``trust`` is the operator's word that a ledger is the newest where no gate can tell.
    """
    seen, generation = last_seen(ledger_id), progress.generation
    if seen is not None and seen.generation > generation:
        raise LedgerError(
            f"ledger {ledger_id} is at generation {generation}, this control machine has seen generation "
            f"{seen.generation}: this is an older copy; {RESTORE_HINT}; nothing was changed"
        )
    if seen is not None and seen.transition > progress.transition:
        raise LedgerError(
            f"ledger {ledger_id} has transitions up to {progress.transition}, this control machine has seen "
            f"{seen.transition}: this is an older copy; {RESTORE_HINT}; nothing was changed"
        )
    if info is None:
        return
    if info.ledger_id is None:
        if generation > 0 and seen is None and not trust:
            raise LedgerError(
                f"ledger {ledger_id} has a history (generation {generation}), the controller has no gate, and nobody "
                "knows whether this is the newest copy: quarantines since an older one would be lost; if it is the "
                f"newest, run again with -e {TRUST_SWITCH}; nothing was changed"
            )
        return
    if info.ledger_id != ledger_id:
        raise LedgerError(
            f"the controller's gate was rendered from ledger {info.ledger_id}, the fleet file's ledger.id is "
            f"{ledger_id}; nothing was changed"
        )
    if info.generation > generation:
        raise LedgerError(
            f"ledger {ledger_id} is at generation {generation}, the controller's gate was rendered from generation "
            f"{info.generation}: this is an older copy; {RESTORE_HINT}; nothing was changed"
        )


def guard(fleet: Fleet, gate: Gate, trust: bool = False, check: bool = False) -> dict[str, Any]:
    """Return what the ledger and the controller say; raises LedgerError where a run must stop.

    A ledger that an older Muster wrote is brought to the present schema. A controller that does not answer is told, not
    an error: it may be about to be provisioned.
    """
    address = fleet.ledger
    upgraded = not check and Ledger.upgrade(address.url, address.id, fleet.cluster)
    ledger = Ledger.open(address.url, address.id, fleet.cluster, read_only=True)
    with ledger.reading() as reader:
        progress, nodes = reader.progress(), len(reader.states())
    result: dict[str, Any] = {"changed": upgraded, "generation": progress.generation, "nodes": nodes, "compared": True}
    # What this control machine knows itself it knows whether the controller answers or not.
    require_match(ledger.id, progress, None)
    try:
        require_match(ledger.id, progress, gate.read(), trust)
    except ControllerError as exc:
        result |= {"compared": False, "warnings": [f"the ledger could not be compared with the gate: {exc}"]}
    return result


def create(fleet: Fleet, gate: Gate, recreate: bool, now: float, check: bool = False) -> dict[str, Any]:
    """Make the ledger unless it is there and return the task's result.

    Raises LedgerError where the gate says that there has been one: a new one knows no node, and the next reconcile
    would close all of them.
    """
    address = fleet.ledger
    try:
        ledger = Ledger.open(address.url, address.id, fleet.cluster, read_only=True)
    except LedgerError as exc:
        if not exc.absent:
            raise
    else:
        return {"changed": False, "id": ledger.id}
    info = _read(gate)
    if info.ledger_id not in (None, address.id):
        raise LedgerError(
            f"the controller's gate was rendered from ledger {info.ledger_id}, the fleet file's ledger.id is "
            f"{address.id}; no ledger was made"
        )
    lost = info.generation if info.ledger_id is not None else None
    if lost is not None and not recreate:
        raise LedgerError(
            f"the controller's gate was rendered from generation {lost} of ledger {address.id}: restore the newest "
            f"copy of it, or, to have every node proven again, make a new one with {SWITCH}; no ledger was made"
        )
    if not check:
        # Ahead of the gate from the first, so that it is never taken for an older copy of what was lost.
        generation = 0 if lost is None else lost + 1
        Ledger.create(address.url, address.id, fleet.cluster, now, generation)
    return {"changed": True, "id": address.id}


def _read(gate: Gate) -> GateInfo:
    try:
        return gate.read()
    except ControllerError as exc:
        raise LedgerError(
            f"the controller cannot be asked whether there has been a ledger already and how far it had come ({exc}); "
            "no ledger was made; run again when the controller answers"
        ) from exc
