"""Measures the way from archives of hosts to a fleet file: seconds, lines typed, recorded hosts that it works for."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path

from ansible_collections.muster.cluster.plugins.plugin_utils.command.dispatch import main as muster
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.drafted_class import draft_class

from tests.figures import Figures, file_of, write_figures
from tests.recorded.judged import RECORDED
from tests.unit.plugin_utils.command.test_draft import SESSION, WORDS
from tests.unit.plugin_utils.drafting.archives import archive_of
from tests.unit.plugin_utils.drafting.hosts import collected, h200_outputs, healthy_outputs, xe9680_outputs
from tests.unit.plugin_utils.drafting.test_drafted_class import HGX_RAILS, hgx_outputs

HOSTS = 16


def main() -> int:
    """Measure and write it down; 1 where no file comes of it."""
    file = file_of(__doc__)
    with tempfile.TemporaryDirectory() as place, chdir(place):
        archives = [
            str(archive_of(collected(healthy_outputs(), f"gpu-{number:02}"), Path(place)))
            for number in range(1, HOSTS + 1)
        ]
        # Of processor time, whatever else the machine does.
        began = time.process_time()
        muster(["draft", *archives, *WORDS])
        seconds = time.process_time() - began
        written = Path(WORDS[-1].partition("=")[2]).exists()
    figures: Figures = {
        "draft_seconds": {"value": round(seconds, 2), "unit": f"s of processor time: {HOSTS} archives to a fleet file"},
        "draft_lines_typed": {"value": len(SESSION.strip().splitlines()), "unit": "lines for a fleet of 16 nodes"},
    }
    write_figures({**figures, **_recorded()}, file)
    return int(not written)


def _recorded() -> Figures:
    """Return of how many recorded hosts a class is drafted; nothing where there are no recorded outputs."""
    if not RECORDED.exists():
        return {}
    drafted = [
        draft_class([collected(outputs)], rails=rails)
        for outputs, rails in ((xe9680_outputs(), None), (hgx_outputs(), HGX_RAILS), (h200_outputs(), []))
    ]
    return {"recorded_hosts_drafted": {"value": len(drafted), "unit": "recorded hosts with a class of their own"}}


if __name__ == "__main__":
    sys.exit(main())
