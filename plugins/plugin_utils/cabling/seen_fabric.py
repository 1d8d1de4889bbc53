"""The live fabric in the plan's names, from what the tools printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import Names, named, no_interface
from ansible_collections.muster.cluster.plugins.module_utils.probes.infiniband_neighbours import switch_name
from ansible_collections.muster.cluster.plugins.module_utils.probes.lldp import Neighbour
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.infiniband_tools import (
    LANE_GBPS,
    Errors,
    LinkState,
    PortKey,
    Seen,
    SeenPort,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.live_fabric import LiveFabric, LivePort
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import Plan
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import End


def infiniband(
    plan: Plan,
    topology: Sequence[SeenPort],
    states: Mapping[PortKey, LinkState] | str,
    errors: Errors | str,
) -> LiveFabric:
    """Return the InfiniBand fabric that the tools saw.

    ``states`` and ``errors`` are the reason instead where they could not be read.
    """
    ends: dict[PortKey, End] = {}
    owner: dict[End, PortKey] = {}
    doubtful: dict[End, str] = {}
    unread = [each for each in (states, errors) if isinstance(each, str)]
    for own in (port.own for port in topology):
        end = ends[own.key] = end_of(own, plan)
        if end.name in plan.with_rails and end not in plan.rails:
            doubtful[end] = _no_rail(own, end.name)
        if owner.setdefault(end, own.key) != own.key:
            both = f"0x{owner[end][0]:016x} and 0x{own.guid:016x}"
            doubtful[end] = f"two ports call themselves {plan.called(end)}: GUIDs {both}"
    known = {} if isinstance(states, str) else states
    ports: dict[End, LivePort] = {}
    for port in topology:
        end = ends[port.own.key]
        ports[end] = live = _port(port, known.get(port.own.key), ends)
        state = known.get(port.own.key)
        if state is not None and state.peer != (port.peer.key if port.peer else None) and live.peer is not None:
            doubtful.setdefault(end, f"what {plan.called(end)} reaches changed while the fabric was read")
    if not isinstance(states, str):
        guids = {guid for guid, _ in ends}
        alone = ends.keys() ^ {key for key in known if key[0] in guids}
        if alone:
            guid, number = min(alone)
            unread.append(f"of 0x{guid:016x} port {number} only one of ibnetdiscover and iblinkinfo tells")
    counters: dict[End, Mapping[str, int]] = {}
    if not isinstance(errors, str):
        counters = {ends[key]: counts for key, counts in errors.counters.items() if key in ends}
        nodes = len({(port.own.kind, port.own.node) for port in topology})
        if errors.failures:
            unread.append(f"error counters: {errors.failures} queries failed")
        elif errors.nodes < nodes:
            unread.append(f"error counters: of {errors.nodes} nodes, expected those of {nodes}")
    hosts = frozenset(ends[port.own.key].name for port in topology if port.own.kind == "CA")
    return LiveFabric(ports, counters, None, hosts, True, doubtful, tuple(unread))


def _port(port: SeenPort, state: LinkState | None, ends: Mapping[PortKey, End]) -> LivePort:
    peer = ends.get(port.peer.key) if port.peer else None
    if state is None:
        speed: str | None = port.speed if port.speed in LANE_GBPS else None
        lanes = int(port.width[:-1]) if port.width[:-1].isdigit() else None
        shown = None
    else:
        shown, lanes, speed = state.state, state.lanes, state.speed
    gbps = lanes * LANE_GBPS[speed] if lanes and speed else None
    return LivePort(peer, shown, lanes, gbps, speed or "")


def end_of(seen: Seen, plan: Plan) -> End:
    """Return a port in the plan's names.

    A host that Muster set up describes its HCA as ``gpu-0001 rail0``, any other as it likes: ``sm-1 mlx5_0`` is
    rdma-ndd's ``%h %d``. Port 1 goes by that word alone, as HCAs of one port are the rule.
    """
    if seen.kind != "CA":
        return End(declared_name(switch_name(seen.node), plan), str(seen.port))
    host, _, hca = seen.node.rpartition(" ")
    if not host:
        host, hca = seen.node, f"0x{seen.guid:016x}"
    return End(declared_name(host, plan), hca if seen.port == 1 else f"{hca}/{seen.port}")


def _no_rail(seen: Seen, host: str) -> str:
    """Return why it is not known which rail a port is: what the system calls a device says nothing about that."""
    return (
        f'port {seen.port} of HCA "{seen.node}" is by its node description none of the rails of {host}, expected one '
        f'such as "{host} rail0" (role infiniband sets it)'
    )


def declared_name(name: str, plan: Plan) -> str:
    """Return a host's or switch's name as the fleet has it: without its domain where the fleet leaves that out."""
    short = name.partition(".")[0]
    return short if not plan.known(name) and plan.known(short) else name


class Heard(NamedTuple):
    """What a host said: the network interfaces at each PCI address, and the LLDP neighbours of each interface."""

    interfaces: Mapping[str, Sequence[str]]
    neighbours: Mapping[str, Sequence[Neighbour]]


def ethernet(plan: Plan, heard: Mapping[str, Heard | str]) -> LiveFabric:
    """Return what hosts hear of their switches over LLDP, by host; the reason instead where one could not be asked.

    Only the hosts' own ends are known then. Which interface a rail has tells its PCI address.
    """
    ports: dict[End, LivePort] = {}
    doubtful: dict[End, str] = {}
    for host, said in heard.items():
        names = Names(interfaces={} if isinstance(said, str) else said.interfaces)
        for rail in named(plan.nics.get(host, ()), names):
            end = End(host, rail.name)
            if isinstance(said, str):
                doubtful[end] = said
                continue
            peers = {_peer(each, plan.far.get(end), plan) for each in said.neighbours.get(rail.interface or "", ())}
            if rail.interface is None:
                doubtful[end] = f"{host}: {no_interface(rail, names)}"
            elif len(peers) != 1:
                shown = ", ".join(sorted(map(plan.called, peers))) or "no neighbour"
                doubtful[end] = f"{host}: {rail} hears {shown} over LLDP at {rail.interface}, expected one neighbour"
            else:
                ports[end] = LivePort(peers.pop())
    return LiveFabric(ports, {}, frozenset(heard.keys() & plan.nics.keys()), frozenset(heard), False, doubtful)


def _peer(neighbour: Neighbour, planned: End | None, plan: Plan) -> End:
    """Return the far end; of the names of its port the planned one, else the first."""
    name = declared_name(neighbour.system, plan)
    places = [End(name, port) for port in neighbour.ports]
    declared = [place for place in places if place == planned] or [place for place in places if place in plan.far]
    return (declared or places)[0]
