"""Measures the code: folder cycles, lines, duplicates, and what is sent to nodes.

    PYTHONPATH=collections:. python -m tests.architecture.figures --bench FILE

``lines_of_code`` are those of plugins without blanks, comments and docstrings (pygount). ``module_payload`` is what
Ansible sends for one module, most of it Ansible's own part; ``beyond_ansible`` is what is more than for its ping.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import build

from tests.figures import ROOT, file_of, write_figures

from .pages import edits, written
from .rooms import arrows_of, cycles

PLUGINS = ROOT / "plugins"
# What adding a check takes; test_adding_a_check.py follows it.
NEW_CHECK = ROOT / "docs/maintaining/adding_a_check.md"
# The last release written in JavaScript; the later ones are a binary that npm does not have for every platform.
JSCPD = ("npx", "--yes", "jscpd@4", "--min-tokens", "50", "--silent", "--reporters", "json")


FIGURES: Mapping[str, Callable[[], dict[str, tuple[float, str]]]] = {
    "cycles": lambda: {"folder_cycles": (cycles(arrows_of(PLUGINS)), "cycles")},
    "lines": lambda: {"lines_of_code": (lines_of_code(PLUGINS), "lines")},
    "duplicates": lambda: {"duplicated_blocks": (duplicated_blocks(PLUGINS), "blocks of 50 tokens and more")},
    "program": lambda: {"zipapp_kib": (round(len(build()) / 1024, 1), "KiB")},
    "page": lambda: {
        "new_check_files_touched": (len(edits(NEW_CHECK.read_text(encoding="utf-8"))), "files written by hand"),
        "new_check_files_generated": (len(written(NEW_CHECK.read_text(encoding="utf-8"))), "files written by commands"),
    },
    "payloads": lambda: payloads(*module_payloads()),
}


def main() -> int:
    """Measure and write it down; what cannot be measured is left out, named, and makes the status 1."""
    file = file_of(__doc__)
    figures: dict[str, dict[str, Any]] = {}
    failed = False
    for name, measured in FIGURES.items():
        try:
            figures |= {figure: {"value": value, "unit": unit} for figure, (value, unit) in measured().items()}
        except (OSError, RuntimeError, ValueError) as exc:
            print(f"{name}: {exc}", file=sys.stderr)
            failed = True
    write_figures(figures, file)
    return int(failed)


def lines_of_code(place: Path) -> int:
    """Return the lines of Python code below a folder: no blanks, no comments, no docstrings."""
    counted = _output([str(Path(sys.executable).parent / "pygount"), "--format=json", "--suffix=py", str(place)])
    return sum(file["codeCount"] for file in json.loads(counted)["files"])


def duplicated_blocks(place: Path) -> int:
    """Return how many blocks of at least 50 tokens stand twice below a folder; raises OSError without npx."""
    with tempfile.TemporaryDirectory() as report:
        _output([*JSCPD, "--output", report, str(place)])
        said = json.loads((Path(report) / "jscpd-report.json").read_text(encoding="utf-8"))
    return int(said["statistics"]["total"]["clones"])


def module_payloads() -> tuple[Mapping[str, int], int]:
    """Return what Ansible sends for each module of the collection that runs on nodes, and for ping, in bytes."""
    sizes = json.loads(_output([sys.executable, str(Path(__file__).with_name("payload.py"))]))
    floor = sizes.pop("ansible.builtin.ping")
    return sizes, floor


def payloads(sizes: Mapping[str, int], floor: int) -> dict[str, tuple[float, str]]:
    """Return the median of what is sent for a module, and of what Muster adds to Ansible's own part."""
    median = statistics.median(sizes.values())
    return {
        "module_payload_kb_median": (round(median / 1000, 1), "kB"),
        "module_payload_beyond_ansible_kb_median": (round((median - floor) / 1000, 1), "kB"),
    }


def _output(argv: Sequence[str]) -> str:
    # Ansible warns of a collection that Python finds by itself.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr[-400:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
