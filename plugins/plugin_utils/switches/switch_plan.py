"""What each declared switch has to be: the end of every cable at it, the classes of traffic, how it spreads flows."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import (
    End,
    Switch,
    cables_of,
    switches_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import Ecn, Fabric, TrafficClass
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import (
    ADDRESSES_AND_PORTS,
    QUEUE_PAIR,
)

# What a switch hashes by each declared routing; packet_spray chooses packet by packet and hashes nothing.
HASHED = {"ecmp": ADDRESSES_AND_PORTS, "e_ecmp": ADDRESSES_AND_PORTS | {QUEUE_PAIR}}


@dataclass(frozen=True)
class PortPlan:
    """One port with a declared cable.

    ``other`` is the cable's other end. For a host, ``address`` is the port's own one with its prefix length where rail
    and port share a /31.
    """

    other: End
    host: bool = False
    address: str | None = None
    # The gateway of a network that several hosts share; where on the switch it lies is not declared.
    shared_gateway: str | None = None


@dataclass(frozen=True)
class SwitchPlan:
    """One declared switch and its ports with a cable."""

    switch: Switch
    fabric: Fabric
    ports: dict[str, PortPlan] = field(default_factory=dict)

    @property
    def traffic(self) -> tuple[TrafficClass, ...]:
        """The classes of traffic; none where the fabric treats all packets alike."""
        qos = self.fabric.qos
        return (qos.data, qos.control, qos.cnp) if qos else ()

    @property
    def classes(self) -> Mapping[int, int]:
        """The priority of each declared DSCP."""
        return dict(sorted({each.dscp: each.priority for each in self.traffic}.items()))

    @property
    def lossless(self) -> tuple[int, ...]:
        """The priorities that are paused rather than dropped."""
        return tuple(sorted({each.priority for each in self.traffic if each.lossless}))

    @property
    def marks(self) -> dict[int, Ecn]:
        """The queue that marks packets, by its priority: that of data, and only with DCQCN, which reacts to it."""
        qos, ecn = self.fabric.qos, self.fabric.ecn
        return {qos.data.priority: ecn} if self.fabric.dcqcn and qos and ecn else {}


def plans_of(fleet: Fleet) -> dict[str, SwitchPlan]:
    """Return what every declared switch has to be, by its name."""
    plans = {name: SwitchPlan(switch, fleet.fabric) for name, switch in switches_of(fleet.fabric).items()}
    rails = {End(node.name, rail.name): rail for node in fleet.nodes for rail in node.rails}
    for below, above in cables_of(fleet.nodes, fleet.fabric):
        if below not in rails:
            plans[below.name].ports[below.port] = PortPlan(above)
            plans[above.name].ports[above.port] = PortPlan(below)
            continue
        rail = rails[below]
        network = ipaddress.ip_interface(rail.address).network if rail.address and rail.gateway else None
        link = network is not None and network.num_addresses == 2
        plans[above.name].ports[above.port] = PortPlan(
            below,
            host=True,
            address=f"{rail.gateway}/{network.prefixlen}" if network and link else None,
            shared_gateway=rail.gateway if network and not link else None,
        )
    return plans
