"""A rail's own network on its host: address, and a route table for what leaves from that address."""

from __future__ import annotations

import ipaddress
import uuid
from dataclasses import dataclass

NETWORKS = ("networkd", "networkmanager")
SERVICES = {"networkd": "systemd-networkd.service", "networkmanager": "NetworkManager.service"}
# Of the rail whose number is 0, and the priority of its rule; below the main table's 254.
FIRST_TABLE = 100
# Beside our rails networkd leaves alone what others configure: on start it would drop rules that it does not know.
NETWORKD_CONF = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"


@dataclass(frozen=True)
class PlacedRail:
    """A rail with its place in the host; ``ip`` has its prefix length, ``address`` is that of PCI."""

    rail: int
    device: str
    interface: str | None
    address: str | None
    ip: str | None
    gateway: str | None

    def __str__(self) -> str:
        return f"rail {self.rail} ({self.device})"


def networkd(rail: PlacedRail) -> str:
    """Return the rail's .network file: its address, and a table of its own for what leaves from that address."""
    own = ipaddress.ip_interface(str(rail.ip))
    table = FIRST_TABLE + rail.rail
    match = f"Name={rail.interface}" if rail.interface else f"Path=pci-{rail.address}"
    parts = [
        f"[Match]\n{match}\n",
        # A rail that is down must not hold up the boot.
        "[Link]\nRequiredForOnline=no\n",
        f"[Network]\nAddress={own}\nIPv6AcceptRA=no\n",
        f"[RoutingPolicyRule]\nFrom={own.ip}\nTable={table}\nPriority={table}\n",
        f"[Route]\nDestination={own.network}\nScope=link\nPreferredSource={own.ip}\nTable={table}\n",
    ]
    if rail.gateway is not None:
        parts.append(f"[Route]\nGateway={rail.gateway}\nPreferredSource={own.ip}\nTable={table}\n")
    return "\n".join(parts)


def keyfile(rail: PlacedRail, kind: str) -> str:
    """Return the rail's NetworkManager profile of type ``ethernet`` or ``infiniband``, to the same effect."""
    own = ipaddress.ip_interface(str(rail.ip))
    table = FIRST_TABLE + rail.rail
    name = f"muster-{rail.device}"
    match = f"[match]\npath=pci-{rail.address};\n\n" if not rail.interface else ""
    interface = f"interface-name={rail.interface}\n" if rail.interface else ""
    family, other = ("ipv4", "ipv6") if own.version == 4 else ("ipv6", "ipv4")
    routes = [str(own.network)]
    if rail.gateway is not None:
        routes.append(f"{'0.0.0.0' if own.version == 4 else '::'}/0,{rail.gateway}")
    lines = [
        f"route{number}={route}\nroute{number}_options=table={table},src={own.ip}\n"
        for number, route in enumerate(routes, 1)
    ]
    return (
        f"[connection]\nid={name}\nuuid={uuid.uuid5(uuid.NAMESPACE_DNS, name)}\ntype={kind}\n{interface}\n{match}"
        f"[{family}]\nmethod=manual\naddress1={own}\nnever-default=true\n{''.join(lines)}"
        f"routing-rule1=priority {table} from {own.ip} table {table}\n\n[{other}]\nmethod=disabled\n"
    )
