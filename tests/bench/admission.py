"""Measures what judging 3,000 nodes costs: a first run that opens them, and a second one that changes nothing."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.figures import file_of, write_figures
from tests.unit.action.test_admit import Site

NODES = 3000


def main() -> int:
    """Measure and write it down; 1 where a node is missing or the second run changes something."""
    file = file_of(__doc__)
    with tempfile.TemporaryDirectory() as place:
        site = Site(Path(place) / "ledger.sqlite", NODES)
        # Of processor time, whatever else the machine does.
        began = time.process_time()
        first = site.run()
        second = site.run(stages=["preflight"])
        seconds = time.process_time() - began
    write_figures({"admit_3000_seconds": {"value": round(seconds, 1), "unit": "s of processor time: two runs"}}, file)
    return int(len(first["opened"]) != NODES or second["changed"])


if __name__ == "__main__":
    sys.exit(main())
