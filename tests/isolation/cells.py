"""The cells of the published figures, and the file that keeps what was played of them, so that a run goes on.

A cell is many fleets of one fault, size and noise; fleet number n of a seed is the same in every run. What is kept
counts for the sources that played it: they are told by a digest that comments and docstrings do not change.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .campaign import ROOT, Server, play
from .faults import NAMED
from .fleet import Spec, expectations
from .scores import Tally

SEED = 7
HOSTS, NOISES = (8, 32, 232), (0.005, 0.01, 0.03)
LARGE = {1024: 60, 4096: 10}
POWER_TIMES = (1.0, 2.0, 3.0)
# What the documentation promises: each with so many fleets that none in all of them is at most 0.1 % of such fleets.
MAIN = (
    *("clean", "one_slow_10", "five_slow_10", "one_pair", "one_rail", "hang", "dead", "wrong_data"),
    *("third_slow_10", "hub_20", "heavy_tail", "intermittent_30", "two_racks"),
)
MAIN_NOISE, MAIN_FLEETS, CORNER_FLEETS = 0.01, 3000, 300
# So many at a time: what is lost at most when a run is killed.
CHUNKS = {1024: 20, 4096: 2}
CHUNK = 250
PREFIX = ("tests.", "ansible_collections.muster")


@dataclass(frozen=True)
class Cell:
    """Fleets of a kind; ``times``: the effect as a multiple of the noise, for the power curve."""

    hosts: int
    fault: str
    noise: float
    fleets: int
    times: float | None = None
    seed: int = SEED
    shape: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """Return what the file knows it by: everything but how many fleets are wanted."""
        shape = "".join(f" {key} {value}" for key, value in self.shape)
        power = "" if self.times is None else f" x{self.times:g}"
        return f"{self.hosts} {self.fault}{power} noise {self.noise:g} seed {self.seed}{shape}"

    @property
    def main(self) -> bool:
        """Return whether targets are set for it."""
        usual = self.times is None and not self.shape and self.noise == MAIN_NOISE
        return usual and self.hosts in HOSTS and self.fault in (*MAIN, "hang_spares")

    def spec(self) -> Spec:
        """Return the fleets' specification."""
        effect = None if self.times is None else self.times * self.noise
        return Spec.usual(self.hosts, self.fault, self.noise, effect=effect, **dict(self.shape))

    def expect(self, spec: Spec) -> dict[str, Any]:
        """Return what the class expects; for the power curve it has to find just this effect."""
        if spec.effect is None:
            return expectations(spec)
        return expectations(spec, cohort={"peers": 8, "margin": spec.effect / 2, "smallest": spec.effect})

    def seed_of(self, number: int) -> int:
        """Return the seed of one of its fleets."""
        return self.seed * 1_000_003 + number

    def described(self, tally: Tally) -> dict[str, Any]:
        """Return the cell with its figures, as isolation.json has it."""
        told = {} if self.times is None else {"effect": round(self.times * self.noise, 6), "times_noise": self.times}
        about = {"hosts": self.hosts, "fault": self.fault, "noise": self.noise, **told, "fleets": tally.fleets}
        return {**about, "wanted": self.fleets, "main": self.main, **tally.figures()}


def main_cells() -> list[Cell]:
    """Return the cells that the documentation prints, the small fleets first."""
    faults = (*MAIN, "hang_spares")
    return [Cell(hosts, fault, MAIN_NOISE, MAIN_FLEETS) for hosts in HOSTS for fault in faults]


def corner_cells() -> list[Cell]:
    """Return what is measured besides: other faults, noises and sizes, and the power curve."""
    others = [fault for fault in NAMED if fault not in (*MAIN, "hang_spares")]
    cells = [Cell(hosts, fault, MAIN_NOISE, CORNER_FLEETS) for hosts in HOSTS for fault in others]
    noises = [noise for noise in NOISES if noise != MAIN_NOISE]
    cells += [Cell(hosts, fault, noise, CORNER_FLEETS) for hosts in HOSTS for fault in MAIN for noise in noises]
    cells += [Cell(232, "one_slow_10", noise, CORNER_FLEETS, times) for noise in NOISES for times in POWER_TIMES]
    return cells + [Cell(hosts, fault, MAIN_NOISE, count) for hosts, count in LARGE.items() for fault in MAIN]


def sources_digest() -> str:
    """Return a digest of every module that playing a fleet loads: the planner's and the simulator's."""
    loaded = f"sorted(m.__file__ for n, m in sys.modules.items() if n.startswith({PREFIX}) and m.__file__)"
    program = f"import sys, tests.isolation.campaign; print(*{loaded}, sep='\\n')"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'collections'}:{ROOT}"}
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found = hashlib.sha256()
    for path in sorted(Path(each).resolve() for each in done.stdout.split("\n") if each):
        found.update(f"{path.relative_to(ROOT)}\n{without_comments(path.read_text(encoding='utf-8'))}\n".encode())
    return found.hexdigest()[:16]


def without_comments(source: str) -> str:
    """Return a module's code without what it only says."""
    tree = ast.parse(source)
    for each in ast.walk(tree):
        if isinstance(each, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(each) is not None:
            each.body = each.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


@dataclass
class Record:
    """What was played of each cell, by name, in a file of its own; ``digest`` is that of the sources.

    What other sources played stays in the file, so that it counts again where they come back.
    """

    file: Path
    digest: str
    played: dict[str, Any]
    tallies: dict[str, Tally]

    @classmethod
    def read(cls, file: Path, digest: str) -> Record:
        """Return what these sources played."""
        played = json.loads(file.read_text(encoding="utf-8"))["played"] if file.exists() else {}
        tallies = {name: Tally.of(counts) for name, counts in played.get(digest, {}).items()}
        return cls(file, digest, played, tallies)

    def write(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """Keep everything, with the figures of these cells as far as they are played, and return it."""
        self.played[self.digest] = {name: tally.counts() for name, tally in self.tallies.items()}
        data = {
            "digest": self.digest,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "cells": [cell.described(tally) for cell in cells if (tally := self.tallies.get(cell.name))],
            "played": self.played,
        }
        self.file.parent.mkdir(exist_ok=True, parents=True)
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        # Whoever is killed meanwhile leaves the old one.
        beside.replace(self.file)
        return data

    def left(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, int, int]]:
        """Yield what is to be played: a cell, and its fleets from which number on to which."""
        for cell in cells:
            begin = self.tallies[cell.name].fleets if cell.name in self.tallies else 0
            size = CHUNKS.get(cell.hosts, CHUNK)
            for first in range(begin, cell.fleets, size):
                yield cell, first, min(first + size, cell.fleets)


def play_all(record: Record, cells: Sequence[Cell], jobs: int) -> list[str]:
    """Play what is left of these cells in so many processes, and keep every chunk once those before it are kept.

    Return in words which cells broke off because the planner raised an error; the others go on.
    """
    broken: dict[str, str] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
        waiting: deque[tuple[Cell, int, Future[dict[str, Any]]]] = deque()
        left = record.left(cells)
        while True:
            for cell, first, end in itertools.islice(left, max(0, 2 * jobs - len(waiting))):
                waiting.append((cell, end, pool.submit(play_chunk, cell, first, end)))
            if not waiting:
                return list(broken.values())
            cell, end, future = waiting.popleft()
            if (error := future.exception()) is not None:
                broken.setdefault(cell.name, f"{cell.name}: before fleet {end}: {type(error).__name__}: {error}")
            if cell.name in broken:
                continue
            record.tallies.setdefault(cell.name, Tally()).merge(Tally.of(future.result()))
            record.write(cells)
            if end == cell.fleets:
                print(f"{cell.name}: {cell.fleets} fleets", flush=True)


_SERVERS: list[Server] = []


def play_chunk(cell: Cell, first: int, end: int) -> dict[str, Any]:
    """Return the counts of these fleets of a cell, in JSON's form; the process that knows the truth is kept."""
    # One in which something went wrong is not asked again.
    server = _SERVERS.pop() if _SERVERS else Server().__enter__()
    counts = play_fleets(server, cell, range(first, end)).counts()
    _SERVERS.append(server)
    return counts


def play_fleets(server: Server, cell: Cell, numbers: Sequence[int], seconds: float | None = None) -> Tally:
    """Return the counts of these fleets of a cell, or of as many as these seconds allow, at least one."""
    end = None if seconds is None else time.monotonic() + seconds
    tally, spec = Tally(), cell.spec()
    expect: Mapping[str, Any] = cell.expect(spec)
    for number in numbers:
        if tally.fleets and end is not None and time.monotonic() > end:
            break
        seed = cell.seed_of(number)
        tally.add(seed, play(server, spec, seed, expect))
    return tally


def _end_with_parent() -> None:
    """End this process once the one that started it is gone, which may be killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
