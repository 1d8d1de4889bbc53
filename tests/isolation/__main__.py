"""Plays campaigns against simulated fleets and writes how often the planner was right, by hosts, fault and noise.

    python -m tests.isolation --hosts 8,32,232 --noise 0.01 --fleets 200    # some fleets, printed
    python -m tests.isolation --cells main --jobs 0                         # the published figures; goes on if killed
    python -m tests.isolation --table build/isolation.json                  # writes them into docs/isolation.md
    python -m tests.isolation --fleet FILE.jsonl --fleets 20                # others' fleets (docs/isolation.md)
    python -m tests.isolation --hosts 32 --fault hub_20 --save FILE.jsonl   # a named fault's fleet as such a file

The exit status is 1 if a target was missed, or somebody bad of a file's fleet was admitted or somebody sound rejected.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.figures import write_figures

from .campaign import ROOT, Server, play
from .cells import HOSTS, MAIN, SEED, Cell, Record, corner_cells, main_cells, play_all, play_fleets, sources_digest
from .faults import NAMED, PASSED
from .fleet import Fleet, Spec
from .fleet_file import HEADER, FleetLineError, read_fleet, written_fleet
from .scores import Tally, shown
from .table import PAGE, keep, page_with

LARGEST = 4096
# What a campaign may take: steps, of which one is for a group that missed a limit by noise, about one fleet in 1,000 of
# 232 hosts; more for a hang, for a node that is lost in a sweep and where groups are measured again and again; minutes
# of the modelled clock.
STEPS, MORE_STEPS, MINUTES = 3, {"hang": 5, "hang_spares": 4, "dead": 4, "heavy_tail": 6}, 10.0


def planning(hosts: int, seed: int) -> dict[str, Any]:
    """Return the seconds of the longest computation of a next round, and the memory of the process, at its peak."""
    with Server() as server:
        played = [
            play(server, Spec.usual(hosts, fault, 0.01), seed) for fault in ("five_slow_10", "clean", "slow_boundary")
        ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    longest = max(each.planning for each in played)
    return {"hosts": hosts, "seconds": round(longest, 3), "megabytes": round(peak), "coverage": played[0].remarks[0]}


def missed(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the targets that were not reached in these fleets."""
    found = []
    for cell in cells:
        name = f"{cell['fault']} at {cell['hosts']} hosts, noise {cell['noise']:.1%}"
        if not cell["main"]:
            continue
        # Of fewer than 32 hosts the floors judge, and a third that is slow is more than they can tell.
        third = cell["fault"] == "third_slow_10"
        for failure in ("wrongly_admitted", "wrongly_rejected"):
            if cell[failure]["fleets"] and not (third and cell["hosts"] < 32):
                found.append(f"{name}: {failure} in {cell[failure]['fleets']} of {cell['fleets']} fleets, expected 0")
        if third and cell["hosts"] >= 32 and cell["detected"]["fleets"] < cell["fleets"]:
            found.append(f"{name}: held in {cell['detected']['fleets']} of {cell['fleets']} fleets, expected all")
        steps = MORE_STEPS.get(cell["fault"], STEPS)
        if cell["steps"]["max"] > steps:
            found.append(f"{name}: {cell['steps']['max']:g} steps, expected at most {steps}")
        usual = cell["fault"] in ("clean", "one_slow_10", "five_slow_10")
        if usual and cell["minutes"]["median"] > MINUTES:
            found.append(f"{name}: {cell['minutes']['median']:g} minutes, expected at most {MINUTES:g}")
    return found


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(prog="isolation", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--hosts", default=",".join(map(str, HOSTS)), help="numbers of hosts, separated by commas (default %(default)s)"
    )
    parser.add_argument(
        "--fault",
        default=",".join(MAIN),
        help=f"names of faults, of {', '.join(NAMED)} (default: those that are promised)",
    )
    parser.add_argument("--noise", default="0.01", help="standard deviations, as parts (default %(default)s)")
    parser.add_argument(
        "--fleets", type=int, default=100, help="fleets of each cell, or of a file (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="tells the fleets apart (default %(default)s)")
    parser.add_argument("--seconds", type=float, help="time for all cells together; each has at least one fleet")
    parser.add_argument("--rails", type=int, help="ranks of each host")
    parser.add_argument("--rack", type=int, help="hosts in a rack, 0: no racks declared")
    parser.add_argument("--pod", type=int, help="racks in a pod, 0: no pods declared")
    parser.add_argument("--cells", choices=("main", "corners", "all"), help="play the cells of the published figures")
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes for --cells (default %(default)s), 0: one for each processor"
    )
    parser.add_argument("--table", type=Path, help="write what such a run left into docs/isolation.md")
    parser.add_argument(
        "--fleet", type=Path, help="play the fleet of a file, with as many seeds from --seed on as --fleets says"
    )
    parser.add_argument("--save", type=Path, help="write a named fault's fleet to a file, and play nothing")
    parser.add_argument("--planning", action="store_true", help=f"add the cost of planning {LARGEST} hosts")
    parser.add_argument("--bench", type=Path, help="the file for the figures of the bench")
    parser.add_argument("--out", type=Path, help="the file for all figures (--cells: build/isolation.json)")
    options = parser.parse_args(arguments)
    if unknown := [each for each in options.fault.split(",") if each not in NAMED]:
        parser.error(f"--fault: found {', '.join(unknown)}, expected some of {', '.join(NAMED)}")
    for name, of in (("hosts", int), ("noise", float)):
        wanted, given = HEADER[name], getattr(options, name).split(",")
        try:
            setattr(options, name, [of(each) for each in given])
        except ValueError:
            parser.error(f"--{name}: found {', '.join(given)}, expected {wanted.words}, or several with commas")
        if wrong := [each for each in getattr(options, name) if not wanted.holds(each)]:
            parser.error(f"--{name}: found {wrong[0]}, expected {wanted.words}")
    if options.fleets < 1:
        parser.error(f"--fleets: found {options.fleets}, expected 1 or more")
    options.jobs = options.jobs or os.cpu_count() or 1
    return options


def asked(options: argparse.Namespace) -> list[Cell]:
    """Return the cells that the options name."""
    shape = tuple((key, value) for key in ("rails", "rack", "pod") if (value := getattr(options, key)) is not None)
    return [
        Cell(hosts, fault, noise, options.fleets, seed=options.seed, shape=shape)
        for hosts in options.hosts
        for fault in options.fault.split(",")
        for noise in options.noise
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the options say."""
    options = options_of(arguments)
    if options.table:
        try:
            PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), keep(options.table)), encoding="utf-8")
        except (OSError, ValueError) as exc:
            print(exc)
            return 2
        return 0
    if options.save:
        return save(asked(options), options)
    if options.fleet:
        return play_file(options)
    if options.cells:
        cells = [*(main_cells() if options.cells != "corners" else ())]
        cells += corner_cells() if options.cells != "main" else []
        record = Record.read(options.out or ROOT / "build" / "isolation.json", sources_digest())
        broken = play_all(record, cells, options.jobs)
        data = {**record.write(cells), "broken": broken}
    else:
        data = {"cells": play_some(asked(options), options.seconds)}
    if options.planning:
        data["planning"] = planning(LARGEST, options.seed)
    if options.out and not options.cells:
        options.out.parent.mkdir(exist_ok=True, parents=True)
        options.out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return told(data, options)


def told(data: Mapping[str, Any], options: argparse.Namespace) -> int:
    """Print the figures, keep those of the bench, and return whether a target was missed."""
    print(shown(data["cells"]))
    if "planning" in data:
        print(
            "planning {hosts} hosts: {seconds} s for the longest next round, {megabytes} MiB".format(**data["planning"])
        )
    for cell in data["cells"]:
        for text in cell.get("examples", ()):
            print(f"{cell['hosts']} hosts {cell['fault']} {text}")
    wrong = [*missed(data["cells"]), *data.get("broken", ())]
    for text in wrong:
        print(f"MISSED {text}")
    if options.bench:
        write_figures(
            figures(data, wrong, f"isolation_{options.cells}" if options.cells else "isolation"), options.bench
        )
    return int(bool(wrong))


def play_some(cells: Sequence[Cell], seconds: float | None) -> list[dict[str, Any]]:
    """Play cells one after the other; they share the seconds by what a fleet costs, which grows with its pairs."""
    weights = [math.sqrt(cell.hosts) for cell in cells]
    found = []
    with Server() as server:
        for cell, weight in zip(cells, weights, strict=True):
            share = None if seconds is None else seconds * weight / sum(weights)
            tally = play_fleets(server, cell, range(cell.fleets), share)
            found.append({**cell.described(tally), "examples": tally.examples})
    return found


def save(cells: Sequence[Cell], options: argparse.Namespace) -> int:
    """Write the fleet of the only cell and the seed."""
    if len(cells) != 1:
        print(f"--save: found {len(cells)} cells, expected one of --hosts, --fault and --noise each")
        return 2
    fleet = Fleet(cells[0].spec(), options.seed)
    options.save.write_text(written_fleet(fleet.spec, fleet.faults), encoding="utf-8")
    return 0


def play_file(options: argparse.Namespace) -> int:
    """Play the fleet of a file with several seeds, and print what became of whom against what was expected."""
    try:
        spec, faults = read_fleet(options.fleet)
    except (FleetLineError, OSError) as exc:
        print(exc)
        return 2
    tally, became = Tally(), Counter[tuple[str, str, str]]()
    with Server() as server:
        for seed in range(options.seed, options.seed + options.fleets):
            played = play(server, spec, seed, faults=faults)
            tally.add(seed, played)
            for node, its in played.became.items():
                expected = played.expected.get(node, PASSED)
                if expected != PASSED or its != expected:
                    became[node, expected, its] += 1
    print(f"{tally.fleets} campaigns of {options.fleet}: {spec.hosts} hosts, noise {spec.noise:.1%}")
    for (node, expected, its), count in sorted(became.items()):
        print(f"{node:8} expected {expected:16} became {its:16} in {count}")
    cell = {"hosts": spec.hosts, "fault": spec.fault[:18], "noise": spec.noise, "fleets": tally.fleets}
    print(shown([{**cell, **tally.figures()}]))
    return int(bool(tally.failed["wrongly_admitted"] or tally.failed["wrongly_rejected"]))


def figures(data: Mapping[str, Any], wrong: Sequence[str], name: str) -> dict[str, dict[str, Any]]:
    """Return what the bench keeps: how many fleets were played, the targets that they missed, what planning costs."""
    cells = data["cells"]
    found: dict[str, dict[str, Any]] = {
        f"{name}_fleets": {"value": sum(cell["fleets"] for cell in cells), "unit": "fleets"},
        f"{name}_missed": {"value": len(wrong), "unit": "targets"},
    }
    if planned := data.get("planning"):
        size = f"isolation_planning_{planned['hosts']}"
        found[f"{size}_seconds"] = {"value": planned["seconds"], "unit": "s for the longest next round"}
        found[f"{size}_mib"] = {"value": planned["megabytes"], "unit": "MiB"}
    return found


if __name__ == "__main__":
    sys.exit(main())
