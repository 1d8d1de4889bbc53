"""Print what Ansible sends for each module of the collection that runs on nodes, and for its own ping, in bytes: JSON.

A process of its own: Ansible finds no collection that was imported before it was told where collections are.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLLECTIONS = str(ROOT / "collections")
os.environ["ANSIBLE_COLLECTIONS_PATH"] = COLLECTIONS

from ansible.executor.module_common import modify_module  # noqa: E402
from ansible.parsing.dataloader import DataLoader  # noqa: E402
from ansible.plugins.loader import init_plugin_loader, module_loader  # noqa: E402
from ansible.template import Templar  # noqa: E402

PING = "ansible.builtin.ping"


def modules() -> list[str]:
    """Return the modules that run on nodes: those that are not the documentation of an action."""
    actions = {path.stem for path in (ROOT / "plugins" / "action").glob("*.py")}
    return sorted({path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")} - actions)


def payload_bytes(module: str) -> int:
    """Return the size of what Ansible sends for a module, Ansible's own part included."""
    found = module_loader.find_plugin_with_context(module)
    built = modify_module(
        module_name=found.resolved_fqcn,
        module_path=found.plugin_resolved_path,
        module_args={},
        templar=Templar(loader=DataLoader()),
        task_vars={"ansible_python_interpreter": "/usr/bin/python3"},
        module_compression="ZIP_DEFLATED",
    )
    return len(built.b_module_data)


if __name__ == "__main__":
    init_plugin_loader([COLLECTIONS])
    print(json.dumps({name: payload_bytes(name) for name in (PING, *(f"muster.cluster.{each}" for each in modules()))}))
