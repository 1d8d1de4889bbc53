"""What it costs to plan acceptance: processor time at 232 hosts, at half a fleet behind slow racks, memory at 4,096.

    PYTHONPATH=collections:. python -m tests.isolation.planning_cost --bench build/bench.json

Only the planner counts: reading observations, judging them, planning rounds, concluding. Making the observations up
does not. How fast a machine is, a fixed piece of work (``calibration``) tells that runs beside it in the same process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings

from tests.fleets import collectives

from .campaign import plan_of
from .faults import OTHER_SLOW, Slow
from .fleet import FAULTS, Fleet, Spec, expectations
from .scale import growth

SEED = 11
# Processor time of the planner of 3cdc734 for the mean of these fleets, in times the calibration's, both measured in
# one process (2 shared cores of a Xeon with AVX-512, Python 3.11, numpy 2.4).
BEFORE_IN_CALIBRATIONS = 6.2
SPEEDUP, MEBIBYTES, SECONDS = 3.0, 300, 1.0
HUGE = Spec.usual(4096, "five_slow_10", 0.01)


def calibration() -> float:
    """Return the seconds of processor time of a fixed piece of work, half of it numpy's and half of it Python's."""
    chance = np.random.default_rng(SEED)
    values, order = chance.normal(size=26_796), chance.integers(0, 26_796, size=26_796)
    begun = time.process_time()
    for _each in range(60):
        np.sort(values[order])
        np.bincount(order, weights=values)
        np.where(values > 0, values * values, 1 - values)
    texts: dict[int, str] = {}
    for number in range(60_000):
        texts[number % 1024] = f"{number:06d} {number / 7:.4g}"
    return time.process_time() - begun


def planned(fleet: Fleet) -> list[float]:
    """Return the seconds of processor time of each call of a campaign's planner."""
    planner = Planner(fleet.nodes, (), Settings.of(collectives(expectations(fleet.spec)), fleet.places()))
    seen: list[tuple[int, Any, Any]] = []
    took = []
    while True:
        begun = time.process_time()
        step = planner.next_round(seen)
        took.append(time.process_time() - begun)
        if isinstance(step, Conclusion):
            return took
        plan = plan_of(step)
        seen += [(step.number, plan, item) for item in fleet.run(plan)]


def speedup() -> float:
    """Return how many times less the planner needs than before, as the mean over a fleet of each fault."""
    calibrations, seconds = [], 0.0
    for fault in FAULTS:
        calibrations.append(calibration())
        seconds += min(sum(planned(Fleet(Spec.usual(232, fault, 0.01), SEED))) for _again in range(2))
    return BEFORE_IN_CALIBRATIONS * float(np.median(calibrations)) / (seconds / len(FAULTS))


def half_slow() -> float:
    """Return the seconds of the longest step for 464 hosts, every other rack of two slow with all others, two pods."""
    fleet = Fleet(Spec(464, "clean", 0.01, rack=2, pod=116), SEED)
    every_other = tuple(node for node, rack in zip(fleet.nodes, fleet.rack.tolist(), strict=True) if rack % 2 == 0)
    fleet.add(Slow(every_other, OTHER_SLOW, to=tuple(fleet.nodes)))
    return max(planned(fleet))


def json_mebibytes() -> int:
    """Return by how much a process grows that reads, records and plans the rounds of 4,096 hosts."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(growth, HUGE).result()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures and write them down; 1 where one of them is worse than it has to be."""
    parser = argparse.ArgumentParser(prog="planning_cost", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bench", type=Path, help="the file to add the figures to")
    options = parser.parse_args(arguments)
    found = {
        "isolation_232_speedup": (round(speedup(), 1), "times less CPU to plan than 3cdc734, against a calibration"),
        "isolation_4096_json_mib": (
            json_mebibytes(),
            "MiB that a campaign takes at its peak, from JSON to conclusion",
        ),
        "isolation_half_slow_464_seconds": (round(half_slow(), 2), "s of processor time, longest step"),
    }
    figures = {name: {"value": value, "unit": unit} for name, (value, unit) in found.items()}
    for name, each in figures.items():
        print(f"{name:32} {each['value']:10} {each['unit']}")
    if options.bench:
        others = json.loads(options.bench.read_text(encoding="utf-8")) if options.bench.exists() else {}
        options.bench.parent.mkdir(exist_ok=True, parents=True)
        options.bench.write_text(json.dumps({**others, **figures}, indent=2) + "\n", encoding="utf-8")
    fast, small, steady = (value for value, _unit in found.values())
    if fast < SPEEDUP or small > MEBIBYTES or steady > SECONDS:
        print(f"MISSED expected at least {SPEEDUP:g} times, at most {MEBIBYTES} MiB and {SECONDS:g} s")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
