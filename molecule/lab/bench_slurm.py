"""Measures how long Slurm's files of 12,500 nodes take, and how large they are; adds to build/bench.json."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections")]

from ansible_collections.muster.cluster.plugins.lookup.slurm_files import LookupModule  # noqa: E402
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import Fleet  # noqa: E402

BENCH = ROOT / "build" / "bench.json"
NODES = 12_500
FLEET = {
    "plugin": "muster.cluster.fleet",
    "cluster": "bench",
    "hosts": [{"name": "ctl", "role": "controller", "address": "10.1.0.10"}],
    "nodes": [
        {
            "name": f"gpu-[00001-{NODES}]",
            "hardware_class": "hgx_h100",
            "address": "10.1.16.1",
            "pods": {"name": "pod-[01-25]", "nodes_each": 500},
            "racks": {"name": "rack-[0001-1250]", "nodes_each": 10},
            "rails": {"devices": "mlx5_[0-7]"},
        }
    ],
    "fabric": {"kind": "infiniband"},
    "scheduler": {"partitions": [{"name": "batch", "default": True}]},
    "ledger": {"url": "postgresql://ledger/bench", "id": "3d0c5f9e-2f47-4e0c-9f0a-5b8a1c6d7e21"},
}


def main() -> int:
    """Measure and write it down."""
    figures = rendering_figures()
    BENCH.parent.mkdir(exist_ok=True)
    # Others measure too, in whatever order.
    others = json.loads(BENCH.read_text(encoding="utf-8")) if BENCH.exists() else {}
    BENCH.write_text(json.dumps({**others, **figures}, indent=2) + "\n", encoding="utf-8")
    for figure, measured in figures.items():
        print(f"{figure:24} {measured['value']:10} {measured['unit']}")
    return 0


def rendering_figures() -> dict[str, dict[str, Any]]:
    """Return what it costs to render the variable ``muster_fleet`` of the whole fleet."""
    seconds = []
    for _ in range(3):
        # Anew each time, as every run of a playbook has it: the nodes are made into variables when they are asked for.
        fleet = Fleet.from_data(FLEET, "bench.fleet.yml")
        began = time.perf_counter()
        (files,) = LookupModule().run([{**fleet.variables(), "nodes": fleet.node_variables()}])
        seconds.append(time.perf_counter() - began)
    return {
        "slurm_conf_12500_seconds": {"value": round(statistics.median(seconds), 2), "unit": "s"},
        "slurm_conf_12500_kib": {"value": round(sum(len(file["content"]) for file in files) / 1024, 1), "unit": "KiB"},
    }


if __name__ == "__main__":
    sys.exit(main())
