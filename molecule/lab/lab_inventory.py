"""What an inventory of the labs says, with all that its fleet file leaves to be filled in when it is used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import SUFFIXES, Fleet  # noqa: E402


class InventoryError(Exception):
    """An inventory that cannot be read; the text is what ansible-inventory said."""


def read_inventory(inventory: str) -> dict[str, Any]:
    """Return what ``ansible-inventory --list`` prints, its templates of the fleet replaced by what they stand for."""
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "-i", inventory, "--list"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InventoryError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
    listed: dict[str, Any] = json.loads(done.stdout)
    for path in sorted((ROOT / inventory).iterdir()):
        if path.name.endswith(SUFFIXES):
            _fill_in(listed["_meta"]["hostvars"], Fleet.load(path))
    return listed


def _fill_in(hosts: dict[str, dict[str, Any]], fleet: Fleet) -> None:
    variables = {**fleet.variables(), "nodes": fleet.node_variables()}
    for node in fleet.nodes:
        hosts[node.name]["muster_fleet"] = variables
        if node.hardware_class:
            hosts[node.name]["muster_expect"] = fleet.variables()["classes"][node.hardware_class]
