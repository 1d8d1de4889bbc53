"""Runs the parts of `make test`, `make quick` or `make test-long`, as tests/budget.yml names them.

    python -m tests.parts test

Parts with container hosts run one after the other. Those that need none (``beside``) run at the same time, also one
after the other and on half of the cores; parts that must be alone start when both are done.

What a part prints goes to build/test/PART.log, the seconds of all of them to build/test_times.json. A part that fails
stops none of the others: the failing lines of all of them stand at the end, and the status is 1. The time of a whole
list goes to build/bench.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.figures import BENCH, add_figures, commit

ROOT = Path(__file__).resolve().parents[1]
BUDGET = ROOT / "tests" / "budget.yml"
LOGS = ROOT / "build" / "test"
TIMES = ROOT / "build" / "test_times.json"
MAIN_ROAD = "-m main_road"
# What pytest, Ansible, mypy, ruff, ansible-lint and make say of what failed; the last lines stand for the others.
FAILED = re.compile(r"(FAILED|ERROR|fatal:|: error|\bE  ) .*[A-Za-z0-9]|Error [0-9]+$")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LINES = 30


@dataclass(frozen=True)
class Part:
    """One command; ``seconds`` is its wall time on two idle cores, ``main_road`` that it runs the marked tests only.

    ``beside``: it needs no container hosts; ``alone``: it starves beside other work.
    """

    name: str
    run: str
    seconds: int
    main_road: bool = False
    beside: bool = False
    alone: bool = False

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"


@dataclass(frozen=True)
class Budget:
    """What tests/budget.yml declares; ``quick`` names parts of ``test``."""

    limit_seconds: int
    quick: tuple[str, ...]
    test: tuple[Part, ...]
    test_long: tuple[Part, ...]

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the parts of `make NAME`."""
        if name == "quick":
            return tuple(part for part in self.test if part.name in self.quick)
        return {"test": self.test, "test-long": self.test_long}[name]


def read_budget(file: Path) -> Budget:
    """Return the declared parts; raises TypeError where a key is missing or unknown."""
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    lists = {
        key: tuple(Part(name, **values) for name, values in data.pop(key).items()) for key in ("test", "test_long")
    }
    return Budget(quick=tuple(data.pop("quick")), **lists, **data)


def run(part: Part, alone: bool = True) -> dict[str, Any]:
    """Run one part and return its record; one that is not ``alone`` leaves half of the cores to the others."""
    environment = dict(os.environ)
    if not alone:
        environment["PYTEST_XDIST_AUTO_NUM_WORKERS"] = str(max(1, (os.cpu_count() or 1) // 2))
    if part.main_road:
        environment["PYTEST_ADDOPTS"] = MAIN_ROAD
    began = time.monotonic()
    with part.log.open("wb") as log:
        status = subprocess.run(
            shlex.split(part.run), cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False
        ).returncode
    seconds = round(time.monotonic() - began, 1)
    print(f"{'ok    ' if status == 0 else 'FAILED'} {part.name}: {seconds:g} s, budget {part.seconds} s", flush=True)
    return {"seconds": seconds, "budget": part.seconds, "status": status}


def failing_lines(text: str) -> list[str]:
    """Return the lines of a log that tell what failed; its last lines where none does."""
    lines = [line.rstrip() for line in COLOURS.sub("", text).splitlines() if line.strip()]
    return ([line for line in lines if FAILED.search(line)] or lines)[-LINES:]


def main(arguments: list[str] | None = None) -> int:
    """Run a list of parts; the status is 1 if one failed."""
    parser = argparse.ArgumentParser(prog="parts", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("list", choices=["quick", "test", "test-long"])
    chosen = parser.parse_args(arguments).list
    parts = read_budget(BUDGET).parts(chosen)
    LOGS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    records: dict[str, dict[str, Any]] = {}

    def run_all(lane: list[Part], alone: bool = True) -> None:
        for part in lane:
            records[part.name] = run(part, alone)
            # Written each time: a run that is cut off tells how far it came.
            TIMES.write_text(json.dumps({"list": chosen, "commit": commit(), "parts": dict(records)}, indent=1) + "\n")

    alone = [part for part in parts if part.alone]
    beside = [part for part in parts if part.beside]
    hosts = [part for part in parts if not part.beside and not part.alone]
    # Hosts in containers take the longest, so theirs is the first claim on the cores.
    other = threading.Thread(target=run_all, args=(beside, not hosts))
    other.start()
    run_all(hosts)
    other.join()
    run_all(alone)
    seconds = round(time.monotonic() - began, 1)
    failed = [part for part in parts if records[part.name]["status"]]
    for part in failed:
        print(f"\n{part.name} failed; from {part.log.relative_to(ROOT)}:")
        print("\n".join(f"  {line}" for line in failing_lines(part.log.read_text(encoding="utf-8", errors="replace"))))
    if not failed:
        figure = f"{chosen.replace('-', '_')}_seconds"
        add_figures({figure: {"value": seconds, "unit": "s of wall time", "of": f"make {chosen}"}}, BENCH)
    said = ", ".join(part.name for part in failed)
    print(f"\n{len(parts)} parts in {seconds:g} s, {f'failed: {said}' if failed else 'all passed'}")
    print(f"parts: {len(parts) - len(failed)} passed, {len(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
