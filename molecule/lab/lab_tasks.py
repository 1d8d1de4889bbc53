"""How many tasks a playbook evaluates on each host, counted by the callback plugin in tests/callback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PLUGINS = Path(__file__).resolve().parents[2] / "tests" / "callback"
# What the callback calls tasks with run_once.
ONCE = "once for all hosts"


def counting(file: Path) -> dict[str, str]:
    """Return the variables of the environment with which ansible-playbook writes its counts to a file."""
    return {
        "ANSIBLE_CALLBACK_PLUGINS": str(PLUGINS),
        "ANSIBLE_CALLBACKS_ENABLED": "task_count",
        "MUSTER_TASK_COUNT_FILE": str(file),
    }


def tasks_per_node(counted: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, int]:
    """Return the most tasks evaluated on any of the nodes in each role or play, without what runs once for all."""
    steps: dict[str, int] = {}
    for node in nodes:
        for step, tasks in counted["hosts"].get(node, {}).items():
            steps[step] = max(steps.get(step, 0), tasks)
    steps.pop(ONCE, None)
    return steps
