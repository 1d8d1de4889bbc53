"""The rails of nodes: devices, addresses, and the switch port that each is plugged into, from a block's patterns."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.declaration import Section
from ansible_collections.muster.cluster.plugins.plugin_utils.fabric.declared import Fabric

_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]*")
RAIL_KEYS = ("rail", "device", "address", "gateway", "switch", "port")
_EXAMPLE = "the first node's address on each rail, such as 172.[16-23].0.1/16"

Place = tuple[str, str]


@dataclass(frozen=True)
class Rail:
    """One NIC of a node on its rail's network.

    ``address`` has its prefix length; ``gateway`` leads out of the rail's network; ``switch`` and ``port`` are where
    its cable goes. Each is None where the rail has none or nothing is declared.
    """

    rail: int
    device: str
    address: str | None = None
    gateway: str | None = None
    switch: str | None = None
    port: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the rail as it stands in ``muster_fleet.nodes``."""
        # Scalars only: which copies, takes seconds for the 100,000 rails of 12,500 nodes.
        return dict(vars(self))


def rails_of_block(
    block: Section, nodes: int, hardware_class: str, expect: Mapping[str, Any], fabric: Fabric
) -> Sequence[tuple[Rail, ...]]:
    """Return the rails of each of a block's nodes, in the nodes' order. Raises FleetError."""
    if "rails" not in block:
        check_rails(block, (), hardware_class, expect, fabric)
        return [()] * nodes
    section = block.section("rails", ("devices", "addresses", "gateways", "switches", "ports"))
    devices = section.names("devices", _WORD.fullmatch, "a device or pattern such as mlx5_[0-7]")
    check_rails(block, devices, hardware_class, expect, fabric)
    addresses = _addresses(section, len(devices), nodes)
    places = _places(section, len(devices), nodes)
    return [
        tuple(
            Rail(rail, device, *addresses[rail][node], *places[node * len(devices) + rail])
            for rail, device in enumerate(devices)
        )
        for node in range(nodes)
    ]


def declared_rail(section: Section) -> Rail:
    """Return one rail of a node as the variables have it. Raises FleetError."""
    address = section.text("address", None)
    if address is not None:
        try:
            ipaddress.ip_interface(address)
        except ValueError as exc:
            raise section.error("address", "an address with its prefix length such as 172.16.0.1/16") from exc
    gateway = section.text("gateway", None)
    if gateway is not None:
        try:
            ipaddress.ip_address(gateway)
        except ValueError as exc:
            raise section.error("gateway", "an address such as 172.16.255.254") from exc
    if ("switch" in section) != ("port" in section):
        missing = "port" if "switch" in section else "switch"
        raise section.error(missing, "the other end of the rail's cable, switch and port together")
    return Rail(
        section.number("rail", 0, whole=True),
        section.text("device"),
        address,
        gateway,
        section.text("switch", None),
        section.text("port", None),
    )


def check_rails(
    section: Section, devices: Sequence[str], hardware_class: str, expect: Mapping[str, Any], fabric: Fabric
) -> None:
    """Raise FleetError unless the devices are those of the class' ``nic.rails``, in its order."""
    # Collectives over plain Ethernet need no rails, so that they may stay undeclared there.
    if not devices and not fabric.rdma:
        return
    expected = [rail["device"] for rail in expect["nic"]["rails"]] if expect["nic"] else []
    if len(devices) != len(expected):
        says = f"as nic.rails of class {hardware_class} says"
        raise section.error("rails", f"{len(expected)}, {says}", f"{len(devices)} rails")
    for rail, (device, wanted) in enumerate(zip(devices, expected, strict=True)):
        if device != wanted:
            says = f'"{wanted}", as nic.rails of class {hardware_class} says (override it for other NICs)'
            raise section.error("rails", says, f'"{device}" as rail {rail}')


def _addresses(section: Section, rails: int, nodes: int) -> list[list[tuple[str | None, str | None]]]:
    """Return address and gateway of each rail on each node.

    A /31 is a routed link of its own: the next node has the next one, and the switch the other of its two addresses.
    In a shared network the nodes count up from the first, and have the gateway that is declared.
    """
    if "addresses" not in section:
        if "gateways" in section:
            raise section.error("gateways", "nothing, as no addresses are declared")
        return [[(None, None)] * nodes] * rails
    firsts = section.names("addresses", lambda _: True, _EXAMPLE)
    if len(firsts) != rails:
        raise section.error("addresses", f"{rails}, one for each device", f"{len(firsts)} networks")
    gateways: list[str | None] = [None] * rails
    if "gateways" in section:
        gateways = list(section.names("gateways", lambda _: True, "the gateway of each rail's network"))
        if len(gateways) != rails:
            raise section.error("gateways", f"{rails}, one for each device", f"{len(gateways)} gateways")
    return [_column(section, text, gateway, nodes) for text, gateway in zip(firsts, gateways, strict=True)]


def _column(section: Section, text: str, gateway: str | None, nodes: int) -> list[tuple[str | None, str | None]]:
    try:
        first = ipaddress.ip_interface(text)
    except ValueError as exc:
        raise section.error("addresses", _EXAMPLE) from exc
    network = first.network
    if "/" in text and network.prefixlen == network.max_prefixlen - 1:
        if gateway is not None:
            raise section.error("gateways", "nothing, as the other address of each /31 is the gateway")
        kind, start = type(first.ip), int(first.ip)
        try:
            own = [kind(start + 2 * index) for index in range(nodes)]
        except ipaddress.AddressValueError as exc:
            raise section.error("addresses", f"an address after which {nodes - 1} more links follow") from exc
        return [(f"{each}/{network.prefixlen}", str(kind(int(each) ^ 1))) for each in own]
    last = int(first.ip) + nodes - 1
    if "/" not in text or last >= int(network.broadcast_address) + (network.num_addresses == 1):
        room = f"a network with its prefix length that holds {nodes} nodes from {first.ip} on"
        raise section.error("addresses", room, f'"{text}"')
    if gateway is not None:
        try:
            inside = ipaddress.ip_address(gateway)
        except ValueError as exc:
            raise section.error("gateways", "the gateway of each rail's network, such as 172.[16-23].255.254") from exc
        if inside not in network or int(first.ip) <= int(inside) <= last:
            raise section.error("gateways", f"an address of {network} that no node has", f'"{gateway}"')
    return [(f"{first.ip + index}/{network.prefixlen}", gateway) for index in range(nodes)]


def _places(section: Section, rails: int, nodes: int) -> Sequence[Place | tuple[None, None]]:
    """Return switch and port of each rail of each node, node by node.

    ``nodes_each`` nodes share ``rails / rails_each`` switches, ``rails_each`` rails of every node on each: 2 nodes with
    all 8 rails on the switch of their rack, or 32 nodes with one switch for each rail. Ports fill up node by node.
    """
    if "switches" not in section:
        if "ports" in section:
            raise section.error("ports", "nothing, as no switches are declared")
        return [(None, None)] * (nodes * rails)
    given = section.section("switches", ("name", "nodes_each", "rails_each"))
    names = given.names("name", _WORD.fullmatch, "a switch's name or a pattern such as leaf-[01-32]")
    nodes_each = given.number("nodes_each", 1, whole=True)
    rails_each = given.number("rails_each", 1, whole=True)
    if rails % rails_each:
        raise given.error("rails_each", f"a number that divides the {rails} rails")
    across = rails // rails_each
    needed = -(-nodes // nodes_each) * across
    if needed != len(names):
        fit = f"{needed} switches for {nodes} nodes of {rails} rails, {nodes_each} nodes and {rails_each} rails on each"
        raise given.error("name", fit, f'"{given.data["name"]}" ({len(names)} switches)')
    ports = section.names("ports", _PORT.fullmatch, "a port's name or a pattern such as Ethernet[1-16]")
    if len(ports) != nodes_each * rails_each:
        fit = f"{nodes_each * rails_each} ports, {nodes_each} nodes with {rails_each} rails each"
        raise section.error("ports", fit, f"{len(ports)} ports")
    return [
        (
            names[node // nodes_each * across + rail // rails_each],
            ports[node % nodes_each * rails_each + rail % rails_each],
        )
        for node in range(nodes)
        for rail in range(rails)
    ]
