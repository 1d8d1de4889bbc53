"""Did a node's collectives stand still now and then? A stall counts wherever it fell, between timed iterations too.

Whoever stalls with several others is held; two that stall with each other alone are both. A single stall is no fault:
hosts pause as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STALL_CHECK
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import WITNESSES
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import LEAST_CONFIRMED
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import SENDRECV, Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Seen, phase_pairs, phases_of

SUBJECT, UNIT = "network", "stalls"
# What is shorter counts as no stall, whatever the class asks: less than the shortest time after which something on the
# way sends again (67 ms: 4.096 us times 2 to the 14th, perftest's timeout of RDMA; 200 ms: TCP_RTO_MIN of Linux), and
# more than what idle hosts pause. Measured: four ranks on two cores with a load of 14 lost 82 ms at the most.
LEAST_MS = 50.0
# Of the meetings of a group so many may be stalled.
MOST_STALLED = 0.1
_NAMED = 4


def limit_ms(settings: Settings) -> float:
    """Return from how many milliseconds on a stall counts: as long as an exchange of two may take by the class.

    That is the longest time that its ceilings allow, or what its floors allow at their sizes.
    """
    ceilings = [each.microseconds / 1e3 for each in settings.latency if each.collective == SENDRECV]
    floors = [(size, settings.floor(SENDRECV, 2, size)) for size in settings.pairs.sizes_bytes]
    return max([LEAST_MS, *ceilings, *(size / floor / 1e6 for size, floor in floors if floor)])


@dataclass
class Stalled:
    """What the rounds showed of ``limit`` milliseconds and more.

    ``pairs`` are stalls by node and partner (a node by itself is its own), ``together`` says of whole groups why they
    are held. ``longest`` is by node any stall, also a shorter one: milliseconds, and where. ``heard`` told of theirs;
    ``unwatched`` ran what tells of none.
    """

    limit: float
    pairs: dict[str, dict[str, int]] = field(default_factory=dict)
    together: dict[str, str] = field(default_factory=dict)
    longest: dict[str, tuple[float, str]] = field(default_factory=dict)
    exchanges: Counter[str] = field(default_factory=Counter)
    heard: set[str] = field(default_factory=set)
    unwatched: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, seen: Seen, settings: Settings) -> Stalled:
        """Return what these rounds showed."""
        found = cls(limit_ms(settings))
        for _number, plan, item in seen:
            group = [str(node) for node in item["group"]]
            if item.get("started") is True and "stalls" not in item:
                found.unwatched.update(group)
            elif item.get("started") is True and isinstance(item["stalls"], list):
                found.heard.update(set(group).difference(item.get("missing") or ()))
                found.exchanges.update(_exchanges(plan, group))
                for each in item["stalls"]:
                    found._take(each["move"], each["nodes"], each["meetings"], [ns / 1e6 for ns in each["lost_ns"]])
        return found

    def _take(self, move: str, nodes: Sequence[str], meetings: int, lost: Sequence[float]) -> None:
        count, longest = sum(ms >= self.limit for ms in lost), max(lost, default=0.0)
        for node in nodes:
            place = f"in {move}"
            if len(nodes) == 2:
                place += f" with {nodes[1] if node == nodes[0] else nodes[0]}"
            elif len(nodes) > 2:
                place += f" with {len(nodes) - 1} others"
            self.longest[node] = max(self.longest.get(node, (0.0, "")), (longest, place))
        if len(nodes) <= 2:
            for one, other in {(nodes[0], nodes[-1]), (nodes[-1], nodes[0])} if count else ():
                mine = self.pairs.setdefault(one, {})
                mine[other] = mine.get(other, 0) + count
        elif count >= LEAST_CONFIRMED and count > MOST_STALLED * meetings:
            said = f"{count} of {meetings} meetings of {len(nodes)} nodes in {move} {self._long(longest)}"
            for node in nodes:
                self.together.setdefault(node, f"{said}: suspect what they share, no node is blamed")

    def _long(self, longest: float) -> str:
        return f"stalled for {self.limit:g} ms and more, the longest for {longest:.0f} ms"

    def blamed(self, most: float) -> dict[str, dict[str, int]]:
        """Return who stalled too often, with whom and how often; ``most`` is how many nodes may by themselves.

        Whoever did with several answers first, and for what its partners showed with it, if others speak against it
        as well. What is left are two that stalled with each other alone.
        """
        found: dict[str, dict[str, int]] = {}
        while True:
            open_ = {node: mine for node in self.pairs if node not in found and (mine := self._left(node, found))}
            often = {node: mine for node, mine in open_.items() if sum(mine.values()) >= LEAST_CONFIRMED}
            several = {node: mine for node, mine in often.items() if len(mine) >= WITNESSES}
            if not several or len(several) > most:
                return {**found, **often}
            node = max(several, key=lambda each: (len(several[each]), sum(several[each].values()), each))
            found[node] = several[node]

    def _left(self, node: str, blamed: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
        """Return a node's stalls by partner, without those for which a partner that is to blame answers."""
        return {
            other: count
            for other, count in self.pairs[node].items()
            if sum(blamed.get(other, {}).values()) - blamed.get(other, {}).get(node, 0) < LEAST_CONFIRMED
        }

    def finding(self, node: str, blamed: Mapping[str, Mapping[str, int]]) -> Finding:
        """Return one node's finding."""
        mine = blamed.get(node) or self._left(node, blamed) if node in self.pairs else {}
        count, most = sum(mine.values()), LEAST_CONFIRMED - 1
        if node not in self.heard:
            said = "nothing was told of its stalls"
            said += ": it took part in nccl-tests alone, which tells of none" if node in self.unwatched else ""
            return Finding(STALL_CHECK, SUBJECT, INCOMPLETE, None, most, UNIT, said, "investigate")
        share = f" ({count / self.exchanges[node]:.2%})" if self.exchanges[node] else ""
        said = f"{count} of {self.exchanges[node]} exchanges{share} stalled for {self.limit:g} ms and more"
        if mine:
            named = [other if other != node else "itself" for other in sorted(mine)]
            said += f", with {', '.join(named[:_NAMED])}"
            said += f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        longest, place = self.longest.get(node, (0.0, ""))
        said += f"; the longest for {longest:.0f} ms {place}" if place else "; none was longer than 10 ms"
        if node in blamed:
            said += ": suspect this node" if len(mine) >= WITNESSES else ": suspect either, or what lies between them"
        elif node in self.together:
            said = self.together[node]
        else:
            return Finding(STALL_CHECK, SUBJECT, PASS, count, most, UNIT, said)
        return Finding(STALL_CHECK, SUBJECT, INCOMPLETE, count or None, most, UNIT, said, "investigate")


def with_stalls(conclusion: Conclusion, seen: Seen, settings: Settings) -> Conclusion:
    """Return the conclusion with a finding on every node's stalls; whoever stalled too often is held."""
    stalled = Stalled.of(seen, settings)
    blamed = stalled.blamed(max(settings.hold.nodes, settings.hold.share * len(stalled.heard)))
    mine = {node: stalled.finding(node, blamed) for node in conclusion.findings}
    findings = {node: (*own, mine[node]) for node, own in conclusion.findings.items()}
    held, doubted = dict(conclusion.held), dict(conclusion.doubted)
    for node in (*blamed, *stalled.together):
        if node in findings and all(each.verdict != FAIL for each in findings[node]):
            held.setdefault(node, mine[node].reason)
        elif node in blamed and node not in findings:
            doubted.setdefault(node, stalled.finding(node, blamed).reason)
    return replace(conclusion, findings=findings, held=held, doubted=doubted)


def _exchanges(plan: Mapping[str, Any], group: Sequence[str]) -> dict[str, int]:
    """Return how many exchanges of pairs each node of a job was to have."""
    counts = np.zeros(len(group), dtype=np.int64)
    for phase in phases_of(plan, group):
        if phase.get("kind") == "pairs":
            _step, one, other, _steps = phase_pairs(phase, len(group))
            each = len(phase["sizes"]) * int(phase["iterations"])
            counts += each * (np.bincount(one, minlength=len(group)) + np.bincount(other, minlength=len(group)))
    return dict(zip(group, counts.tolist(), strict=True))
