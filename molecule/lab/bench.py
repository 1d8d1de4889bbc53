"""Measures the chain on the container lab and writes build/bench.json: {figure: {value, unit}}.

The lab is taken down first, since a demo on hosts that are converged already would measure less than it does; image
and Python packages stay, which is what "warm" means.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import demo  # noqa: E402

BENCH = demo.ROOT / "build" / "bench.json"
MUSTER = "/usr/libexec/muster/muster"


def main() -> int:
    """Measure everything, write what could be measured, and fail if the demo did."""
    os.chdir(demo.ROOT)
    demo.must(demo.call([sys.executable, HERE / "lab.py", "down"]), "lab.py down")
    status = demo.call([sys.executable, HERE / "demo.py", "--second-run"])
    result: dict[str, Any] = json.loads((demo.BUILD / "demo.json").read_text(encoding="utf-8"))
    inventory = json.loads(demo.output_of(["ansible-inventory", "-i", demo.INVENTORY, "--list"]))
    host = demo.site_of(inventory).ending("admitted")[0]
    expect = json.dumps(inventory["_meta"]["hostvars"][host]["muster_expect"])
    figures = {
        **demo_figures(result),
        "node_check_seconds": seconds_on(host, [MUSTER, "examine", "--stage", "preflight", "--node", host], 3, expect),
        "muster_start_seconds": seconds_on(host, [MUSTER, "--version"], 10),
    }
    BENCH.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for name, figure in figures.items():
        print(f"{name:24} {figure['value']:10} {figure['unit']}")
    return status


def demo_figures(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the figures that the demo's own record holds."""
    second = next(step["seconds"] for step in result["steps"] if step["name"] == demo.SECOND_RUN)
    return {
        # The second run of site.yml is an extra of the benchmark.
        "demo_seconds_warm": {"value": round(result["seconds"] - second, 1), "unit": "s"},
        "tasks_per_compute_node": {"value": sum(result["tasks_per_compute_node"].values()), "unit": "tasks"},
        "second_run_changed": {"value": result["second_run_changed"], "unit": "changes"},
    }


def seconds_on(host: str, command: list[str], times: int, given: str = "") -> dict[str, Any]:
    """Return the median time of a command on a lab host; it is timed there, so that ssh costs nothing."""
    script = (
        "import subprocess, sys, time\n"
        "given = sys.stdin.buffer.read()\n"
        f"for _ in range({times}):\n"
        "    began = time.perf_counter()\n"
        f"    done = subprocess.run({command!r}, input=given, stdout=subprocess.DEVNULL)\n"
        "    print(time.perf_counter() - began)\n"
        "    done.check_returncode()\n"
    )
    argv = ["ssh", "-F", str(demo.SSH_CONFIG), "-o", "BatchMode=yes", host, shlex.join(["python3", "-c", script])]
    done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise demo.DemoError(f"{shlex.join(command)} on {host}: {done.stderr.strip()}")
    return {"value": round(statistics.median(float(line) for line in done.stdout.split()), 3), "unit": "s"}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except demo.DemoError as error:
        sys.exit(f"bench: {error}")
