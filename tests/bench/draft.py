"""Measures the way from archives of hosts to a fleet file: seconds, lines typed, recorded hosts that it works for."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path

from ansible_collections.muster.cluster.plugins.plugin_utils.command.dispatch import main as muster

from tests.figures import Figures, file_of, write_figures
from tests.recorded.healthy_hosts import tried_hosts
from tests.recorded.judged import RECORDED
from tests.unit.plugin_utils.command.test_draft import SESSION, WORDS
from tests.unit.plugin_utils.drafting.archives import archive_of
from tests.unit.plugin_utils.drafting.hosts import collected, healthy_outputs

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
    """Return how many recorded hosts pass by the class drafted of them; nothing where there are no recordings."""
    if not RECORDED.exists():
        return {}
    passed = [host for host in tried_hosts(RECORDED) if not host.reasons]
    unit = "recorded hosts that pass by the class drafted of them"
    return {"recorded_hosts_drafted": {"value": len(passed), "unit": unit}}


if __name__ == "__main__":
    sys.exit(main())
