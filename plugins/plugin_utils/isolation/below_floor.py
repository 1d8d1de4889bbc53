"""How many of a node's exchanges lie below the class' floor: its median says nothing of what happens now and then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import Facts
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import PAIR, Channel
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import SENDRECV, UNIT

# Of a node's exchanges so many may lie below the floor. Who is slow more often than others is suspected of it sooner,
# if it has exchanges enough to be told from them; this asks of few as well. Measured: at most 3.3 % of a sound node in
# 400 simulated fleets of 8 to 232 hosts with noise of 1 to 3 % and floors at 80 % of what is usual.
MOST_BELOW = 0.1


def often_below(facts: Facts) -> list[str]:
    """Return who was below in too many of the sweep's exchanges with nodes not suspected, on all rails or on one."""
    exchanges = facts.sweep.exchanges
    suspected = [node for suspect in facts.suspects if suspect.kind != PAIR for node in suspect.behind]
    sound, count = ~exchanges.touching(suspected), np.zeros(exchanges.count)
    for channel in facts.channels:
        floor = facts.settings.floor(SENDRECV, 2, channel.size)
        if floor is not None and len(channel.reference):
            least = floor if channel.unit == UNIT else channel.size / floor / 1e3
            low = channel.value < least if channel.unit == UNIT else channel.value > least
            count = np.maximum(count, exchanges.of_nodes(low & sound))
    often = (count > MOST_BELOW * exchanges.of_nodes(exchanges.known & sound)) & facts.sweep.members
    return facts.names(np.flatnonzero(often).tolist())


@dataclass(frozen=True)
class Below:
    """How many of a node's exchanges in one channel are worse than the class' floor, which is in the channel's unit."""

    channel: Channel
    count: int
    every: int
    floor: float

    @property
    def share(self) -> float:
        """Return what part of its exchanges that is."""
        return self.count / self.every

    def __str__(self) -> str:
        """Return it in words."""
        side = "below" if self.channel.unit == UNIT else "above the time of"
        limit = f"the class' floor of {self.floor:.4g} {self.channel.unit}"
        return f"{self.count} of {self.every} exchanges {side} {limit}"


class BelowFloor:
    """By node and check. ``sound`` says by node against whom nothing speaks; exchanges with others count for nobody."""

    def __init__(self, facts: Facts, sound: Any) -> None:
        self.facts, self.count = facts, len(sound)
        one, other = (
            np.concatenate([getattr(facts.sweep.exchanges, side), getattr(facts.again, side)])
            for side in ("one", "other")
        )
        self.rows = np.flatnonzero(sound[one] & sound[other])
        self.sides = one[self.rows], other[self.rows]
        self.met = self._of_nodes(slice(None))
        # By check: its channels that have a floor, with the numbers of all nodes, and by node which of them is worst.
        self.found: dict[str, tuple[list[tuple[Channel, float, Any]], list[int]]] = {}

    def of(self, node: int, check: str) -> Below | None:
        """Return the channel of a check in which most of a node's exchanges lie below the floor, None if none do."""
        if check not in self.found:
            channels = list(self._channels(check))
            shares = np.array([low / np.maximum(every, 1) for _channel, _floor, (low, every) in channels])
            self.found[check] = channels, shares.argmax(axis=0).tolist() if channels else []
        channels, worst = self.found[check]
        if not channels:
            return None
        channel, floor, (low, every) = channels[worst[node]]
        return Below(channel, int(low[node]), int(every[node]), floor) if low[node] else None

    def _channels(self, check: str) -> Iterator[tuple[Channel, float, Any]]:
        for channel in self.facts.channels:
            floor = self.facts.settings.floor(SENDRECV, 2, channel.size)
            # What has no reference is judged by a ceiling.
            if channel.check != check or floor is None or not len(channel.reference):
                continue
            both = channel.value, channel.again_value
            if channel.unit == UNIT:
                low = np.concatenate([values < floor for values in both])
            else:
                floor = channel.size / floor / 1e3
                low = np.concatenate([values > floor for values in both])
            rows = np.flatnonzero(low[self.rows])
            if len(rows):
                unknown = np.isnan(np.concatenate(both)[self.rows])
                yield channel, floor, self._counted(rows, unknown)

    def _counted(self, low: Any, out: Any) -> Any:
        """Return by node how many of its exchanges lie below the floor, and how many there are.

        ``low`` are the rows that do, ``out`` tells by row what does not count. Whoever has most of them answers for its
        exchanges: they no longer count for the others. Two that are slow with each other alone have as many, and both
        answer.
        """
        one, other = self.sides
        answered = np.zeros(self.count, dtype=bool)
        found = np.zeros((2, self.count), dtype=np.int64)
        while True:
            counts = np.array([self._of_nodes(low), self.met - self._of_nodes(out)])
            found[:, ~answered] = counts[:, ~answered]
            share = np.where(answered, 0, counts[0] / np.maximum(counts[1], 1))
            worst = (share > MOST_BELOW) & (share > share.max() / 2)
            if not worst.any():
                return found
            answered |= worst
            out = out | worst[one] | worst[other]
            low = low[~out[low]]

    def _of_nodes(self, rows: Any) -> Any:
        one, other = (np.bincount(side[rows], minlength=self.count) for side in self.sides)
        return one + other
