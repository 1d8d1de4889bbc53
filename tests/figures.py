"""What was measured: build/bench.json, {figure: {value, unit, of, commit}}, where ``of`` names the command.

A part of `make bench` measures by itself: `python -m tests.bench.chain --bench FILE` writes its figures to a file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "build" / "bench.json"

Figures = Mapping[str, Mapping[str, Any]]


def commit() -> str:
    """Return the commit of the working tree, with "+" where files differ from it; "unknown" outside of Git."""
    argv = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def file_of(description: str | None) -> Path:
    """Return the file that a part of the bench was told to write."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--bench", type=Path, required=True, help="the file for the figures")
    file: Path = parser.parse_args().bench
    return file.absolute()


def write_figures(figures: Figures, file: Path) -> None:
    """Write the figures of one part, and print them."""
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for name, figure in figures.items():
        print(f"{name:36} {figure['value']!s:>10} {figure['unit']}")


def read_figures(file: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of a file; none where there is no such file."""
    found: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def add_figures(figures: Figures, file: Path) -> None:
    """Add figures of this commit to a file; what others measured stays."""
    now = commit()
    added = {name: {**figure, "commit": now} for name, figure in figures.items()}
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(json.dumps({**read_figures(file), **added}, indent=2) + "\n", encoding="utf-8")
