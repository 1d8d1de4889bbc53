"""What simulated RoCE tools keep of a port's settings, beside the host's state: a tool sets, another one reads."""

from __future__ import annotations

import json
import os
from typing import Any

import lab_tool

_KEPT = lab_tool.PLACE / "ports.json"
# After the driver was loaded, of a firmware that nobody configured.
FRESH: dict[str, Any] = {
    "dcbx": "Firmware controlled",
    "trust": "pcp",
    "dscp": {},
    "pfc": [0] * 8,
    "of_priority": [0] * 8,
    "sizes": [130944, 130944, 0, 0, 0, 0, 0, 0],
    "rings": {"rx": 1024, "tx": 1024},
    "tos": 0,
}


def load(state: dict[str, Any], key: str, value: str) -> tuple[str, dict[str, Any]] | None:
    """Return the rail whose ``key`` (device, interface) is ``value`` and what was set of it, None where none is."""
    nic = next((nic for nic in state["nics"] if nic[key] == value), None)
    if nic is None or nic["rail"] in state["nics_missing"]:
        return None
    rail = nic["rail"]
    kept = json.loads(_KEPT.read_text(encoding="utf-8")) if _KEPT.exists() else {}
    return rail, {**FRESH, **kept.get(rail, {})}


def save(rail: str, port: dict[str, Any]) -> None:
    """Keep what a port was set to."""
    kept = json.loads(_KEPT.read_text(encoding="utf-8")) if _KEPT.exists() else {}
    unfinished = _KEPT.with_name(f"{_KEPT.name}.{os.getpid()}")
    unfinished.write_text(json.dumps({**kept, rail: port}), encoding="utf-8")
    unfinished.rename(_KEPT)


def ignores(state: dict[str, Any], rail: str, setting: str) -> bool:
    """Return whether the rail takes the setting and forgets it."""
    return setting in state["roce_ignores"].get(rail, ())
