"""A long seeded run: prints and writes how many cases were tried, and how many of them passed a sick host."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.figures import write_figures

from .cases import case, raised
from .mutation import ODD, mutated
from .sick import healthy, known

SEED = 20
CASES = 100_000
CHUNK = 1_000
# Of ten cases one is a parser alone with what no tool prints.
_ODD_SHARE = 0.1


def chunk(number: int) -> list[str]:
    """Run one part of the cases and return what was wrong."""
    rng = random.Random(f"{SEED} {number}")
    return [wrong for wrong in (_one(rng) for _ in range(CHUNK)) if wrong]


def _one(rng: random.Random) -> str:
    if rng.random() < _ODD_SHARE:
        name = rng.choice(known())
        text, mutations = mutated(rng, healthy(name), ODD)
        said = raised(name, text)
        return f"parser raised {said}: {name} after {mutations}" if said else ""
    tried = case(rng)
    sick = tried.sick
    return (
        f"{tried.wrong}: {sick.check} by {sick.probe} ({sick.old[:50]}) after {tried.mutations}" if tried.wrong else ""
    )


def main() -> int:
    """Run them all; the exit status is 1 if one was wrong."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("cases", nargs="?", type=int, default=CASES)
    parser.add_argument("--bench", type=Path, help="the file for the figures of the bench")
    options = parser.parse_args()
    chunks = -(-options.cases // CHUNK)
    with ProcessPoolExecutor() as pool:
        wrong = [text for texts in pool.map(chunk, range(chunks)) for text in texts]
    for text, times in Counter(wrong).most_common(400):
        print(f"{times} x {text}")
    passed = sum(text.startswith("false pass") for text in wrong)
    figures = {
        "fuzz_cases": {"value": chunks * CHUNK, "unit": "cases"},
        "fuzz_false_pass": {"value": passed, "unit": "cases"},
        "fuzz_raised": {"value": len(wrong) - passed, "unit": "cases"},
    }
    print(", ".join(f"{name} {figure['value']}" for name, figure in figures.items()))
    if options.bench:
        write_figures(figures, options.bench)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
