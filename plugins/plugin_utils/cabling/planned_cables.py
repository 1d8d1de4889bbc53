"""The cabling plan as people and comparisons use it: cables, what each end is called, who belongs to the fabric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property

from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import rails_of
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import (
    Cable,
    End,
    cables_of,
    switches_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

CSV_HEADER = ("number", "from", "from_rack", "from_port", "to", "to_port", "rail", "speed_gbps")


@dataclass(frozen=True)
class Plan:
    """Every cable of a fabric; ``speed_gbps`` is what each must reach.

    ``rails`` numbers the hosts' ends, ``hosts`` has each host's rack, ``nics`` the rails of each compute node by PCI
    address. ``others`` are patterns (``ufm-*``) of hosts and switches that belong to the fabric although no cable of
    theirs is planned.
    """

    kind: str
    cables: tuple[Cable, ...]
    rails: Mapping[End, int]
    hosts: Mapping[str, str | None]
    switches: frozenset[str]
    speed_gbps: int | None = None
    others: tuple[str, ...] = ()
    nics: Mapping[str, Sequence[Rail]] = field(default_factory=dict)

    @cached_property
    def far(self) -> dict[End, End]:
        """The planned other end of each end."""
        return {end: other for cable in self.cables for end, other in (cable, cable[::-1])}

    @cached_property
    def with_rails(self) -> frozenset[str]:
        """The hosts that have rails."""
        return frozenset(end.name for end in self.rails)

    def belongs(self, name: str) -> bool:
        """Return whether a host or switch may be plugged in where nothing is planned."""
        helper = name in self.hosts and name not in self.with_rails
        return helper or any(fnmatchcase(name, pattern) for pattern in self.others)

    def known(self, name: str) -> bool:
        """Return whether the fleet declares a host or switch of this name."""
        return name in self.hosts or name in self.switches

    def called(self, end: End) -> str:
        """Return an end as people know it: ``gpu-0001 rail 3``, ``su1-leaf4 port 1``."""
        if end in self.rails:
            return f"{end.name} rail {self.rails[end]}"
        return f"{end.name} port {end.port}" if end.port.isdigit() or end.name in self.switches else str(end)

    def cable(self, cable: Cable) -> str:
        """Return a cable with both of its ends."""
        return f"{self.called(cable.below)} - {self.called(cable.above)}"

    def to_csv(self) -> str:
        """Return the plan for those who pull the cables, one line for each."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(CSV_HEADER)
        for number, (below, above) in enumerate(self.cables, 1):
            rack = self.hosts.get(below.name) or ""
            rail = self.rails.get(below, "")
            table.writerow((number, below.name, rack, below.port, above.name, above.port, rail, self.speed_gbps or ""))
        return text.getvalue()


def plan_of(fleet: Fleet, others: Iterable[str] = ()) -> Plan:
    """Return the plan that a declaration makes."""
    fabric = fleet.fabric
    return Plan(
        kind=fabric.kind,
        cables=tuple(cables_of(fleet.nodes, fabric)),
        rails={End(node.name, rail.name): rail.rail for node in fleet.nodes for rail in node.rails},
        hosts={node.name: node.rack for node in fleet.nodes},
        switches=frozenset(switches_of(fabric)),
        speed_gbps=fabric.speed_gbps,
        others=tuple(others),
        nics={
            node.name: rails_of(fleet.classes[node.hardware_class])
            for node in fleet.nodes
            if node.hardware_class and node.rails
        },
    )
