"""The two example fleets, whole and as data to spoil."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

ROOT = Path(__file__).parents[4]
ROCE = ROOT / "inventory" / "example_roce" / "roce.fleet.yml"
INFINIBAND = ROOT / "inventory" / "example_infiniband" / "infiniband.fleet.yml"


@functools.cache
def fleet(path: Path) -> Fleet:
    return Fleet.load(path)


def data(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def small_roce() -> dict[str, Any]:
    """One pod of four racks, two hosts and one switch in each, four cluster switches above."""
    small = data(ROCE)
    block = small["nodes"][0]
    block |= {"name": "gpu-[1-8]", "pods": {"name": "p1"}, "racks": {"name": "r[1-4]", "nodes_each": 2}}
    block["rails"] |= {"switches": {"name": "tor-[1-4]", "nodes_each": 2, "rails_each": 8}}
    uplinks = {"to": "ctsw-[1-4]", "ports": "Ethernet[17-24]/1", "at": "Ethernet[1-8]/1"}
    small["fabric"]["switches"] = [
        {"name": "tor-[1-4]", "tier": "leaf", "system": "eos", "address": "10.2.0.1", "uplinks": uplinks},
        {"name": "ctsw-[1-4]", "tier": "spine", "system": "eos", "address": "10.2.8.1"},
    ]
    return small
