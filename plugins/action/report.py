"""Action plugin that writes the verdicts down and shows them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible.utils.color import ANSIBLE_COLOR
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.report.fleet_report import report_of
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import verdict_rows, verdicts_from
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_table import verdict_table, width_of


class ActionModule(LocalAction):
    """Writes ``verdicts.json``, ``report.html`` and ``acceptance.json``; never changes a host."""

    arguments: ClassVar[dict[str, Any]] = {
        "verdicts": {"type": "list", "elements": "dict", "required": True},
        "fleet": {"type": "dict", "required": True},
        "dest": {"type": "path", "required": True},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the paths written and the number of nodes in each state."""
        # Plain data, free of what Ansible attaches to a value to say where it came from.
        plain = json.loads(json.dumps({key: given[key] for key in ("verdicts", "fleet")}))
        display, coloured = Display(), bool(ANSIBLE_COLOR)
        report = report_of(
            verdicts_from(plain["verdicts"]), Fleet.from_variables(plain["fleet"]), time.time(), display.warning
        )
        directory = Path(given["dest"]).absolute()
        texts = report.texts()
        self.write({directory / name: text for name, text in texts.items()})
        table = verdict_table(verdict_rows(report.verdicts), width_of(display.columns, coloured), coloured)
        display.display(f"\n{table}\n")
        states = [verdict.state for verdict in report.verdicts]
        return {
            "states": {state: states.count(state) for state in sorted(set(states))},
            "verdicts_file": str(directory / "verdicts.json"),
            "report_file": str(directory / "report.html"),
            "acceptance_file": str(directory / "acceptance.json") if "acceptance.json" in texts else None,
        }
