"""A rail's own network on its host: address, and a route table for what leaves from that address."""

from __future__ import annotations

import ipaddress
import uuid
from dataclasses import dataclass

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import rail_name

NETWORKS = ("networkd", "networkmanager")
SERVICES = {"networkd": "systemd-networkd.service", "networkmanager": "NetworkManager.service"}
# Of the rail whose number is 0, and the priority of its rule; below the main table's 254.
FIRST_TABLE = 100
# Beside our rails networkd leaves alone what others configure: on start it would drop rules that it does not know.
NETWORKD_CONF = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"


@dataclass(frozen=True)
class PlacedRail:
    """A rail with its place in the host: ``address`` is that of PCI, ``ip`` has its prefix length."""

    rail: int
    address: str
    ip: str | None
    gateway: str | None

    @property
    def name(self) -> str:
        """Return the rail's name: ``rail0``."""
        return rail_name(self.rail)

    @property
    def match(self) -> str:
        """Return the lines by which networkd finds the rail's interface, whatever it is called."""
        return f"[Match]\nPath=pci-{self.address}\n"


def networkd(rail: PlacedRail) -> str:
    """Return the rail's .network file: its address, and a table of its own for what leaves from that address."""
    own = ipaddress.ip_interface(str(rail.ip))
    table = FIRST_TABLE + rail.rail
    parts = [
        rail.match,
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
    name = f"muster-{rail.name}"
    family, other = ("ipv4", "ipv6") if own.version == 4 else ("ipv6", "ipv4")
    routes = [str(own.network)]
    if rail.gateway is not None:
        routes.append(f"{'0.0.0.0' if own.version == 4 else '::'}/0,{rail.gateway}")
    lines = [
        f"route{number}={route}\nroute{number}_options=table={table},src={own.ip}\n"
        for number, route in enumerate(routes, 1)
    ]
    return (
        f"[connection]\nid={name}\nuuid={uuid.uuid5(uuid.NAMESPACE_DNS, name)}\ntype={kind}\n\n"
        f"[match]\npath=pci-{rail.address};\n\n"
        f"[{family}]\nmethod=manual\naddress1={own}\nnever-default=true\n{''.join(lines)}"
        f"routing-rule1=priority {table} from {own.ip} table {table}\n\n[{other}]\nmethod=disabled\n"
    )
