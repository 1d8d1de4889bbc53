"""A small fleet in the words of each system, whose leaf switches have as many ports as a test wants."""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_plan import SwitchPlan, plans_of

from ..fabric.examples import small_roce

# Host ports, uplinks and the ports above, for hosts of eight rails.
PORTS = {
    "eos": ("Ethernet[1-{hosts}]/1", "Ethernet[{first}-{last}]/1"),
    "cumulus": ("swp[1-{hosts}]", "swp[{first}-{last}]"),
    "sonic": ("Ethernet[0-{host_lane}:4]", "Ethernet[{first_lane}-{last_lane}:4]"),
}
# No pair is a default of any system, so that a switch has them only if somebody said so.
QOS = {
    "data": {"dscp": 10, "priority": 3, "lossless": True},
    "control": {"dscp": 20, "priority": 5, "lossless": True},
    "cnp": {"dscp": 50, "priority": 7, "lossless": False},
}


def declared(system: str, hosts: int = 4, **fabric: Any) -> dict[str, Any]:
    """Return a fleet of two leaves with ``hosts`` hosts on each, and as many uplinks as host ports."""
    data = small_roce()
    ports = 8 * hosts
    low, high = (
        text.format(
            hosts=ports,
            first=ports + 1,
            last=2 * ports,
            host_lane=4 * (ports - 1),
            first_lane=4 * ports,
            last_lane=4 * (2 * ports - 1),
        )
        for text in PORTS[system]
    )
    block = data["nodes"][0]
    block |= {"name": f"gpu-[1-{2 * hosts}]", "racks": {"name": "r[1-2]", "nodes_each": hosts}}
    block["rails"] |= {"switches": {"name": "tor-[1-2]", "nodes_each": hosts, "rails_each": 8}, "ports": low}
    at = PORTS[system][0].format(hosts=4 * hosts, host_lane=4 * (4 * hosts - 1))
    data["fabric"] |= {"qos": QOS, "routing": "ecmp", **fabric}
    data["fabric"]["switches"] = [
        {
            "name": "tor-[1-2]",
            "tier": "leaf",
            "system": system,
            "address": "127.0.0.11",
            "uplinks": {"to": "ctsw-[1-4]", "ports": high, "at": at},
        },
        {"name": "ctsw-[1-4]", "tier": "spine", "system": system},
    ]
    return data


def fleet_of(system: str, hosts: int = 4, **fabric: Any) -> Fleet:
    """Return the checked fleet."""
    return Fleet.from_data(declared(system, hosts, **fabric), "site.fleet.yml")


def leaf_of(fleet: Fleet) -> SwitchPlan:
    """Return what the first leaf has to be."""
    return plans_of(fleet)["tor-1"]
