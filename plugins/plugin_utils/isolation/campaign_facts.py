"""What is known of a campaign, frozen, and who in it is proven: everything else follows from these two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import (
    SUSPECTS_AGAIN,
    judged_sizes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import Judged, Operation, judged_groups
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.groups_of_two import GroupsOfTwo
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Exchanges, Halt, Matrix

WALK, REST, APART, CONFIRM, GROUPS, SUSPECTS = "walk", "rest", "apart", "confirm", "groups", "suspects"
SWEEPS = (WALK, REST, APART)
# A node is an outlier beyond so many times what sound nodes lie apart.
NODE_SIGMAS = 3.5

Wrong = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Hung:
    """Why a node is kept out of other jobs, whom it kept waiting, and in which collective that was at first.

    ``inside`` are the rounds in which it stood still by itself. Asked again it was so often (``asked``); ``again``: it
    hung then as well, ``well``: it did not, with nodes that are proven.
    """

    why: str
    waiting: frozenset[str]
    collective: str = ""
    inside: frozenset[int] = frozenset()
    asked: int = 0
    again: bool = False
    well: bool = False


@dataclass(frozen=True)
class Facts:
    """What the finished rounds of a campaign showed.

    ``plans`` are the rounds by number; ``sweep`` is the pairwise sweep and what might explain its slow exchanges are
    ``suspects``; ``again`` are the exchanges of later rounds, and ``channels`` hold both against what should be.
    ``clocks`` says by node whose clock is odd by which factor, which is taken out of both. ``idle`` are nodes in
    service that no job was on when the latest round ended, None if nobody told.
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
    clocks: Mapping[int, float] = field(default_factory=dict)
    idle: frozenset[str] | None = None

    @cached_property
    def tested(self) -> frozenset[str]:
        """Return the members, to look one up."""
        return frozenset(self.members)

    @cached_property
    def single(self) -> Sequence[Suspect]:
        """Return the suspects that are single nodes."""
        return [each for each in self.suspects if each.kind in (NODE, LINK, INTERMITTENT)]

    @cached_property
    def pairs(self) -> Sequence[Suspect]:
        """Return the suspects that are pairs."""
        return [each for each in self.suspects if each.kind == PAIR]

    def names(self, nodes: Iterable[int]) -> list[str]:
        """Return the names of nodes."""
        return [self.matrix.nodes[each] for each in nodes]

    def of_kind(self, *kinds: str) -> list[Mapping[str, Any]]:
        """Return the plans of the finished rounds of these kinds."""
        return [plan for _number, plan in sorted(self.plans.items()) if plan.get("kind") in kinds]

    @cached_property
    def measured_again(self) -> dict[tuple[int, ...], list[int]]:
        """Return by pair of nodes the rows of later rounds that are measured at every size."""
        found: dict[tuple[int, ...], list[int]] = {}
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
    def asked(self) -> dict[tuple[int, tuple[str, ...]], str]:
        """Return by round and job who is asked there again, with a node that is trusted, because something hung on it.

        Such jobs run in rounds of their own, or beside what everybody else does in the first job of the round.
        """
        return {
            (number, tuple(job)): job[0]
            for number, plan in self.plans.items()
            if plan.get("kind") in (WALK, REST, CONFIRM, GROUPS, SUSPECTS)
            for job in plan["groups"][0 if plan["kind"] == SUSPECTS else 1 :]
        }

    @cached_property
    def halts(self) -> list[Halt]:
        """Return the jobs that did not come to their end, but those that ask again on whom something hung."""
        return [halt for halt in self.matrix.halts if (halt.number, halt.group) not in self.asked]

    @cached_property
    def hung(self) -> dict[str, Hung]:
        """Return on whom jobs hung or crashed, but those for whom another answers.

        That is who hung again, where each time just one of two did and the second one went well with a trusted node.
        """
        found, shared = self._accused
        return {
            node: hung
            for node, hung in found.items()
            if hung.again or not hung.well or not all(other in found and found[other].again for other in shared[node])
        }

    @property
    def cleared(self) -> list[str]:
        """Return on whom jobs hung for which another answers."""
        return [node for node in self._accused[0] if node not in self.hung]

    @cached_property
    def _accused(self) -> tuple[dict[str, Hung], dict[str, list[str]]]:
        """Return on whom jobs hung or crashed, and who else is in question for it each time, "" where nobody is."""
        found: dict[str, Hung] = {}
        shared: dict[str, list[str]] = {}
        halted = set()
        for halt in self.matrix.halts:
            halted.add((halt.number, halt.group))
            if not halt.started:
                continue
            asked, suspects = self.asked.get((halt.number, halt.group), ""), dict(halt.suspects)
            if not suspects and asked and not halt.unavailable:
                suspects = {asked: halt.error}
            elif not suspects and len(halt.group) == 2 and not asked:
                suspects = dict.fromkeys(halt.group, halt.error)
            if asked in suspects:
                # It is in question, and the other one is there to tell about it.
                suspects = {asked: suspects[asked]}
            for node, why in suspects.items():
                if node in halt.unavailable or (asked and node in self.partners):
                    continue
                other = halt.partners.get(node, "")
                if len(halt.group) == 2:
                    other = halt.group[1 - halt.group.index(node)]
                said = f"{why} (round {halt.number}: {halt.error})"
                its = found.get(node) or Hung(said, frozenset(), self._collective(halt))
                waiting = its.waiting | ({other} - {""})
                inside = its.inside | ({halt.number} if node in halt.inside else set())
                found[node] = replace(its, waiting=waiting, inside=inside, again=its.again or node == asked)
                if node != asked:
                    shared.setdefault(node, []).append(other if other in suspects else "")
        for (number, job), node in self.asked.items():
            if node in found:
                met = len(job) == 1 or any(self.times_again[node, other] for other in job[1:])
                well = met and (number, job) not in halted
                found[node] = replace(found[node], asked=found[node].asked + 1, well=found[node].well or well)
        return found, shared

    def _collective(self, halt: Halt) -> str:
        phases = (self.plans[halt.number].get("program") or {}).get("moves", ())
        return next((str(each.get("collective", "")) for each in phases if each["name"] == halt.phase), "")

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
    def of_two(self) -> GroupsOfTwo:
        """Return what groups of two nodes showed."""
        # What hung measured nobody, and is measured again.
        halted = {halt.number for halt in self.halts}
        return GroupsOfTwo.of(self.groups, {at: plan for at, plan in self.plans.items() if at not in halted})

    @cached_property
    def owed_of_two(self) -> list[Operation]:
        """Return what every member is to be measured by in a group of two."""
        sizes = judged_sizes(self.settings)
        return [("group_bandwidth", each, size) for each in self.settings.groups.collectives for size in sizes]

    @cached_property
    def slow_inside(self) -> dict[str, list[Judged]]:
        """Return by member of whom there are any the measurements inside the node that were bad.

        What an odd clock times alone tells nothing: whose it is is held for it, and no measure for others.
        """
        found: dict[str, list[Judged]] = {}
        odd = set(self.names(self.clocks))
        matrix = replace(self.matrix, groups=[each for each in self.matrix.groups if odd.isdisjoint(each.nodes)])
        for each in judged_groups(matrix, self.settings, "inside"):
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
            suspected = exchanges.touching([each.members[0] for each in self.single])
            told = ~self.explained & ~suspected & ~np.isnan(x)
            if self.channels[at].typical is not None:
                told &= self.sweep.between(self.channels[at].typical)
            rows = np.flatnonzero(told)
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
    out = {*facts.hung, *matrix.unavailable, *matrix.unreadable, *facts.ask_inside, *nodes, *facts.names(facts.clocks)}
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
                fine &= (channel.again if again else channel.x) <= channel.beyond_noise
            met[exchanges.one[fine]] = met[exchanges.other[fine]] = True
    return met
