"""The cabling plan: every switch of the fabric and every cable with both of its ends, derived from the declaration."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import (
    TIERS,
    Fabric,
    SwitchBlock,
    Uplinks,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.node_names import expand
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.rails import Rail


class HasRails(Protocol):
    """A declared host, as far as the cabling plan needs it."""

    @property
    def name(self) -> str: ...
    @property
    def rails(self) -> tuple[Rail, ...]: ...


class End(NamedTuple):
    """One end of a cable: a switch with its port, or a host with the name of one of its rails (``rail0``)."""

    name: str
    port: str

    def __str__(self) -> str:
        return f"{self.name} {self.port}"


class Cable(NamedTuple):
    """A cable; ``below`` is the end nearer to the hosts."""

    below: End
    above: End

    def __str__(self) -> str:
        return f"{self.below} - {self.above}"


@dataclass(frozen=True)
class Switch:
    """One declared switch; ``address`` is that of its management, None where nobody asks it."""

    name: str
    tier: str
    system: str
    address: str | None = None


def switches_of(fabric: Fabric) -> dict[str, Switch]:
    """Return every declared switch by name."""
    found = {}
    for block in fabric.switches:
        first = ipaddress.ip_address(block.address) if block.address else None
        for index, name in enumerate(expand(block.name)):
            address = None if first is None else str(first + index)
            found[name] = Switch(name, block.tier, block.system, address)
    return found


def cables_of(nodes: Iterable[HasRails], fabric: Fabric) -> list[Cable]:
    """Return every declared cable: hosts' rails first, then the switches' uplinks block by block."""
    cables = [
        Cable(End(node.name, rail.name), End(rail.switch, rail.port))
        for node in nodes
        for rail in node.rails
        if rail.switch is not None and rail.port is not None
    ]
    for block in fabric.switches:
        if block.uplinks:
            cables += _uplinks(block, block.uplinks)
    return cables


def _uplinks(block: SwitchBlock, uplinks: Uplinks) -> list[Cable]:
    lower, upper = expand(block.name), expand(uplinks.to)
    ports, at = expand(uplinks.ports), expand(uplinks.at)
    below, above = len(lower) // uplinks.groups, len(upper) // uplinks.groups
    each = len(ports) // above
    return [
        Cable(
            End(lower[group * below + low], ports[high * each + link]),
            End(upper[group * above + high], at[low * each + link]),
        )
        for group in range(uplinks.groups)
        for low in range(below)
        for high in range(above)
        for link in range(each)
    ]


def check_cabling(nodes: Sequence[HasRails], fabric: Fabric, file: str) -> None:
    """Raise FleetError unless cables end in declared switches, no port has two, and all to be verified are declared."""
    tiers = _tiers(fabric, file)
    for index, block in enumerate(fabric.switches):
        if block.uplinks and (wrong := _wrong_uplinks(block, block.uplinks, tiers)):
            key, found, expected = wrong
            raise FleetError(file, f"fabric.switches[{index}].uplinks.{key}", found, expected)
    for node in nodes:
        for rail in node.rails:
            if rail.switch is not None and tiers.get(rail.switch) != TIERS[0]:
                found = f'rail {rail.rail} of {node.name} at "{rail.switch}"'
                raise FleetError(file, "nodes", found, f"a switch of fabric.switches with tier {TIERS[0]}")
            if rail.switch is None and fabric.verify_cabling:
                found = f"true, and no switch for rail {rail.rail} of {node.name}"
                expected = "rails.switches and rails.ports of all nodes, or false"
                raise FleetError(file, "fabric.verify_cabling", found, expected)
    used: dict[End, End] = {}
    for cable in cables_of(nodes, fabric):
        for end, other in (cable, cable[::-1]):
            if end in used:
                found = f"{end} with two cables, to {used[end]} and to {other}"
                raise FleetError(file, "fabric.switches", found, "one cable in each port")
            used[end] = other


def _tiers(fabric: Fabric, file: str) -> dict[str, str]:
    """Return the tier of each declared switch."""
    tiers: dict[str, str] = {}
    for index, block in enumerate(fabric.switches):
        key = f"fabric.switches[{index}]"
        for name in expand(block.name):
            if name in tiers:
                raise FleetError(file, f"{key}.name", f'switch "{name}" again', "each switch once")
            tiers[name] = block.tier
        if block.address is not None:
            count, first = len(expand(block.name)), ipaddress.ip_address(block.address)
            if int(first) + count > 2**first.max_prefixlen:
                more = f"an address after which {count - 1} more follow"
                raise FleetError(file, f"{key}.address", f'"{block.address}"', more)
    return tiers


def _wrong_uplinks(block: SwitchBlock, uplinks: Uplinks, tiers: dict[str, str]) -> tuple[str, str, str] | None:
    """Return key, what was found and what was expected of the first thing that does not fit."""
    lower, upper = expand(block.name), expand(uplinks.to)
    if block.tier == TIERS[-1]:
        return "to", f'"{uplinks.to}"', f"nothing, as there is no tier above {TIERS[-1]}"
    wanted = TIERS[TIERS.index(block.tier) + 1]
    for name in upper:
        if tiers.get(name) != wanted:
            return "to", f'"{name}"', f"switches of fabric.switches with tier {wanted}"
    for names, what in ((lower, "switches"), (upper, "switches above")):
        if len(names) % uplinks.groups:
            return "groups", str(uplinks.groups), f"a number that divides the {len(names)} {what}"
    below, above = len(lower) // uplinks.groups, len(upper) // uplinks.groups
    ports, at = len(expand(uplinks.ports)), len(expand(uplinks.at))
    if ports % above:
        return "ports", f"{ports} ports", f"as many to each of the {above} switches above"
    if at != below * (ports // above):
        fit = f"{below * (ports // above)} ports, {ports // above} for each of the {below} switches below"
        return "at", f"{at} ports", fit
    return None
