"""Action plugin compare: two fleets' acceptance measurements side by side."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.color import ANSIBLE_COLOR
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import SUFFIXES, Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger import Ledger, LedgerError, Reader
from ansible_collections.muster.cluster.plugins.plugin_utils.local_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.report.comparison import (
    ComparisonError,
    Summary,
    Value,
    compare,
    values_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.comparison_shown import (
    comparison_lines,
    comparison_page,
    comparison_table,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import has_program, measured
from ansible_collections.muster.cluster.plugins.plugin_utils.report.table import width_of
from ansible_collections.muster.cluster.plugins.plugin_utils.zipapp import ZipappError, version_of

COLLECTION = Path(__file__).resolve().parents[2]
ARGUMENTS: dict[str, Any] = {
    "left": {"type": "path", "required": True},
    "right": {"type": "path", "required": True},
    "dest": {"type": "path", "required": True},
}


class ActionModule(LocalAction):
    """Prints the comparison and writes it down; asks no host."""

    arguments = ARGUMENTS

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the comparison and the files it is in."""
        try:
            sides = [summary_from(Path(str(given[side])).absolute()) for side in ("left", "right")]
            comparison = compare(*sides)
            page = comparison_page(comparison, time.time(), version_of(COLLECTION))
        except (ComparisonError, FleetError, LedgerError, ZipappError) as exc:
            raise AnsibleActionFail(f"compare: {exc}") from exc
        told = comparison.to_dict()
        texts = {"compare.json": json.dumps(told, indent=2) + "\n", "compare.html": page}
        files = {name: Path(str(given["dest"])).absolute() / name for name in texts}
        self.write({path: texts[name] for name, path in files.items()})
        display, coloured = Display(), bool(ANSIBLE_COLOR)
        table = comparison_table(comparison, width_of(display.columns, coloured), coloured)
        display.display("\n".join(["", table, "", *comparison_lines(comparison), ""]))
        return {
            "comparison": told,
            "comparison_file": str(files["compare.json"]),
            "page_file": str(files["compare.html"]),
        }


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
