"""Measures the fabric's comparison at 512 hosts x 8 rails and the inventory of 3,072 hosts.

The comparison gets what the tools printed of the simulated fabric, and runs alone in a process of its own. The plain
YAML inventory has the same hosts, groups and variables as the fleet file gives, and is timed in the same run.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "molecule" / "lab"), str(ROOT / "collections")]

import ibsim  # noqa: E402
import yaml  # noqa: E402
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cable_faults import compare  # noqa: E402
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import plan_of  # noqa: E402
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.task_results import infiniband_of  # noqa: E402
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet  # noqa: E402

from tests.figures import file_of, write_figures  # noqa: E402

FABRIC = ROOT / "molecule/infiniband/inventory/infiniband.fleet.yml"
FLEET = ROOT / "inventory/example_roce/roce.fleet.yml"
TOOLS = {
    "ibnetdiscover": ["ibnetdiscover", "-p"],
    "iblinkinfo": ["iblinkinfo", "-l"],
    "ibqueryerrors": ["ibqueryerrors", "--threshold-file", "/dev/null"],
}


def main() -> int:
    """Measure everything and write it down."""
    file = file_of(__doc__)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        figures = {**comparison_figures(directory), **inventory_figures(directory)}
    write_figures(figures, file)
    return 0


def comparison_figures(directory: Path) -> dict[str, dict[str, Any]]:
    """Return what parsing and comparing the outputs of a sound fabric of 512 x 8 costs."""
    ibsim.install()
    with ibsim.Simulator(directory / "fabric") as fabric:
        fabric.start(ibsim.net_of_fleet(str(FABRIC)))
        results = {}
        for name, argv in TOOLS.items():
            done = fabric.run(argv)
            results[name] = {"rc": done.returncode, "stdout": done.stdout}
    (directory / "results.json").write_text(json.dumps(results), encoding="utf-8")
    script = [sys.executable, "-m", "tests.bench.fabric", "--compare", str(directory / "results.json")]
    runs = [
        json.loads(subprocess.run(script, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    seconds = statistics.median(run["seconds"] for run in runs)
    return {
        "ib_compare_512x8_seconds": {"value": round(seconds, 2), "unit": "s"},
        "ib_compare_512x8_mib": {"value": round(max(run["mib"] for run in runs), 1), "unit": "MiB"},
    }


def compare_saved(file: str) -> None:
    """Compare saved outputs with the plan, and print seconds and the largest memory of this process."""
    results = json.loads(Path(file).read_text(encoding="utf-8"))
    fleet = Fleet.load(str(FABRIC))
    began = time.perf_counter()
    plan = plan_of(fleet)
    comparison = compare(plan, infiniband_of(plan, results))
    seconds = time.perf_counter() - began
    if comparison.verdict != "pass":
        raise SystemExit(f"the sound fabric is {comparison.verdict}: {comparison.to_dict()}")
    print(json.dumps({"seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def inventory_figures(directory: Path) -> dict[str, dict[str, Any]]:
    """Return what listing 3,072 hosts costs, and how much faster than from plain YAML that is."""
    plain = directory / "plain.yml"
    export = subprocess.run(listing(FLEET, "--export"), env=environment(), check=True, capture_output=True, text=True)
    plain.write_text(yaml.dump(plain_inventory(json.loads(export.stdout)), Dumper=yaml.CSafeDumper), encoding="utf-8")
    ours = statistics.median(seconds_of(listing(FLEET)) for _ in range(3))
    theirs = seconds_of(listing(plain))
    return {
        "inventory_3072_seconds": {"value": round(ours, 2), "unit": "s"},
        "inventory_3072_yaml_over_muster": {"value": round(theirs / ours, 2), "unit": "times, in seconds"},
    }


def plain_inventory(listed: dict[str, Any]) -> dict[str, Any]:
    """Return the YAML inventory of the hosts, groups and variables that ``ansible-inventory --export`` lists."""
    variables = listed.pop("_meta")["hostvars"]
    top = listed.pop("all")
    groups = {
        name: {"hosts": dict.fromkeys(group.get("hosts", [])), **({"vars": group["vars"]} if "vars" in group else {})}
        for name, group in listed.items()
    }
    return {"all": {"hosts": variables, "vars": top.get("vars", {}), "children": groups}}


def listing(inventory: Path, *options: str) -> list[str]:
    """Return the command that lists an inventory."""
    return [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(inventory), "--list", *options]


def environment() -> dict[str, str]:
    """Return the environment in which both inventories are read."""
    return {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}


def seconds_of(command: list[str]) -> float:
    """Return the seconds that a command takes."""
    began = time.perf_counter()
    subprocess.run(command, env=environment(), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    if sys.argv[1] == "--compare":
        compare_saved(sys.argv[2])
    else:
        sys.exit(main())
