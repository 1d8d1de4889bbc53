"""What one fleet measured, from its ledger or from the file that its report wrote: one side of a comparison."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import SUFFIXES, Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, Reader
from ansible_collections.muster.cluster.plugins.plugin_utils.report.fleet_comparison import (
    ComparisonError,
    Summary,
    Value,
    values_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import has_program, measured


def summary_from(path: Path) -> Summary:
    """Return what one fleet measured, from its fleet file's ledger or from the file that its report wrote.

    Raises ComparisonError, FleetError, LedgerError.
    """
    if path.name.endswith(SUFFIXES):
        return _of_fleet(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ComparisonError(f"{path}: {exc.strerror}") from exc
    except ValueError as exc:
        raise ComparisonError(f"{path}: not JSON ({exc}), expected a fleet file or what the report exported") from exc
    return Summary.from_dict(data, str(path))


def _of_fleet(path: Path) -> Summary:
    fleet = Fleet.load(path)
    places = {node.name: node.to_dict() for node in fleet.nodes}
    with Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=True).reading() as ledger:
        chosen = _largest(ledger, {name: place["hardware_class"] for name, place in places.items()})
        classes: dict[str, tuple[Value, ...]] = {}
        for name, campaign in sorted(chosen.items()):
            if values := values_of(measured(ledger.each_round(campaign)), places):
                classes[name] = values
    return Summary(fleet.cluster, fleet.fabric.kind, classes)


def _largest(ledger: Reader, classes: dict[str, str | None]) -> dict[str, str]:
    """Return by hardware class the campaign that measured most of its nodes, the newest of several."""
    best: dict[str, tuple[int, float, str]] = {}
    for stored in ledger.plans():
        if stored.finished is None or not has_program(stored):
            continue
        named = {str(node) for group in stored.plan.get("groups") or () for node in group}
        counted = Counter(classes.get(node) for node in named)
        for name, count in counted.items():
            if name is not None:
                best[name] = max(best.get(name, (0, 0.0, "")), (count, stored.started, stored.campaign))
    return {name: campaign for name, (_, _, campaign) in best.items()}
