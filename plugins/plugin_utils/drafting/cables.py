"""The cables of hosts' rails, as hosts hear of their switches, and the patterns of a fleet's block that give them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.host_lists import in_order
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import Names
from ansible_collections.muster.cluster.plugins.module_utils.probes import infiniband_neighbours, lldp, rail_names
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError, read
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.name_pattern import pattern_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import BlockRails, places_of_block

_Parsed = TypeVar("_Parsed")
_INTERFACE = re.compile(r"Ethernet[0-9/]+")
# How switches describe their software, and what a fleet calls it: recorded of EOS, SONiC's and NVIDIA's documentation.
_SYSTEMS = (("Arista Networks EOS", "eos"), ("SONiC Software", "sonic"), ("Cumulus Linux", "cumulus"))


class Cable(NamedTuple):
    """The far end of a rail's cable, and the system of that switch as a fleet declares it (None: not known)."""

    switch: str
    port: str
    system: str | None = None


def seen_cables(outputs: Mapping[str, Output], rails: Sequence[str]) -> list[Cable | None]:
    """Return the cable of each rail of one host; ``rails`` are PCI addresses in the order of the rails.

    ``outputs`` are those of the probes ``rail_names``, ``lldp`` and ``infiniband_neighbours``. Of the names that a port
    has, that of an interface is taken (SONiC tells an alias first), else the first. None stands for a rail of which no
    neighbour is known, or more than one.
    """
    names = _parsed(outputs.get(rail_names.NAME), rail_names.parse) or Names()
    by_interface = _parsed(outputs.get(lldp.NAME), lldp.parse) or {}
    by_device = _parsed(outputs.get(infiniband_neighbours.NAME), infiniband_neighbours.parse) or {}
    cables: list[Cable | None] = []
    for address in rails:
        interfaces, devices = names.interfaces.get(address, ()), names.devices.get(address, ())
        ends = {_ethernet(each) for interface in interfaces for each in by_interface.get(interface, ())}
        ends |= {
            Cable(by_device[each].system, by_device[each].ports[0], "quantum") for each in devices if each in by_device
        }
        cables.append(ends.pop() if len(ends) == 1 else None)
    return cables


def _ethernet(neighbour: lldp.Neighbour) -> Cable:
    port = next(filter(_INTERFACE.fullmatch, neighbour.ports), neighbour.ports[0])
    system = next((system for begin, system in _SYSTEMS if neighbour.software.startswith(begin)), None)
    return Cable(neighbour.system, port, system)


def _parsed(output: Output | None, parse: Callable[[Output], _Parsed]) -> _Parsed | None:
    """Return what a probe gave, None where it was not run or cannot be read."""
    try:
        return None if output is None else parse(output)
    except Unreadable:
        return None


def block_of(cables: Sequence[Sequence[Cable | None]]) -> dict[str, Any] | None:
    """Return ``switches`` and ``ports`` of the ``rails`` of a fleet's block that give exactly these cables.

    ``cables`` has one row for each node in the order of the fleet, with one cable for each rail. None is given where a
    cable is not known or no patterns give them: names that differ in more than numbers, racks of different sizes, two
    cables in one port, switches that do not follow each other in the order of nodes and rails.
    """
    rails = len(cables[0]) if cables else 0
    ends = [(cable.switch, cable.port) for row in cables for cable in row if cable is not None]
    if not rails or {len(row) for row in cables} != {rails} or len(set(ends)) < len(cables) * rails:
        return None
    # A port has one cable, so that what shares the first switch tells the sizes.
    first = ends[0][0]
    rails_each = sum(ends[rail][0] == first for rail in range(rails))
    nodes_each = sum(ends[start][0] == first for start in range(0, len(ends), rails))
    names = list(dict.fromkeys(switch for switch, _ in ends))
    # Cables that are exchanged alike on every node would become the plan.
    if names != in_order(names):
        return None
    switches = pattern_of(names)
    ports = pattern_of([port for switch, port in ends if switch == first])
    data = {"switches": {"name": switches, "nodes_each": nodes_each, "rails_each": rails_each}, "ports": ports}
    try:
        given = places_of_block(read(BlockRails, data), len(cables), rails)
    except ReadError:
        return None
    return data if given == ends else None
