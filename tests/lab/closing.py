"""Measures how long a node with a fault is open to users: from the fault until Slurm starts no job there.

On the cluster of molecule/slurm, where slurmd runs the health check. A fault comes at a moment of the interval that is
drawn by a seed; the node counts as closed when the controller shows it drained. It is then repaired and given back.

    PYTHONPATH=collections:. python -m tests.lab.closing --samples 102 --bench build/closing.json
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from tests.figures import ROOT, write_figures

SEED = 15
SCENARIO = ROOT / "molecule/slurm"
# A GPU that is gone, one that the driver lost, and a file of sysfs that never answers, which takes the check to its own
# limit (it starts no tool that could hang).
FAULTS: tuple[dict[str, Any], ...] = ({"gpus_missing": ["SXM6"]}, {"gpus_lost": ["SXM2"]}, {})
FILE = "/opt/lab/root/sys/bus/pci/devices/0000:05:00.0/current_link_width"
STUCK = f"mv {FILE} {FILE}.kept && mkfifo {FILE}"
REPAIRED = f"test ! -p {FILE} || mv {FILE}.kept {FILE}"


def share(values: Sequence[float], part: float) -> float:
    """Return the least of the values that is no smaller than ``part`` of them (nearest rank)."""
    return sorted(values)[math.ceil(part * len(values)) - 1]


def closed_after(cluster: ModuleType, node: str, fault: dict[str, Any], after: float) -> float:
    """Return how many seconds a fault is open that comes ``after`` seconds on a node that is open now."""

    def drained() -> bool:
        return "drain" in cluster.node_state(node)

    give_back(cluster, node, drained)
    time.sleep(after)
    # A check that had begun before the repair may have said its word since.
    give_back(cluster, node, drained)
    began = time.monotonic()
    if fault:
        cluster.show(node, **fault)
    else:
        cluster.on(node, STUCK)
    try:
        cluster.wait_for(f"{node} closed for {fault or STUCK}", drained, every=0.1)
        return time.monotonic() - began
    finally:
        # The file first: who reads it waits.
        cluster.on(node, REPAIRED)
        cluster.show(node, **dict.fromkeys(fault, None))


def give_back(cluster: ModuleType, node: str, drained: Callable[[], bool]) -> None:
    """Lift a drain, as an operator does after a repair."""
    if drained():
        cluster.on(cluster.LOGIN, f"scontrol update nodename={node} state=resume")
    cluster.wait_for(f"{node} usable", lambda: cluster.usable(node))


def measured(cluster: ModuleType, samples: int, interval: float) -> list[float]:
    """Return the seconds of all samples; the nodes of the cluster take turns side by side."""

    def of_node(node: str, number: int) -> list[float]:
        draw = random.Random(f"{SEED}/{node}")
        return [
            closed_after(cluster, node, FAULTS[each % len(FAULTS)], draw.uniform(0, interval)) for each in range(number)
        ]

    each = math.ceil(samples / len(cluster.NODES))
    with ThreadPoolExecutor(len(cluster.NODES)) as pool:
        return [seconds for found in pool.map(lambda node: of_node(node, each), cluster.NODES) for seconds in found]


def main() -> int:
    """Build the cluster, measure, take it away."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--samples", type=int, default=102, help="how many faults in all")
    parser.add_argument("--bench", type=Path, help="file for the figure")
    options = parser.parse_args()
    os.environ["MOLECULE_PROJECT_DIRECTORY"] = str(ROOT)
    sys.path.insert(0, str(SCENARIO / "tests"))
    cluster = importlib.import_module("cluster")
    declared = yaml.safe_load((SCENARIO / "inventory/slurm.fleet.yml").read_text(encoding="utf-8"))
    interval = float(declared["scheduler"]["parameters"]["HealthCheckInterval"])
    molecule = str(Path(sys.executable).parent / "molecule")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        subprocess.run([molecule, "converge", "-s", "slurm"], cwd=ROOT, env=environment, check=True)
        found = measured(cluster, options.samples, interval)
    finally:
        subprocess.run([molecule, "destroy", "-s", "slurm"], cwd=ROOT, env=environment, check=False)
    print(" ".join(f"{seconds:.1f}" for seconds in sorted(found)))
    if options.bench:
        unit = f"s, {len(found)} faults on three container hosts, HealthCheckInterval {interval:g} s, seed {SEED}"
        figure = {"value": round(share(found, 0.99), 1), "unit": unit}
        write_figures({"fault_to_closed_seconds_p99": figure}, options.bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
