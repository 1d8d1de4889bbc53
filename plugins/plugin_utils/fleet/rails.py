"""The rails of nodes: addresses, and the switch port that each is plugged into, from a block's patterns."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, rail_name
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import (
    Count,
    Positive,
    ReadError,
    Text,
    read_as,
    shown,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import (
    Pattern,
    faults_of,
    internet,
    names,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import Fabric

_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?").fullmatch
_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]*").fullmatch
_EXAMPLE = "the first node's address on each rail, such as 172.[16-23].0.1/16"

Place = tuple[str, str]


@dataclass(frozen=True)
class Rail:
    """One NIC of a node on its rail's network.

    ``address`` has its prefix length; ``gateway`` leads out of the rail's network; ``switch`` and ``port`` are where
    its cable goes. Each is None where the rail has none or nothing is declared.
    """

    rail: Count
    address: (
        Annotated[str, internet(ipaddress.ip_interface, "an address with its prefix length such as 172.16.0.1/16")]
        | None
    ) = None
    gateway: Annotated[str, internet(ipaddress.ip_address, "an address such as 172.16.255.254")] | None = None
    switch: Text | None = None
    port: Text | None = None

    @property
    def name(self) -> str:
        """Return the rail's name: ``rail0``."""
        return rail_name(self.rail)

    def to_dict(self) -> dict[str, Any]:
        """Return the rail as it stands in ``muster_fleet.nodes``."""
        # Scalars only: which copies, takes seconds for the 100,000 rails of 12,500 nodes.
        return dict(vars(self))


@dataclass(frozen=True)
class RailSwitches:
    """``nodes_each`` nodes share some of the switches, ``rails_each`` rails of every node on each."""

    name: Annotated[Pattern, names("a switch's name or a pattern such as leaf-[01-32]", _WORD)]
    nodes_each: Positive
    rails_each: Positive


@dataclass(frozen=True)
class BlockRails:
    """The rails of a block of nodes by patterns: of its first node's addresses, and of the switches and their ports."""

    addresses: Annotated[Pattern, names(_EXAMPLE, lambda _text: True)] | None = None
    gateways: Annotated[Pattern, names("the gateway of each rail's network", lambda _text: True)] | None = None
    switches: RailSwitches | None = None
    ports: Annotated[Pattern, names("a port's name or a pattern such as Ethernet[1-16]", _PORT)] | None = None

    def __post_init__(self) -> None:
        if self.gateways and not self.addresses:
            raise ReadError("gateways", shown(self.gateways.text), "nothing, as no addresses are declared")
        if self.ports and not self.switches:
            raise ReadError("ports", shown(self.ports.text), "nothing, as no switches are declared")
        if self.switches and not self.ports:
            raise ReadError("ports", "nothing", "text")


def rails_of_block(
    block: BlockRails | None, nodes: int, expect: Expectations, fabric: Fabric
) -> Sequence[tuple[Rail, ...]]:
    """Return the rails of each of a block's nodes, in the nodes' order: those of the class. Raises ReadError."""
    numbers = _numbers(expect)
    # Collectives over plain Ethernet need no rails, so that they may stay undeclared there.
    if block is None and not fabric.rdma:
        return [()] * nodes
    check_rails(numbers, expect, fabric)
    try:
        addresses = _addresses(block or BlockRails(), nodes, len(numbers))
        places = places_of_block(block or BlockRails(), nodes, len(numbers))
    except ReadError as exc:
        raise exc.under("rails") from None
    return [
        tuple(
            Rail(rail, *addresses[index][node], *places[node * len(numbers) + index])
            for index, rail in enumerate(numbers)
        )
        for node in range(nodes)
    ]


def declared_rails(data: Any, file: str = "muster_node") -> tuple[Rail, ...]:
    """Return the rails of a node as the variables have them. Raises FleetError."""
    with faults_of(file, "rails"):
        rails: tuple[Rail, ...] = read_as(tuple[Rail, ...], data or ())
    return rails


def check_rails(rails: Sequence[int], expect: Expectations, fabric: Fabric) -> None:
    """Raise ReadError unless the rails are those of the class' ``nic.rails``, in its order."""
    if not rails and not fabric.rdma:
        return
    expected = _numbers(expect)
    says = f"as nic.rails of class {expect.class_} says"
    if not expected:
        declare = f"them as hardware_classes.{expect.class_}.nic.rails"
        raise ReadError("rails", f"class {expect.class_} without nic.rails", declare)
    if list(rails) != expected:
        found = f"rails {', '.join(map(str, rails))}" if rails else "no rails"
        raise ReadError("rails", found, f"{', '.join(map(str, expected))}, {says}")


def _numbers(expect: Expectations) -> list[int]:
    return [rail.rail for rail in expect.nic.rails] if expect.nic else []


def _addresses(block: BlockRails, nodes: int, rails: int) -> list[list[tuple[str | None, str | None]]]:
    """Return address and gateway of each rail on each node.

    A /31 is a routed link of its own: the next node has the next one, and the switch the other of its two addresses.
    In a shared network the nodes count up from the first, and have the gateway that is declared.
    """
    if block.addresses is None:
        return [[(None, None)] * nodes] * rails
    firsts = block.addresses.names
    if len(firsts) != rails:
        raise ReadError("addresses", f"{len(firsts)} networks", f"{rails}, one for each rail of the class")
    gateways: Sequence[str | None] = block.gateways.names if block.gateways else [None] * rails
    if len(gateways) != rails:
        raise ReadError("gateways", f"{len(gateways)} gateways", f"{rails}, one for each rail of the class")
    return [_column(block, text, gateway, nodes) for text, gateway in zip(firsts, gateways, strict=True)]


def _column(block: BlockRails, text: str, gateway: str | None, nodes: int) -> list[tuple[str | None, str | None]]:
    try:
        first = ipaddress.ip_interface(text)
    except ValueError as exc:
        raise ReadError("addresses", shown(block.addresses.text if block.addresses else text), _EXAMPLE) from exc
    network = first.network
    if "/" in text and network.prefixlen == network.max_prefixlen - 1:
        if gateway is not None:
            expected = "nothing, as the other address of each /31 is the gateway"
            raise ReadError("gateways", shown(block.gateways.text if block.gateways else gateway), expected)
        kind, start = type(first.ip), int(first.ip)
        try:
            own = [kind(start + 2 * index) for index in range(nodes)]
        except ipaddress.AddressValueError as exc:
            raise ReadError("addresses", shown(text), f"an address after which {nodes - 1} more links follow") from exc
        return [(f"{each}/{network.prefixlen}", str(kind(int(each) ^ 1))) for each in own]
    last = int(first.ip) + nodes - 1
    if "/" not in text or last >= int(network.broadcast_address) + (network.num_addresses == 1):
        room = f"a network with its prefix length that holds {nodes} nodes from {first.ip} on"
        raise ReadError("addresses", shown(text), room)
    if gateway is not None:
        try:
            inside = ipaddress.ip_address(gateway)
        except ValueError as exc:
            expected = "the gateway of each rail's network, such as 172.[16-23].255.254"
            raise ReadError("gateways", shown(gateway), expected) from exc
        if inside not in network or int(first.ip) <= int(inside) <= last:
            raise ReadError("gateways", shown(gateway), f"an address of {network} that no node has")
    return [(f"{first.ip + index}/{network.prefixlen}", gateway) for index in range(nodes)]


def places_of_block(block: BlockRails, nodes: int, rails: int) -> Sequence[Place | tuple[None, None]]:
    """Return switch and port of each rail of each node, node by node. Raises ReadError.

    ``nodes_each`` nodes share ``rails / rails_each`` switches, ``rails_each`` rails of every node on each: 2 nodes with
    all 8 rails on the switch of their rack, or 32 nodes with one switch for each rail. Ports fill up node by node.
    """
    given = block.switches
    if given is None or block.ports is None:
        return [(None, None)] * (nodes * rails)
    switches, ports = given.name.names, block.ports.names
    nodes_each, rails_each = given.nodes_each, given.rails_each
    if rails % rails_each:
        raise ReadError("switches.rails_each", str(rails_each), f"a number that divides the {rails} rails")
    across = rails // rails_each
    needed = -(-nodes // nodes_each) * across
    if needed != len(switches):
        fit = f"{needed} switches for {nodes} nodes of {rails} rails, {nodes_each} nodes and {rails_each} rails on each"
        raise ReadError("switches.name", f'"{given.name.text}" ({len(switches)} switches)', fit)
    if len(ports) != nodes_each * rails_each:
        fit = f"{nodes_each * rails_each} ports, {nodes_each} nodes with {rails_each} rails each"
        raise ReadError("ports", f"{len(ports)} ports", fit)
    return [
        (
            switches[node // nodes_each * across + rail // rails_each],
            ports[node % nodes_each * rails_each + rail % rails_each],
        )
        for node in range(nodes)
        for rail in range(rails)
    ]
