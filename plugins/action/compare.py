"""Action plugin compare: two fleets' acceptance measurements side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible.utils.color import ANSIBLE_COLOR
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import version_of
from ansible_collections.muster.cluster.plugins.plugin_utils.report.comparison_shown import (
    comparison_lines,
    comparison_page,
    comparison_table,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.fleet_comparison import compare
from ansible_collections.muster.cluster.plugins.plugin_utils.report.fleet_summaries import summary_from
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_table import width_of


class ActionModule(LocalAction):
    """Prints the comparison and writes it down; asks no host."""

    arguments: ClassVar[dict[str, Any]] = {
        "left": {"type": "path", "required": True},
        "right": {"type": "path", "required": True},
        "dest": {"type": "path", "required": True},
    }

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the comparison and the files it is in."""
        comparison = compare(*(summary_from(Path(given[side]).absolute()) for side in ("left", "right")))
        told, directory = comparison.to_dict(), Path(given["dest"]).absolute()
        texts = {
            "compare.json": json.dumps(told, indent=2) + "\n",
            "compare.html": comparison_page(comparison, time.time(), version_of()),
        }
        self.write({directory / name: text for name, text in texts.items()})
        display, coloured = Display(), bool(ANSIBLE_COLOR)
        table = comparison_table(comparison, width_of(display.columns, coloured), coloured)
        display.display("\n".join(["", table, "", *comparison_lines(comparison), ""]))
        return {
            "comparison": told,
            "comparison_file": str(directory / "compare.json"),
            "page_file": str(directory / "compare.html"),
        }
