"""What hosts showed of their network: where the cables of rails go, and which other interfaces are up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Collected
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import net_devices, nvswitch_nics, rail_names
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, rail_name
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.cables import Cable, block_of, seen_cables
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.node_names import expand

_LOOPBACK = "lo"


@dataclass(frozen=True)
class Network:
    """``cables`` has the cable of each rail by host and rail (``rail0``), None where it is unknown.

    ``block`` is ``switches`` and ``ports`` of the rails of the fleet's nodes, None unless every node was seen and
    patterns give its cables; ``system`` is that of all these switches, None where it is not known or not one.
    ``interfaces`` are up on every host and none of a rail, nor of a NIC that manages NVSwitches.
    """

    cables: Mapping[str, Mapping[str, Cable | None]]
    block: Mapping[str, Any] | None
    system: str | None
    interfaces: tuple[str, ...]


def network_of(hosts: Sequence[Collected], expect: Expectations, nodes: str) -> Network:
    """Return the network of the hosts; ``nodes`` is the pattern of the fleet's nodes, by whose names hosts are told."""
    rails = expect.nic.rails if expect.nic else ()
    addresses = [rail.address for rail in rails]
    rows = {host.host: seen_cables(host.outputs, addresses) for host in hosts}
    names = expand(nodes)
    block = block_of([rows[name] for name in names]) if rails and rows.keys() >= {*names} else None
    systems = {cable.system if cable else None for row in rows.values() for cable in row}
    called = [rail_name(rail.rail) for rail in rails]
    cables = {host: dict(zip(called, row, strict=True)) for host, row in rows.items()}
    up = [_interfaces(host, addresses) for host in hosts]
    return Network(cables, block, systems.pop() if len(systems) == 1 else None, tuple(sorted(set.intersection(*up))))


def _interfaces(host: Collected, rails: Sequence[str]) -> set[str]:
    """Return the interfaces of one host that are up, without loopback and rails; none where they cannot be read."""
    try:
        found = net_devices.parse(host.outputs[net_devices.NAME])
        names = rail_names.parse(host.outputs[rail_names.NAME])
    except (KeyError, Unreadable):
        return set()
    taken = {_LOOPBACK, *(name for at in (*rails, *_managing(host)) for name in names.interfaces.get(at, ()))}
    return {name for name, each in found.items() if each.operstate == "up"} - taken


def _managing(host: Collected) -> list[str]:
    """Return the NICs that manage NVSwitches; none where that was not collected."""
    try:
        found = nvswitch_nics.parse(host.outputs[nvswitch_nics.NAME])
    except (KeyError, Unreadable):
        return []
    return [address for address, manages in found.items() if manages]
