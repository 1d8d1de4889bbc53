"""Action plugin that holds the live fabric against the cabling plan (documented in the module of the same name)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cabling_report import report_of
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet


class ActionModule(LocalAction):
    """Compares on the control machine and writes the report."""

    arguments: ClassVar[dict[str, Any]] = {
        "fleet": {"type": "dict", "required": True},
        "infiniband": {"type": "dict"},
        "lldp": {"type": "dict"},
        "others": {"type": "list", "elements": "str", "default": []},
        "dest": {"type": "path", "required": True},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the verdict and what people read; failed unless all that was asked about is as planned."""
        report = report_of(Fleet.from_variables(given["fleet"]), given["others"], given)
        dest, texts = Path(given["dest"]).absolute(), report.texts()
        self.write({dest / name: text for name, text in texts.items()})
        result = {"cables": len(report.plan.cables), "files": [str(dest / name) for name in texts]}
        if (found := report.comparison) is None:
            return result
        return {**result, "verdict": found.verdict, "failed": found.verdict != PASS, "msg": found.summary()}
