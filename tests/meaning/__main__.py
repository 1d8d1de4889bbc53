"""Judges every case that follows from what the fields mean; prints and writes how many got another verdict."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.figures import write_figures

from .meaning_cases import all_cases, wrong

_CHUNKS = 64


def chunk(number: int) -> tuple[int, list[str]]:
    """Judge one of the chunks; return how many cases it has and what was wrong."""
    mine: Sequence = list(all_cases())[number::_CHUNKS]
    return len(mine), [said for said in map(wrong, mine) if said]


def main() -> int:
    """Judge them all; the exit status is 1 if one was wrong."""
    parser = argparse.ArgumentParser(prog="meaning", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bench", type=Path, help="the file for the figures of the bench")
    parser.add_argument("--jobs", type=int, help="processes; as many as there are cores without it")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        results = list(pool.map(chunk, range(_CHUNKS)))
    said = sorted(text for _count, texts in results for text in texts)
    print(*said, sep="\n")
    figures = {
        "meaning_cases": {"value": sum(count for count, _texts in results), "unit": "cases"},
        "meaning_wrong": {"value": len(said), "unit": "cases"},
    }
    print(", ".join(f"{name} {figure['value']}" for name, figure in figures.items()))
    if options.bench:
        write_figures(figures, options.bench)
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())
