"""Plays campaigns against simulated fleets and writes how often the planner was right, by hosts, fault and noise.

    python -m tests.isolation --hosts 8,32,232 --noise 0.01 --fleets 1000

Without --fleets each cell has 10,000 fleets up to 232 hosts, 1,000 up to 1,024 and 300 beyond. With --seconds the
cells share that time, and each says how many fleets it came to. The exit status is 1 if a fleet of a cell with a target
had anybody sound rejected beyond it (see docs/isolation.md).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.figures import write_figures

from .campaign import PERMUTATION_SECONDS, START_MINUTES, Played, Server, play
from .fleet import FAULTS, OTHER_SLOW, TAIL, Spec, expectations

SEED = 7
HOSTS = (8, 32, 232, 1024, 4096)
NOISES = (0.005, 0.01, 0.03)
# Normal deviate of a two-sided 95 % interval.
Z = 1.959964
POWER_TIMES = (1.0, 2.0, 3.0)
LARGEST = 4096


@dataclass(frozen=True)
class Cell:
    """What one row of the table is about; ``times``: the effect as a multiple of the noise, for the power curve."""

    hosts: int
    fault: str
    noise: float
    fleets: int
    times: float | None = None

    def spec(self, shape: dict[str, Any]) -> Spec:
        """Return the fleets' specification."""
        effect = None if self.times is None else self.times * self.noise
        return Spec.usual(self.hosts, self.fault, self.noise, effect=effect, **shape)

    def expect(self, spec: Spec) -> dict[str, Any]:
        """Return what the class expects; for the power curve it has to find just this effect."""
        if spec.effect is None:
            return expectations(spec)
        return expectations(spec, cohort={"peers": 8, "margin": spec.effect / 2, "smallest": spec.effect})


def interval(hits: int, total: int) -> dict[str, float]:
    """Return a rate with its 95 % interval (Wilson)."""
    if not total:
        return {"rate": 0.0, "low": 0.0, "high": 1.0}
    rate = hits / total
    middle = (rate + Z * Z / (2 * total)) / (1 + Z * Z / total)
    half = Z * math.sqrt(rate * (1 - rate) / total + Z * Z / (4 * total * total)) / (1 + Z * Z / total)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return {"rate": round(rate, 6), "low": round(low, 6), "high": round(high, 6)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median and maximum."""
    return {"median": round(statistics.median(values), 2), "max": round(max(values), 2)}


def row(cell: Cell, played: Sequence[Played]) -> dict[str, Any]:
    """Return a cell as isolation.json has it."""
    total = len(played)
    told = {} if cell.times is None else {"effect": round(cell.times * cell.noise, 6), "times_noise": cell.times}
    return {
        "hosts": cell.hosts,
        "fault": cell.fault,
        "noise": cell.noise,
        **told,
        "fleets": total,
        "detected": interval(sum(each.detected for each in played), total),
        "false_alarm": interval(sum(each.blamed for each in played), total),
        "held_sound": interval(sum(each.held_sound for each in played), total),
        "rounds": spread([each.rounds for each in played]),
        "tests": spread([each.tests for each in played]),
        "minutes": spread([each.minutes for each in played]),
    }


def run_cell(cell: Cell, seeds: Iterable[int], seconds: float | None, shape: dict[str, Any]) -> list[Played]:
    """Play a cell's fleets, at least one, until the seconds are over."""
    end = None if seconds is None else time.monotonic() + seconds
    played: list[Played] = []
    spec = cell.spec(shape)
    with Server() as server:
        for seed in seeds:
            if played and end is not None and time.monotonic() > end:
                break
            played.append(play(server, spec, seed, cell.expect(spec)))
    return played


def fleets_for(hosts: int, asked: int | None) -> int:
    """Return how many fleets a cell has."""
    return asked or (10_000 if hosts <= 232 else 1_000 if hosts <= 1024 else 300)


def play_cell(cell: Cell, options: argparse.Namespace, seconds: float | None, pool: Any) -> list[Played]:
    """Play a cell, in as many processes as asked for."""
    shape = {key: value for key in ("rails", "rack", "pod") if (value := getattr(options, key)) is not None}
    seeds = range(options.seed * 1_000_003, options.seed * 1_000_003 + cell.fleets)
    if pool is None:
        return run_cell(cell, seeds, seconds, shape)
    parts = [pool.submit(run_cell, cell, seeds[at :: options.jobs], seconds, shape) for at in range(options.jobs)]
    return [each for part in parts for each in part.result()]


def planning(hosts: int, seed: int) -> dict[str, float]:
    """Return the seconds of the longest computation of a next round, and the memory of the process, at its peak."""
    with Server() as server:
        played = [
            play(server, Spec.usual(hosts, fault, 0.01), seed) for fault in ("five_slow_10", "clean", "slow_boundary")
        ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    longest = max(each.planning for each in played)
    return {"hosts": hosts, "seconds": round(longest, 3), "megabytes": round(peak), "coverage": played[0].remarks[0]}


def shown(cells: Sequence[dict[str, Any]]) -> str:
    """Return the cells as a table."""
    heads = f"{'hosts':>5} {'fault':16} {'noise':>6} {'fleets':>6}"
    lines = [f"{heads} {'detected':>22} {'false alarm':>22} {'rounds':>7} {'minutes':>13}"]
    for cell in cells:
        rates = [
            f"{cell[key]['rate']:7.2%} [{cell[key]['low']:.1%},{cell[key]['high']:.1%}]"
            for key in ("detected", "false_alarm")
        ]
        name = cell["fault"] + (f" x{cell['times_noise']:g}" if "times_noise" in cell else "")
        lines.append(
            f"{cell['hosts']:5} {name:16} {cell['noise']:6.1%} {cell['fleets']:6} {rates[0]:>22} {rates[1]:>22} "
            f"{cell['rounds']['median']:3g}/{cell['rounds']['max']:g} "
            f"{cell['minutes']['median']:6.2f}/{cell['minutes']['max']:.2f}"
        )
    return "\n".join(lines)


def missed(cells: Sequence[dict[str, Any]]) -> list[str]:
    """Return the targets that were not reached, as far as the fleets played can tell."""
    found = []
    for cell in cells:
        name = f"{cell['fault']} at {cell['hosts']} hosts, noise {cell['noise']:.1%}"
        aimed = cell["hosts"] == 232 and cell["noise"] <= 0.01
        if aimed and cell["fault"] in ("one_slow_10", "five_slow_10"):
            if cell["detected"]["high"] < 0.999 or cell["false_alarm"]["low"] > 0.001:
                found.append(f"{name}: {cell['detected']['rate']:.2%} found, {cell['false_alarm']['rate']:.2%} blamed")
            if cell["rounds"]["max"] > 3 or cell["minutes"]["max"] > 10:
                found.append(f"{name}: {cell['rounds']['max']:g} rounds, {cell['minutes']['max']:g} minutes")
        if (
            aimed
            and cell["fault"] == "one_pair"
            and (cell["detected"]["high"] < 0.99 or cell["minutes"]["median"] > 10)
        ):
            found.append(f"{name}: {cell['detected']['rate']:.2%} found, {cell['minutes']['median']:g} minutes")
        if cell["fault"] == "slow_boundary" and cell["false_alarm"]["low"] > 0.001:
            found.append(f"{name}: reported as bad nodes in {cell['false_alarm']['rate']:.2%}")
    return found


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(prog="isolation", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--hosts", default=",".join(map(str, HOSTS)), help="numbers of hosts, separated by commas")
    parser.add_argument("--fault", default=",".join(FAULTS), help="names of faults")
    parser.add_argument("--noise", default=",".join(map(str, NOISES)), help="standard deviations, as parts")
    parser.add_argument("--fleets", type=int, help="fleets of each cell")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--seconds", type=float, help="time for all cells together")
    parser.add_argument("--jobs", type=int, default=1, help="processes, 0: one for each processor")
    parser.add_argument("--rails", type=int, help="ranks of each host")
    parser.add_argument("--rack", type=int, help="hosts in a rack, 0: no racks declared")
    parser.add_argument("--pod", type=int, help="racks in a pod, 0: no pods declared")
    parser.add_argument("--power", default="", help="play the power curve instead: effects in noises, e.g. 1,2")
    parser.add_argument("--planning", action="store_true", help=f"add the cost of planning {LARGEST} hosts")
    parser.add_argument("--bench", type=Path, help="the file for the figures of the bench")
    parser.add_argument("--out", type=Path, default=Path("build/isolation.json"))
    options = parser.parse_args(arguments)
    options.jobs = options.jobs or os.cpu_count() or 1
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Play every cell, print the table and write it."""
    options = options_of(arguments)
    hosts = [int(each) for each in options.hosts.split(",")]
    noises = [float(each) for each in options.noise.split(",")]
    if options.power:
        cells = [
            Cell(232, "one_slow_10", noise, fleets_for(1024, options.fleets), float(times))
            for noise in noises
            for times in options.power.split(",")
        ]
    else:
        cells = [
            Cell(count, fault, noise, fleets_for(count, options.fleets))
            for count in hosts
            for fault in options.fault.split(",")
            for noise in noises
        ]
    # Time is shared by what a fleet costs, which grows with its pairs.
    weights = [math.sqrt(cell.hosts) for cell in cells]
    data: dict[str, Any] = {
        "parameters": {
            "start_minutes": START_MINUTES,
            "permutation_seconds": PERMUTATION_SECONDS,
            "seed": options.seed,
            "other_slow": OTHER_SLOW,
            "tail": TAIL,
        },
        "cells": [],
        "power": [],
    }
    if options.planning:
        data["planning"] = planning(LARGEST, options.seed)
    pool = ProcessPoolExecutor(options.jobs) if options.jobs > 1 else None
    for cell, weight in zip(cells, weights, strict=True):
        seconds = None if options.seconds is None else options.seconds * weight / sum(weights)
        data["cells" if cell.times is None else "power"].append(row(cell, play_cell(cell, options, seconds, pool)))
        options.out.parent.mkdir(exist_ok=True, parents=True)
        options.out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if pool is not None:
        pool.shutdown()
    print(shown([*data["cells"], *data["power"]]))
    if "planning" in data:
        print(
            "planning {hosts} hosts: {seconds} s for the longest next round, {megabytes} MiB".format(**data["planning"])
        )
    wrong = missed(data["cells"])
    for text in wrong:
        print(f"MISSED {text}")
    if options.bench:
        write_figures(figures(data, wrong), options.bench)
    return int(bool(wrong))


def figures(data: dict[str, Any], wrong: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what the bench keeps: of one cell how often the planner was right, of several the targets it missed."""
    if len(played := [*data["cells"], *data["power"]]) == 1:
        (cell,) = played
        name = f"isolation_{cell['hosts']}_{cell['fault']}_{cell['noise']:g}"
        name += f"_power_{cell['times_noise']:g}" if "times_noise" in cell else ""
        unit = f"of {cell['fleets']} fleets"
        return {f"{name}_{key}": {"value": cell[key]["rate"], "unit": unit} for key in ("detected", "false_alarm")}
    found: dict[str, dict[str, Any]] = {
        "isolation_fleets": {"value": sum(cell["fleets"] for cell in played), "unit": "fleets"},
        "isolation_missed": {"value": len(wrong), "unit": "targets"},
    }
    if planned := data.get("planning"):
        name = f"isolation_planning_{planned['hosts']}"
        found[f"{name}_seconds"] = {"value": planned["seconds"], "unit": "s for the longest next round"}
        found[f"{name}_mib"] = {"value": planned["megabytes"], "unit": "MiB"}
    return found


if __name__ == "__main__":
    sys.exit(main())
