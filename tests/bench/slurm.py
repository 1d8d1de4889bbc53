"""Measures what Slurm costs: files of 12,500 nodes, the role on the lab beside its past, a node more.

The hosts install from an apt repository of their own, so no download is in the seconds. A fleet of 3,000 has three real
hosts; its other nodes are declared and never contacted, or the run would fail.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LAB = Path(__file__).resolve().parents[2] / "molecule" / "lab"
sys.path[:0] = [str(LAB), str(LAB.parents[1] / "collections")]

import demo  # noqa: E402
from ansible_collections.muster.cluster.plugins.lookup.slurm_files import LookupModule  # noqa: E402
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet  # noqa: E402
from lab_tasks import counting, tasks_per_node  # noqa: E402

from tests.figures import Figures, file_of, write_figures  # noqa: E402

ROOT = demo.ROOT
# Ledger and keys are named from here as from the inventories of the scenarios: three directories below the project.
PLACE = ROOT / "build" / "bench_slurm"
VARIABLES = ROOT / "molecule/slurm/inventory/group_vars/all.yml"
CONTROLLER = "ctl"
SUBNET = "10.77.3"
NODES = 12_500
ROLE = "tests/bench/slurm.yml"
# Before modules wrote a host's files and ran its units in one task; the figures are ratios to it.
BEFORE = "3cdc734"
TIMES = 5
FLEET = {
    "plugin": "muster.cluster.fleet",
    "cluster": "bench",
    "hosts": [{"name": CONTROLLER, "role": "controller", "address": "10.1.0.10"}],
    "nodes": [
        {
            "name": f"gpu-[00001-{NODES}]",
            "hardware_class": "dgx_h100",
            "address": "10.1.16.1",
            "pods": {"name": "pod-[01-25]", "nodes_each": 500},
            "racks": {"name": "rack-[0001-1250]", "nodes_each": 10},
        }
    ],
    "fabric": {"kind": "infiniband"},
    "scheduler": {"partitions": [{"name": "batch", "default": True}]},
    "ledger": {"url": "postgresql://ledger/bench", "id": "3d0c5f9e-2f47-4e0c-9f0a-5b8a1c6d7e21"},
}


def main() -> int:
    """Measure everything and write it down."""
    file = file_of(__doc__)
    os.chdir(ROOT)
    write_figures({**rendering_figures(), **lab_figures()}, file)
    return 0


def rendering_figures() -> Figures:
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


def lab_figures() -> Figures:
    """Return what the role costs on a controller and a node, and a node more in a small and in a large fleet."""
    small, large = inventory(3), inventory(3000)
    lab = [sys.executable, LAB / "lab.py", "--inventory", small]
    demo.must(demo.call([*lab, "down"]), "lab.py down")
    demo.must(demo.call([*lab, "up"]), "lab.py up")
    try:
        first, counted = run(small, ROLE)
        second, again = run(small, ROLE)
        if changed := {host: number for host, number in again["changed"].items() if number}:
            raise demo.DemoError(f"the second run of role slurm changed {changed}")
        ratio = second_vs_before(small)
        run(small, "playbooks/ledger_create.yml")
        at_3 = tasks_of_a_node_more(small, "gpu-0002")
        at_3000 = tasks_of_a_node_more(large, "gpu-0003")
    finally:
        demo.must(demo.call([*lab, "down"]), "lab.py down")
    return {
        "slurm_tasks_controller": {"value": tasks(counted, CONTROLLER), "unit": "tasks, handlers among them"},
        "slurm_tasks_compute": {"value": tasks(counted, "gpu-0001"), "unit": "tasks, handlers among them"},
        "slurm_first_seconds": {"value": round(first, 1), "unit": "s"},
        "slurm_second_seconds": {"value": round(second, 1), "unit": "s"},
        **ratio,
        "add_node_tasks_at_3": {"value": at_3, "unit": "tasks on all hosts"},
        "add_node_tasks_at_3000": {"value": at_3000, "unit": "tasks on all hosts"},
    }


def second_vs_before(place: Path) -> Figures:
    """Return the time of a run that changes nothing, in times that of the role at BEFORE; none without that commit."""
    with checkout(BEFORE) as before:
        if before is None:
            print(f"slurm_second_vs_before: left out, as this clone lacks commit {BEFORE}")
            return {}
        (before / ROLE).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / ROLE, before / ROLE)
        # In turns, so that both meet the same machine.
        pairs = [(seconds_of(place, ROOT), seconds_of(place, before)) for _ in range(TIMES)]
    now, then = (statistics.median(each) for each in zip(*pairs, strict=True))
    return {"slurm_second_vs_before": {"value": round(now / then, 2), "unit": f"times the seconds of {BEFORE}"}}


def seconds_of(place: Path, checkout: Path) -> float:
    """Run the role of a checkout to its end; return how long that took. Raises DemoError."""
    began = time.perf_counter()
    argv = ["ansible-playbook", "-i", str(place), ROLE]
    status = subprocess.run(argv, cwd=checkout, env=demo.environment(), check=False).returncode
    demo.must(status, f"{ROLE} in {checkout}")
    return time.perf_counter() - began


@contextmanager
def checkout(commit: str) -> Iterator[Path | None]:
    """Give the tree of an earlier commit for as long as the block runs; None if this clone does not have it."""
    git = ["git", "-C", str(ROOT)]
    if subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], check=False, capture_output=True).returncode:
        yield None
        return
    place = PLACE / commit
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    archive = subprocess.run([*git, "archive", commit], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(place)], check=True, input=archive)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def inventory(nodes: int) -> Path:
    """Write an inventory of a controller and so many nodes, of which the lab has the first three; return its place."""
    place = PLACE / str(nodes)
    shutil.rmtree(place, ignore_errors=True)
    (place / "group_vars").mkdir(parents=True)
    variables = VARIABLES.read_text(encoding="utf-8").replace("10.77.2.0/24", f"{SUBNET}.0/24")
    # The scenario's lab is a second one beside the demo's; here there is only one.
    variables = variables.replace("build/slurm_lab", "build/lab")
    (place / "group_vars/all.yml").write_text(variables, encoding="utf-8")
    declared = {
        **FLEET,
        "hosts": [{"name": CONTROLLER, "role": "controller", "address": f"{SUBNET}.10"}],
        "nodes": [{"name": f"gpu-[0001-{nodes:04}]", "hardware_class": "lab_h100", "address": f"{SUBNET}.21"}],
        "fabric": {"kind": "ethernet", "socket_interface": "eth0"},
        "scheduler": {
            "partitions": [{"name": "batch", "default": True}],
            # As in the scenario slurm, and for its reasons.
            "parameters": {"ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none"},
            "cgroup": {"CgroupPlugin": "cgroup/v1"},
            "node_parameters": {"lab_h100": {"CPUs": 2, "RealMemory": 1000}},
            "ssh_access": "pam_slurm",
        },
        "ledger": {"url": f"sqlite:///{ROOT}/build/lab/bench.sqlite", "id": "8f0a1c3e-6b52-4d36-9a9c-55d8a3f1b7c4"},
        "policy": {
            "stages": ["preflight", "burn_in"],
            "burn_in_profile": "bench",
            "burn_in_profiles": {
                "bench": {
                    "interval_seconds": 6,
                    "steps": [{"limit_seconds": 120, "run": {"dcgm_diag": {"level": 2}}}],
                }
            },
        },
    }
    (place / "bench.fleet.yml").write_text(json.dumps(declared), encoding="utf-8")
    return place


def run(place: Path, playbook: str, *arguments: str) -> tuple[float, dict[str, Any]]:
    """Run a playbook to its end; return how long that took, in seconds, and what it counted. Raises DemoError."""
    counts = PLACE / "tasks.json"
    counts.unlink(missing_ok=True)
    began = time.perf_counter()
    status = demo.call(["ansible-playbook", "-i", place, playbook, *arguments], **counting(counts))
    seconds = time.perf_counter() - began
    demo.must(status, playbook)
    counted: dict[str, Any] = json.loads(counts.read_text(encoding="utf-8"))
    return seconds, counted


def tasks(counted: dict[str, Any], host: str) -> int:
    """Return the tasks evaluated on a host, without what runs once for all."""
    return sum(tasks_per_node(counted, [host]).values())


def tasks_of_a_node_more(place: Path, node: str) -> int:
    """Provision the controller of a fleet, then take one node up; return the tasks that this costs on all hosts."""
    run(place, "playbooks/provision.yml", "--limit", f"{CONTROLLER},localhost")
    _, counted = run(place, "playbooks/site.yml", "-e", f"target={node}")
    if others := set(counted["hosts"]) - {CONTROLLER, node, "localhost"}:
        raise demo.DemoError(f"adding {node} contacted {', '.join(sorted(others))}")
    return sum(sum(steps.values()) for steps in counted["hosts"].values())


if __name__ == "__main__":
    sys.exit(main())
