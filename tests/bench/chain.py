"""Measures the chain on the container lab.

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

LAB = Path(__file__).resolve().parents[2] / "molecule" / "lab"
sys.path.insert(0, str(LAB))

import demo  # noqa: E402

from tests.figures import file_of, write_figures  # noqa: E402

MUSTER = "/usr/libexec/muster/muster"
PROLOG = ["env", "SLURM_JOB_ID=1", "SLURM_JOB_UID=65533", MUSTER, "prolog", "--expect", "/etc/muster/expect.json"]
STATIC = ("examine", "--stage", "burn_in", "--no-store", "--node")


def main() -> int:
    """Measure everything, write what could be measured, and fail if the demo did."""
    file = file_of(__doc__)
    os.chdir(demo.ROOT)
    demo.must(demo.call([sys.executable, LAB / "lab.py", "down"]), "lab.py down")
    status = demo.call([sys.executable, LAB / "demo.py", "--second-run"])
    result: dict[str, Any] = json.loads((demo.BUILD / "demo.json").read_text(encoding="utf-8"))
    inventory = demo.read_inventory(demo.INVENTORY)
    host = demo.site_of(inventory).ending("admitted")[0]
    expect = json.dumps(inventory["_meta"]["hostvars"][host]["muster_expect"])
    figures = {
        **demo_figures(result),
        **static_figures(host, expect),
        "health_check_seconds": seconds_on(host, [MUSTER, "health", "--expect", "/etc/muster/expect.json"], 5),
        "prolog_seconds": seconds_on(host, PROLOG, 5),
        "node_check_seconds": seconds_on(host, [MUSTER, "examine", "--stage", "preflight", "--node", host], 3, expect),
        "muster_start_seconds": seconds_on(host, [MUSTER, "--version"], 10),
    }
    write_figures(figures, file)
    return status


def demo_figures(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the figures that the demo's own record holds."""
    second = next(step["seconds"] for step in result["steps"] if step["name"] == demo.SECOND_RUN)
    tasks = result["tasks_per_compute_node"]
    return {
        # The second run of site.yml is an extra of the benchmark.
        "demo_seconds_warm": {"value": round(result["seconds"] - second, 1), "unit": "s"},
        "tasks_per_compute_node": {"value": sum(tasks.values()), "unit": "tasks"},
        "roce_tasks_per_node": {"value": tasks["rdma"] + tasks["roce"], "unit": "tasks of roles rdma and roce"},
        "second_run_changed": {"value": result["second_run_changed"], "unit": "changes"},
    }


def static_figures(host: str, expect: str) -> dict[str, dict[str, Any]]:
    """Return what the whole static examination costs on a lab host beyond its tools, as medians, and its memory."""
    script = (
        "import json, os, subprocess, sys, time\n"
        "given = sys.stdin.buffer.read()\n"
        "for _ in range(3):\n"
        "    began = time.perf_counter()\n"
        f"    muster = subprocess.Popen({[MUSTER, *STATIC, host]!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "    muster.stdin.write(given)\n"
        "    muster.stdin.close()\n"
        "    evidence = json.load(muster.stdout)\n"
        "    _, status, usage = os.wait4(muster.pid, 0)\n"
        "    assert status == 0, status\n"
        "    seconds = time.perf_counter() - began\n"
        "    print(seconds, seconds - evidence['detail']['tool_seconds'], usage.ru_maxrss / 1024)\n"
    )
    rows = [[float(number) for number in line.split()] for line in output_on(host, ["python3", "-c", script], expect)]
    whole, own, memory = (statistics.median(column) for column in zip(*rows, strict=True))
    return {
        "static_check_seconds": {"value": round(own, 3), "unit": "s beyond the tools' own time"},
        "static_check_share": {"value": round(own / whole, 3), "unit": "of the examination's whole time"},
        # The largest of the process and of the tools it waited for.
        "static_check_mib": {"value": round(memory, 1), "unit": "MiB"},
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
    lines = output_on(host, ["python3", "-c", script], given)
    return {"value": round(statistics.median(float(line) for line in lines), 3), "unit": "s"}


def output_on(host: str, command: list[str], given: str) -> list[str]:
    """Return the lines that a command prints on a lab host; raises DemoError."""
    argv = ["ssh", "-F", str(demo.SSH_CONFIG), "-o", "BatchMode=yes", host, shlex.join(command)]
    done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise demo.DemoError(f"measuring on {host}: {done.stderr.strip()}")
    return done.stdout.splitlines()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except demo.DemoError as error:
        sys.exit(f"bench: {error}")
