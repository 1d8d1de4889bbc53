"""What is known of a campaign, frozen, and who in it is proven: everything else follows from these two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import WITNESSES
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BOUNDARY,
    INTERMITTENT,
    LEAST_SPREAD,
    LINK,
    MAD_SIGMA,
    NODE,
    PAIR,
    Channel,
    Suspect,
    Sweep,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import SUSPECTS_AGAIN
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import Judged, judged_groups
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Exchanges, Matrix

CONFIRM, SUSPECTS = "confirm", "suspects"
# A node is an outlier beyond so many times what sound nodes lie apart.
NODE_SIGMAS = 3.5

Wrong = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Hung:
    """Why a node is kept out of other jobs, and whom it kept waiting."""

    why: str
    waiting: frozenset[str]


@dataclass(frozen=True)
class Facts:
    """What the finished rounds of a campaign showed.

    ``plans`` are the rounds by number; ``sweep`` is the pairwise sweep and what might explain its slow exchanges are
    ``suspects``; ``again`` are the exchanges of later rounds, and ``channels`` hold both against what should be.
    """

    settings: Settings
    members: tuple[str, ...]
    partners: tuple[str, ...]
    plans: Mapping[int, Mapping[str, Any]]
    matrix: Matrix
    sweep: Sweep
    again: Exchanges
    channels: tuple[Channel, ...]
    suspects: tuple[Suspect, ...]

    @cached_property
    def tested(self) -> frozenset[str]:
        """Return the members, to look one up."""
        return frozenset(self.members)

    def names(self, nodes: Iterable[int]) -> list[str]:
        """Return the names of nodes."""
        return [self.matrix.nodes[each] for each in nodes]

    def of_kind(self, *kinds: str) -> list[Mapping[str, Any]]:
        """Return the plans of the finished rounds of these kinds."""
        return [plan for _number, plan in sorted(self.plans.items()) if plan.get("kind") in kinds]

    @cached_property
    def measured_again(self) -> dict[tuple[int, int], list[int]]:
        """Return by pair of nodes the rows of later rounds that are measured at every size."""
        found: dict[tuple[int, int], list[int]] = {}
        rows = np.flatnonzero(self.again.known)
        pairs = zip(self.again.one[rows].tolist(), self.again.other[rows].tolist(), strict=True)
        for row, pair in zip(rows.tolist(), pairs, strict=True):
            found.setdefault(pair, []).append(row)
        return found

    @cached_property
    def times_again(self) -> Counter[tuple[str, str]]:
        """Return how often two nodes, or a node with anybody (and ""), were measured again."""
        found: Counter[tuple[str, str]] = Counter()
        for pair, rows in self.measured_again.items():
            one, other = self.names(pair)
            for key in ((one, other), (other, one), (one, ""), (other, "")):
                found[key] += len(rows)
        return found

    @cached_property
    def confirming_jobs(self) -> list[set[str]]:
        """Return who was in a job that measured suspects again; in some of its kind racks meet, and nothing else."""
        return [
            set(job)
            for plan in self.of_kind(CONFIRM)
            if any(phase["name"] == SUSPECTS_AGAIN for phase in (plan.get("program") or {}).get("moves", ()))
            for job in plan["groups"]
        ]

    @cached_property
    def hung(self) -> dict[str, Hung]:
        """Return on whom jobs hung or crashed."""
        found: dict[str, Hung] = {}
        for halt in self.matrix.halts:
            if not halt.started:
                continue
            suspects = dict(halt.suspects)
            if len(halt.group) == 2 and not suspects:
                suspects = dict.fromkeys(halt.group, halt.error)
            for node, why in suspects.items():
                if len(halt.group) == 2:
                    other = halt.group[1 - halt.group.index(node)]
                    if node in self.partners or (other in found and node not in found):
                        # The other one is already in question, and this one was to tell about it.
                        continue
                else:
                    other = halt.partners.get(node, "")
                if node in halt.unavailable:
                    continue
                before = found.get(node, Hung(f"{why} (round {halt.number}: {halt.error})", frozenset()))
                found[node] = Hung(before.why, before.waiting | ({other} - {""}))
        return found

    @cached_property
    def wrong(self) -> Wrong:
        """Return by node the partners with which data was wrong, and how often."""
        found: dict[str, dict[str, int]] = {}
        for each in self.matrix.wrong:
            if each.sender is not None:
                for one, other in ((each.receiver, each.sender), (each.sender, each.receiver)):
                    found.setdefault(one, {})[other] = found.setdefault(one, {}).get(other, 0) + 1
        return found

    @cached_property
    def groups(self) -> list[Judged]:
        """Return how the groups along the topology did."""
        return judged_groups(self.matrix, self.settings, "groups")

    @cached_property
    def slow_inside(self) -> dict[str, list[Judged]]:
        """Return by member of whom there are any the measurements inside the node that were bad."""
        found: dict[str, list[Judged]] = {}
        for each in judged_groups(self.matrix, self.settings, "inside"):
            if each.nodes[0] in self.tested and any(part.bad for part in each.parts):
                found.setdefault(each.nodes[0], []).append(each)
        return {node: found[node] for node in self.members if node in found}

    def rounds_inside(self, node: str) -> set[int]:
        """Return the rounds that measured the node by itself."""
        return {each.number for each in self.matrix.groups if each.kind == "inside" and each.nodes[0] == node}

    @cached_property
    def ask_inside(self) -> set[str]:
        """Return who is to be measured by itself again: who was so once and not again is asked no more."""
        return {
            node
            for node, bad in self.slow_inside.items()
            if len(self.rounds_inside(node)) == len({each.number for each in bad})
        }

    @cached_property
    def explained(self) -> Any:
        """Return the rows of the sweep across a boundary that was found slow."""
        rows = np.zeros(len(self.sweep.exchanges.one), dtype=bool)
        for suspect in self.suspects:
            if suspect.kind == BOUNDARY:
                rows[self.sweep.exchanges.across(suspect.members, suspect.beyond)] = True
        return rows

    @cached_property
    def _spreads(self) -> dict[int, float]:
        return {}

    def spread_of_nodes(self, at: int) -> float:
        """Return how far apart sound nodes lie by themselves in a channel: one is an outlier only beyond a multiple."""
        if at not in self._spreads:
            exchanges, x = self.sweep.exchanges, self.channels[at].x
            rows = np.flatnonzero(~self.explained & ~np.isnan(x))
            values, size = np.clip(x[rows], -0.2, 0.2), exchanges.count
            one, other = exchanges.one[rows], exchanges.other[rows]
            total = np.bincount(one, values, size) + np.bincount(other, values, size)
            counts = np.bincount(one, minlength=size) + np.bincount(other, minlength=size)
            means = total[counts > 0] / counts[counts > 0]
            spread = MAD_SIGMA * float(np.median(np.abs(means - np.median(means)))) if len(means) else 0.0
            self._spreads[at] = max(spread, LEAST_SPREAD)
        return self._spreads[at]

    def least_slowdown(self, at: int) -> float:
        """Return how slow a node may be in a channel: the margin, or as far from its peers as sound nodes are."""
        margin = self.settings.cohort.margin
        return margin if self.channels[at].limit else max(margin, NODE_SIGMAS * self.spread_of_nodes(at))


@dataclass(frozen=True)
class Reference:
    """Who is proven. ``good`` were so with others that are; ``nodes`` may tell about suspects, ``chosen`` by number.

    ``doubted`` says of nodes in service why they may not.
    """

    good: frozenset[str]
    nodes: tuple[str, ...]
    chosen: Any
    doubted: Mapping[str, str]


def in_common(wrong: Wrong) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the nodes that several wrong exchanges have in common, and the pairs of those that none explains."""
    left = {node: set(others) for node, others in wrong.items()}
    nodes: list[str] = []
    while left:
        node = min(left, key=lambda each: (-len(left[each]), each))
        if len(left[node]) < WITNESSES:
            break
        nodes.append(node)
        for other in left.pop(node):
            left.get(other, set()).discard(node)
    pairs = {(min(node, other), max(node, other)) for node, others in left.items() for other in others}
    return nodes, sorted(pairs)


def reference_of(facts: Facts) -> Reference:
    """Return who is proven by exchanges with others that are: nobody suspected, or of whom too little is known."""
    matrix, partners = facts.matrix, facts.partners
    nodes, pairs = in_common(facts.wrong)
    out = {*facts.hung, *matrix.unavailable, *matrix.unreadable, *facts.ask_inside, *nodes}
    out |= {node for pair in pairs for node in pair}
    blamed = _suspected(facts)
    blamed[[matrix.index[node] for node in out if node in matrix.index]] = True
    met = _good_exchanges(facts, blamed)
    proven = [node for index, node in enumerate(matrix.nodes) if met[index]]
    doubted = {
        node
        for suspect in facts.suspects
        if suspect.kind in (NODE, LINK)
        for node in facts.names(suspect.members)
        if node in partners and proven
    }
    mine = [node for node in proven if node in facts.tested]
    helpers = [node for node in partners if node not in doubted and node not in out]
    trusted = tuple(mine if len(mine) > WITNESSES else [*mine, *helpers])
    chosen = np.zeros(len(matrix.nodes), dtype=bool)
    chosen[[matrix.index[node] for node in trusted]] = True
    why = dict.fromkeys(sorted(doubted), "slow with nodes that are not with others")
    return Reference(frozenset(proven), trusted, chosen, why)


def _suspected(facts: Facts) -> Any:
    """Return by node whether it is suspected; pairs count unless there are so many that noise makes them."""
    found = np.zeros(len(facts.matrix.nodes), dtype=bool)
    strong = [each for each in facts.suspects if each.kind == PAIR and each.strong]
    few = 2 * len(strong) <= facts.settings.hold.share * max(facts.sweep.peers, 5)
    for suspect in facts.suspects:
        if suspect.kind != PAIR or (suspect.strong and few):
            found[list(suspect.behind)] = True
    return found


def _good_exchanges(facts: Facts, blamed: Any) -> Any:
    """Return by node whether it had an exchange that was good on all rails together, with neither side blamed."""
    met = np.zeros(len(facts.matrix.nodes), dtype=bool)
    channels = [
        each for each in facts.channels if each.rail is None and each.check in ("pair_bandwidth", "pair_latency")
    ]
    if channels:
        for exchanges, again in ((facts.sweep.exchanges, False), (facts.again, True)):
            fine = exchanges.known & ~blamed[exchanges.one] & ~blamed[exchanges.other]
            for channel in channels:
                fine &= (channel.again if again else channel.x) <= max(channel.threshold, 3 * channel.sigma)
            met[exchanges.one[fine]] = met[exchanges.other[fine]] = True
    return met


def slow_kinds(facts: Facts) -> Sequence[Suspect]:
    """Return the suspects that are single nodes."""
    return [each for each in facts.suspects if each.kind in (NODE, LINK, INTERMITTENT)]
