"""Measures what PARTS name, one after the other, and writes build/bench.json.

    PYTHONPATH=collections:. python -m tests.bench           # make bench: all of it anew, in a quarter of an hour
    PYTHONPATH=collections:. python -m tests.bench --full    # make bench-full: hours; can be interrupted
    PYTHONPATH=collections:. python -m tests.bench chain     # some parts of it

Each part writes build/bench/PART.json: its figures with seed, commit and status. A part that fails stops none of the
others; its figures have no value, it is named at the end, and the status is 1. With --full a part that was measured on
this commit is not run again, unless files differ from the commit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.figures import BENCH, ROOT, add_figures, commit, read_figures
from tests.fuzz.__main__ import SEED as FUZZ_SEED
from tests.isolation.cells import SEED
from tests.lab.closing import SEED as CLOSING_SEED
from tests.lab.kills import SEED as KILL_SEED

PLACE = ROOT / "build" / "bench"


@dataclass(frozen=True)
class Part:
    """One process that measures ``figures``; ``argv`` follows `python -m`, `--bench FILE` comes behind."""

    name: str
    argv: tuple[str, ...]
    figures: tuple[str, ...]
    seed: int | None = None

    @property
    def record(self) -> Path:
        return PLACE / f"{self.name}.json"


PARTS = (
    Part(
        "chain",
        ("tests.bench.chain",),
        (
            *("demo_seconds_warm", "tasks_per_compute_node", "roce_tasks_per_node", "second_run_changed"),
            *("static_check_seconds", "static_check_share", "static_check_mib", "health_check_seconds"),
            *("prolog_seconds", "node_check_seconds", "muster_start_seconds"),
        ),
    ),
    Part("full_stack", ("tests.bench.full_stack",), ("tasks_per_compute_node_full",)),
    Part(
        "fabric",
        ("tests.bench.fabric",),
        (
            "ib_compare_512x8_seconds",
            "ib_compare_512x8_mib",
            "inventory_3072_seconds",
            "inventory_3072_yaml_over_muster",
        ),
    ),
    Part(
        "slurm",
        ("tests.bench.slurm",),
        (
            *("slurm_conf_12500_seconds", "slurm_conf_12500_kib", "slurm_tasks_controller", "slurm_tasks_compute"),
            *("slurm_first_seconds", "slurm_second_seconds", "add_node_tasks_at_3", "add_node_tasks_at_3000"),
        ),
    ),
    Part(
        "storage",
        ("tests.bench.storage",),
        ("storage_overhead_seconds", "storage_tasks_per_node", "storage_write_muster_over_fio"),
    ),
    Part(
        "architecture",
        ("tests.architecture.figures",),
        (
            *("folder_cycles", "lines_of_code", "duplicated_blocks", "zipapp_kib"),
            *("module_payload_kb_median", "module_payload_beyond_ansible_kb_median"),
            *("new_check_files_touched", "new_check_files_generated"),
        ),
    ),
    Part("admission", ("tests.bench.admission",), ("admit_3000_seconds",)),
    Part(
        "recorded",
        ("tests.recorded",),
        (
            *("recorded_covered", "recorded_right", "recorded_sick_passed"),
            *("healthy_rejected_first_try", "healthy_hosts", "healthy_rejected_upper_bound"),
            *("healthy_outputs", "healthy_outputs_rejected"),
        ),
    ),
    Part("contracts", ("tests.bench.contracts",), ("argv_contracts", "argv_unverified")),
    Part("draft", ("tests.bench.draft",), ("draft_seconds", "draft_lines_typed", "recorded_hosts_drafted")),
    Part("meaning", ("tests.meaning",), ("meaning_cases", "meaning_wrong")),
    Part("fuzz", ("tests.fuzz",), ("fuzz_cases", "fuzz_false_pass", "fuzz_raised"), FUZZ_SEED),
    Part("scale", ("tests.isolation.scale",), ("scale_3072_seconds", "scale_3072_peak_mib")),
    Part(
        "planning",
        ("tests.isolation.planning_cost",),
        ("isolation_232_speedup", "isolation_4096_json_mib", "isolation_half_slow_464_seconds"),
    ),
    Part(
        "isolation",
        ("tests.isolation", "--hosts=8,32,232", "--noise=0.01", "--seconds=60", "--planning"),
        ("isolation_fleets", "isolation_missed", "isolation_planning_4096_seconds", "isolation_planning_4096_mib"),
        SEED,
    ),
)


def _cells(which: str) -> Part:
    argv = ("tests.isolation", f"--cells={which}", "--jobs=0")
    return Part(f"isolation_{which}", argv, (f"isolation_{which}_fleets", f"isolation_{which}_missed"), SEED)


FULL = (
    Part("fuzz_million", ("tests.fuzz", "1000000"), ("fuzz_cases", "fuzz_false_pass", "fuzz_raised"), FUZZ_SEED),
    # Killed and run again for hours; the log of those that were tried goes on in the next run.
    Part("kills", ("tests.lab.kills",), ("kills", "kills_wrong_open", "kills_wrong_end"), KILL_SEED),
    Part("closing", ("tests.lab.closing",), ("fault_to_closed_seconds_p99",), CLOSING_SEED),
    # These go on where they were interrupted by themselves, whatever the commit: see tests/isolation/cells.py.
    _cells("main"),
    _cells("corners"),
)


def finished(part: Part, now: str) -> bool:
    """Say whether a part was measured on this very commit; one that missed its target was, and misses it again."""
    record = read_figures(part.record)
    if now.endswith("+") or record.get("commit") != now:
        return False
    return all(record["figures"].get(name, {}).get("value") is not None for name in part.figures)


def measure(part: Part, command: str, now: str) -> dict[str, Any]:
    """Run one part, write its record and return it."""
    written = part.record.with_suffix(".figures")
    written.unlink(missing_ok=True)
    print(f"==> {part.name}", flush=True)
    began = time.monotonic()
    argv = [sys.executable, "-m", *part.argv, f"--bench={written}"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'collections'}:{ROOT}"}
    status = subprocess.run(argv, cwd=ROOT, env=environment, check=False).returncode
    measured = read_figures(written)
    written.unlink(missing_ok=True)
    missing = [name for name in part.figures if name not in measured]
    said = f"part {part.name} ended with status {status}" if status else "not measured"
    record = {
        "commit": now,
        "of": command,
        "seed": part.seed,
        "status": status or int(bool(missing)),
        "seconds": round(time.monotonic() - began, 1),
        "figures": {**measured, **{name: {"value": None, "unit": said} for name in missing}},
    }
    part.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return record


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the parts; the status is 1 if one failed or left a figure out."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="names of parts; all of them without one")
    parser.add_argument("--full", action="store_true", help="what takes hours, part by part")
    options = parser.parse_args(arguments)
    parts = {part.name: part for part in (FULL if options.full else PARTS)}
    if unknown := [name for name in options.parts if name not in parts]:
        parser.error(f"no part {', '.join(unknown)}, expected {', '.join(parts)}")
    command, now = ("make bench-full" if options.full else "make bench"), commit()
    PLACE.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.parts or parts:
        part = parts[name]
        if options.full and finished(part, now):
            print(f"==> {name}: finished on {now}")
            record = read_figures(part.record)
        else:
            record = measure(part, command, now)
        add_figures({figure: {**given, "of": command} for figure, given in record["figures"].items()}, BENCH)
        failed += [name] if record["status"] else []
    print(f"\nFigures of {now} in {BENCH.relative_to(ROOT)}:")
    for figure, given in read_figures(BENCH).items():
        if given["commit"] == now:
            print(f"{figure:40} {given['value']!s:>12}  {given['unit']} ({given['of']})")
    for name in failed:
        print(f"FAILED {name}, see {parts[name].record.relative_to(ROOT)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
