"""How far apart the rails of nodes are, and who lies at which distance of whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail

LEAF, POD, ACROSS = "leaf", "pod", "across"
# From near to far: each goes over all that the one before it goes over, and more.
DISTANCES = (LEAF, POD, ACROSS)
WHERE = {LEAF: "at the same leaf", POD: "in the same pod", ACROSS: "across pods"}


@dataclass(frozen=True)
class Place:
    """Where a node lies: its pod, and by name the switch and port of each rail, as far as they are declared."""

    pod: str | None
    ends: Mapping[str, tuple[str | None, str | None]]

    def leaf(self, rail: Rail) -> str | None:
        """Return the switch of a rail."""
        return self.ends.get(rail.name, (None, None))[0]

    def named(self, rail: Rail) -> str:
        """Return a rail with the end of its cable as the cabling plan names it."""
        switch, port = self.ends.get(rail.name, (None, None))
        return f"{rail}, cable to {switch} {port}" if switch else str(rail)

    def distance(self, other: Place, rail: Rail) -> str:
        """Return how far another node's rail is; what is not declared counts as far."""
        if self.leaf(rail) is not None and self.leaf(rail) == other.leaf(rail):
            return LEAF
        return POD if self.pod is not None and self.pod == other.pod else ACROSS


class Neighbours:
    """Who lies where, found without asking every node about every other."""

    def __init__(self, places: Mapping[str, Place], rails: Sequence[Rail]) -> None:
        self.places = places
        self._pods: dict[str | None, list[str]] = {}
        self._leaves: dict[tuple[Rail, str | None], list[str]] = {}
        for name in sorted(places):
            self._pods.setdefault(places[name].pod, []).append(name)
            for rail in rails:
                self._leaves.setdefault((rail, places[name].leaf(rail)), []).append(name)

    def at(self, node: str, rail: Rail, distance: str) -> Iterator[str]:
        """Return the nodes whose rail lies at this distance of the node's."""
        place = self.places[node]
        nearby: Iterable[str] = self.places
        if distance == LEAF:
            nearby = self._leaves[rail, place.leaf(rail)] if place.leaf(rail) else ()
        elif distance == POD:
            nearby = self._pods[place.pod] if place.pod else ()
        elif place.pod and len(self._pods) == 1:
            nearby = ()
        for other in nearby:
            if other != node and place.distance(self.places[other], rail) == distance:
                yield other
