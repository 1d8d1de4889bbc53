"""Fleets that tests write as a part of ``muster_fleet``, as the type that the program takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Collectives
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read, read_as
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import read_fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_policy import Policy
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import Scheduler, Services
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_storage import storage_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet, LedgerAddress, Node
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import Rail

from tests.placed import placed
from tests.typed import typed

_POLICY = {
    "stages": ["preflight"],
    "burn_in_profile": "p",
    "burn_in_profiles": {"p": {"steps": [{"seconds": 60}], "interval_seconds": 5}},
    "fresh_hours": {},
    "retest": True,
    "heartbeat_seconds": None,
}
_SCHEDULER = {"partitions": [{"name": "batch", "default": True}]}
# What is of no matter to who judges by a section of collectives.
_COLLECTIVES = {
    "driver": "torch",
    "backend": "nccl",
    "container": None,
    "container_python": "/usr/bin/python3",
    "transport": None,
}


def fleet_of(data: Mapping[str, Any]) -> Fleet:
    """Return the fleet of some keys of ``muster_fleet``. Each section is read; whether they agree is not asked."""
    nodes = tuple(_node(name, node) for name, node in data.get("nodes", {}).items())
    policy = read(Policy, data.get("policy", _POLICY))
    return Fleet(
        cluster=data.get("cluster", "lab"),
        nodes=nodes,
        classes={name: typed(each) for name, each in data.get("classes", {}).items()},
        fabric=read_fabric(data.get("fabric", {"kind": "ethernet"})),
        storage=storage_of(data.get("storage", {})),
        services=Services((data.get("controller", "ctl"),), None, ()),
        scheduler=read(Scheduler, data.get("scheduler", _SCHEDULER)),
        ledger=LedgerAddress(**data.get("ledger", {"url": "sqlite:////nowhere", "id": "none"})),
        policy=policy,
        shipped_policy=policy,
        bases={},
    )


def _node(name: str, data: Mapping[str, Any]) -> Node:
    rails = read_as(tuple[Rail, ...], data.get("rails", ()))
    place = {key: data.get(key) for key in ("hardware_class", "pod", "rack")}
    return Node(name, data.get("role", "compute"), data.get("address", "10.0.0.1"), **place, rails=rails)


def collectives(data: Mapping[str, Any]) -> Collectives:
    """Return the section ``collective`` of a class of which the keys are given by which nodes are judged."""
    return read(Collectives, {**_COLLECTIVES, **data}, "collective")


LAB = Path(__file__).parents[1] / "inventory" / "lab" / "lab.fleet.yml"
LEDGER_ID = "3d0c5f9e-2f47-4e0c-9f0a-5b8a1c6d7e21"


def variables_of(fleet: Fleet, url: str) -> dict[str, Any]:
    """Return ``muster_fleet`` of a fleet with its ledger elsewhere, under LEDGER_ID: data to hand to Ansible."""
    data = {**fleet.variables(), "nodes": fleet.node_variables(), "ledger": {"url": url, "id": LEDGER_ID}}
    plain: dict[str, Any] = json.loads(json.dumps(data))
    return plain


def small_fleet(count: int, **sections: Any) -> Fleet:
    """Return a whole fleet of so many nodes, two in each rack, with other sections of the fleet file."""
    block = {"name": f"gpu-[0001-{count:04}]", "hardware_class": "hgx_h100", "address": "10.1.16.1"}
    places = {"pods": {"name": "pod-1"}, "racks": {"name": f"rack-[0001-{count // 2:04}]", "nodes_each": 2}}
    declared = {
        "plugin": "muster.cluster.fleet",
        "cluster": "lab",
        "hosts": [{"name": "ctl", "role": "controller", "address": "10.1.0.10"}],
        "nodes": [{**block, **places}],
        "fabric": {"kind": "roce", "speed_gbps": 400, "socket_interface": "bond0"},
        "scheduler": _SCHEDULER,
        "ledger": {"url": "sqlite:////nowhere", "id": LEDGER_ID},
    }
    classes = {"hardware_classes": placed(sections.get("hardware_classes", {}))}
    return Fleet.from_data({**declared, **sections, **classes}, "small.fleet.yml")
