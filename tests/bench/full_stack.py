"""Measures what a compute node costs for which all is declared: its tasks in one whole run of site.yml.

The demo's nodes have no GPU stack, no tools and no storage tier. Here two nodes have all of them, PyTorch and RoCE.
Packages, a tool and wheels come from the repository of stand-ins of the scenario gpu_stack.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

LAB = Path(__file__).resolve().parents[2] / "molecule" / "lab"
sys.path.insert(0, str(LAB))

import demo  # noqa: E402
import lab  # noqa: E402
from lab_tasks import counting, tasks_per_node  # noqa: E402

from tests.figures import file_of, write_figures  # noqa: E402

INVENTORY = "tests/bench/full_stack"
PLACE = demo.ROOT / "build" / "bench_full_stack"
MOST_TASKS = 60
CONTROLLER, NODES = "ctl", ("gpu-01", "gpu-02")
SERVE = ["systemd-run", "--unit=repository", "python3", "-u", "-m", "http.server", "--directory=/opt/lab", "8080"]


def main() -> int:
    """Run site.yml on fresh hosts, and write what it evaluated on a node; 1 where that is more than it may be.

    Raises DemoError unless all nodes are admitted.
    """
    file = file_of(__doc__)
    os.chdir(demo.ROOT)
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    in_lab("down")
    try:
        start()
        steps = steps_of_a_node()
    finally:
        in_lab("down")
    print("Tasks evaluated per compute node, handlers and skipped ones counted:")
    for step, tasks in sorted(steps.items()):
        print(f"  {tasks:4}  {step}")
    unit, tasks = "tasks with GPU stack, tools, PyTorch, RoCE and storage declared", sum(steps.values())
    write_figures({"tasks_per_compute_node_full": {"value": tasks, "unit": unit}}, file)
    if tasks > MOST_TASKS:
        print(f"found {tasks} tasks, expected at most {MOST_TASKS} (docs/maintaining/principles.md)")
    return int(tasks > MOST_TASKS)


def start() -> None:
    """Start the hosts, the repository on the controller among them, and create the ledger."""
    repository = lab.BUILD / "hosts" / CONTROLLER / "repository"
    demo.must(demo.call([sys.executable, LAB.parent / "gpu_stack" / "repository.py", repository]), "repository.py")
    in_lab("up")
    in_lab("exec", CONTROLLER, *SERVE)
    for node in NODES:
        in_lab("exec", node, "sh", "-c", "mkdir /checkpoints && mount -t tmpfs tmpfs /checkpoints")
    run("ledger_create.yml")


def steps_of_a_node() -> dict[str, int]:
    """Return the tasks of a node by role or play; status 0 of site.yml says that both are admitted."""
    counts = PLACE / "tasks.json"
    run("site.yml", f"--extra-vars=report_directory={PLACE.relative_to(demo.ROOT)}", **counting(counts))
    return tasks_per_node(json.loads(counts.read_text(encoding="utf-8")), NODES)


def in_lab(*words: str) -> None:
    """Have lab.py do something with the hosts of the inventory; raises DemoError."""
    demo.must(demo.call([sys.executable, LAB / "lab.py", f"--inventory={INVENTORY}", *words]), f"lab.py {words[0]}")


def run(playbook: str, *arguments: str, **more: str) -> None:
    """Run one of the project's playbooks; raises DemoError."""
    demo.must(demo.call(["ansible-playbook", "-i", INVENTORY, f"playbooks/{playbook}", *arguments], **more), playbook)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except demo.DemoError as error:
        sys.exit(f"bench_full_stack: {error}")
