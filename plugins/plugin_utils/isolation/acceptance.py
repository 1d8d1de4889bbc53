"""Which round of acceptance collectives to run next, and, once enough is known, what is concluded about every node.

Pure: the same nodes and observations always give the same answer, so an interrupted campaign goes on from its record.
First one step in which every node meets every other (the walk); then one that measures what is suspected again, with
partners that are proven, and beside that the groups along the topology of everyone else. A third only where something
is still open: the groups of who was cleared, the rest of a walk that hung, those on whom it hung.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.module_utils.pairing import pairs as pairs_of
from ansible_collections.muster.cluster.plugins.module_utils.pairing import rounds_of
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.rounds import Conclusion, Round, across_racks
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation import schedule
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import SENDRECV, Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Halt, Matrix, Seen, matrix_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.mini_cluster import MiniClusters
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.settling import Settled, settle
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.telling import details, told
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.verdicts import conclusion_of, unjudged
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.view import view_of

__all__ = ["conclude_early", "details", "next_round", "told"]

WALK, REST, APART, CONFIRM, GROUPS, SUSPECTS = "walk", "rest", "apart", "confirm", "groups", "suspects"
MINI_CLUSTERS = "mini_clusters"
WALKS = (WALK, REST, APART)
# Campaigns end: so many walks that hang or do not start, and so many rounds of groups.
MOST_WALKS, MOST_GROUPS, MOST_UNSTARTED = 5, 4, 2
# A node that is tested alone meets so many nodes in service: with two, one that went bad meanwhile is told from it.
PARTNERS = 2


def next_round(members: Iterable[str], partners: Iterable[str], seen: Seen, settings: Settings) -> Round | Conclusion:
    """Return the next round, or the conclusion once another round would tell nothing more.

    ``partners`` are nodes already in service: they vouch for others where nobody in the campaign can, nothing is
    concluded about them. ``seen`` has, by finished round and job, its number, its plan and its observation.
    """
    names = sorted(set(members))
    fault = settings.fault()
    if fault:
        return Conclusion({node: unjudged(settings, fault) for node in names})
    campaign = Campaign(names, partners, seen, settings)
    return campaign.next_round() or conclusion_of(campaign.settled, settings)


def conclude_early(
    members: Iterable[str], partners: Iterable[str], seen: Seen, settings: Settings, reason: str
) -> Conclusion:
    """Return what is known when the campaign has to stop: nobody passes, who is convicted already stays so."""
    names = sorted(set(members))
    fault = settings.fault()
    if fault:
        return Conclusion({node: unjudged(settings, fault) for node in names})
    return conclusion_of(Campaign(names, partners, seen, settings).settled, settings, stopped=reason)


class Campaign:
    """What a campaign has seen so far, what follows from it, and what to do next."""

    def __init__(self, members: Sequence[str], partners: Iterable[str], seen: Seen, settings: Settings) -> None:
        self.settings = settings
        self.members = list(members)
        self.partners = sorted(set(partners) - set(members))
        self.seen = sorted(seen, key=lambda each: each[0])
        self.plans: dict[int, Mapping[str, Any]] = {number: plan for number, plan, _item in self.seen}
        places = settings.places
        self.place = {node: (places.get(node) or {}).get("rack") for node in (*self.members, *self.partners)}
        # Neighbours lie side by side, so that the shifts of a walk mostly pair nodes that lie apart.
        self.order = sorted(self.place, key=self._position)
        spread = settings.straggler is not None or any(each.collective == SENDRECV for each in settings.latency)
        sizes, rails = settings.pairs.sizes_bytes, settings.ranks_per_node
        self.matrix: Matrix = matrix_of(self.order, self.seen, sizes, rails, spread)
        walks = [number for number, plan in self.plans.items() if plan.get("kind") in WALKS]
        self.view = view_of(self.matrix, self.members, settings, walks)
        self.settled: Settled = settle(self.view, self.members, self.partners, self.plans)
        self.mini_clusters = MiniClusters(self.members, self.matrix, self.plans, settings)

    def _position(self, node: str) -> tuple[str, str, str]:
        place = self.settings.places.get(node) or {}
        return (str(place.get("pod") or ""), str(place.get("rack") or ""), node)

    @property
    def number(self) -> int:
        """Return the number of the next round."""
        return max(self.plans, default=0) + 1

    def next_round(self) -> Round | None:
        """Return the next round, None when no other would tell more."""
        return self._walk() or self._second() or self._train() or self._mini_clusters() or self._hung()

    def _of_kind(self, *kinds: str) -> list[int]:
        return [number for number, plan in sorted(self.plans.items()) if plan.get("kind") in kinds]

    def _usable(self, nodes: Iterable[str]) -> list[str]:
        gone = {*self.matrix.unavailable, *self.settled.hung}
        wanted = set(nodes) - gone
        return [node for node in self.order if node in wanted]

    def _walk(self) -> Round | None:
        """Return the walk, or what is left of it after it hung or could not start."""
        walks = self._of_kind(*WALKS)
        if not walks:
            return self._walk_round()
        if len(walks) >= MOST_WALKS or not self._usable(self.members):
            return None
        halts = [halt for halt in self.matrix.halts if halt.number == walks[-1]]
        if not halts:
            return self._walk_round() if self.plans[walks[-1]]["kind"] == APART and self.settled.good else None
        unstarted = [halt for halt in self.matrix.halts if not halt.started and not halt.unavailable]
        if len(unstarted) >= MOST_UNSTARTED:
            return None
        if self.plans[walks[-1]]["kind"] == APART:
            return self._walk_round() if self.settled.good else None
        halt = halts[0]
        if not halt.started:
            return self._walk_round()
        if not halt.suspects and not halt.unavailable:
            jobs = across_racks(self._usable(self.members), self.place)
            if not jobs:
                return None
            return self._round(APART, jobs, [schedule.walk_move([0] * schedule.PAIR_REPEATS, self.settings)])
        return self._rest(halt)

    def _walk_round(self) -> Round | None:
        usable = self._usable(self.members)
        if len(usable) == 1:
            usable += self._usable(self.partners)[:PARTNERS]
        if len(usable) < 2:
            return None
        inside = schedule.inside_move(self.settings)
        moves = [inside] if inside and not any(each.kind == "inside" for each in self.matrix.groups) else []
        return self._round(WALK, [usable], [*moves, schedule.walk_move(self._shifts(len(usable)), self.settings)])

    def _shifts(self, count: int) -> list[int]:
        return schedule.walk_shifts(count, self.settings)

    def _rest(self, halt: Halt) -> Round | None:
        """Return the walk from the permutation at which it hung, without those on whom it hung."""
        usable = self._usable(halt.group)
        if len(usable) < 2:
            return None
        moves = self.plans[halt.number]["program"]["moves"]
        at = next((index for index, move in enumerate(moves) if move["name"] == halt.move), 0)
        if moves[at]["kind"] != "pairs":
            return self._walk_round()
        steps = _steps_of(moves[at], len(halt.group))
        position = {node: index for index, node in enumerate(usable)}
        measured = self._measured(halt.number)
        rest: list[list[tuple[int, int]]] = []
        for number in range(halt.step, len(steps)):
            named = [(halt.group[one], halt.group[other]) for one, other in steps[number]]
            kept = [
                (position[one], position[other])
                for one, other in named
                if one in position and other in position and (number, one, other) not in measured
            ]
            if kept:
                rest.append(kept)
        if not rest:
            return None
        return self._round(REST, [usable], [schedule.rest_move(rest, self.settings)])

    def _measured(self, number: int) -> set[tuple[int, str, str]]:
        """Return the exchanges of a round that are measured at every size: permutation and both nodes, either way."""
        matrix = self.matrix
        rows = np.flatnonzero((matrix.number == number) & ~np.isnan(matrix.gb).any(axis=(1, 2)))
        found = set()
        for step, one, other in zip(
            matrix.step[rows].tolist(), matrix.one[rows].tolist(), matrix.other[rows].tolist(), strict=True
        ):
            found |= {
                (step, matrix.nodes[one], matrix.nodes[other]),
                (step, matrix.nodes[other], matrix.nodes[one]),
            }
        return found

    def _second(self) -> Round | None:
        """Return the step that asks suspects again and runs the groups of everyone else, None if nothing is open."""
        done = self._of_kind(CONFIRM, GROUPS)
        if len(done) >= MOST_GROUPS:
            return None
        settled = self.settled
        asked = bool(self._of_kind(CONFIRM))
        meetings = [each for each in settled.meetings if not settled.asked(each) and not (asked and each.weak)]
        meetings = [
            each for each in meetings if len(self._usable({each.node, each.other or each.node})) == 1 + bool(each.other)
        ]
        trusted = self._usable(settled.trusted)
        if not any(node in settled.good for node in trusted):
            # Nobody in the campaign is proven: those in service have to be, by one another.
            trusted = self._usable(self.partners)
        steps = schedule.confirmations(meetings, trusted, self.place) if meetings else []
        groups = self._levels()
        if not steps and not groups:
            return None
        used = {node for step in steps for pair in step for node in pair}
        used |= {node for level in groups.values() for group in level for node in group}
        job = [node for node in self.order if node in used]
        position = {node: index for index, node in enumerate(job)}
        moves: list[dict[str, Any]] = []
        inside = schedule.inside_move(self.settings)
        if inside and settled.ask_inside and not done:
            job = self._usable({*job, *settled.ask_inside})
            position = {node: index for index, node in enumerate(job)}
            moves.append(inside)
        if steps:
            pairs = [[(position[one], position[other]) for one, other in step] for step in steps]
            moves.append(schedule.rest_move(pairs, self.settings, "confirm"))
        placed = {level: [[position[node] for node in group] for group in found] for level, found in groups.items()}
        moves += schedule.group_moves(placed, self.settings)
        if groups:
            moves += self.mini_clusters.moves(job, groups["all"][0])
        if self.settings.train is not None and not steps and "all" in placed and len(placed["all"][0]) == len(job):
            moves.append(schedule.train_move(self.settings))
        return self._round(CONFIRM if steps else GROUPS, [job], moves)

    def _train(self) -> Round | None:
        """Return the training step of all that are left, where others took part in the step of their groups."""
        eligible = [node for node in self._usable(self.members) if node in self.settled.eligible]
        rounds = self._of_kind(CONFIRM, GROUPS)
        if self.settings.train is None or len(eligible) < 2 or len(rounds) >= MOST_GROUPS:
            return None
        if self.settled.trained(eligible):
            return None
        return self._round(GROUPS, [eligible], [schedule.train_move(self.settings)])

    def _mini_clusters(self) -> Round | None:
        """Return the mini-clusters that are asked again, or filled up with nodes in service."""
        eligible = [node for node in self._usable(self.members) if node in self.settled.eligible]
        partners = [node for node in self._usable(self.partners) if node not in self.settled.doubted]
        found = self.mini_clusters.next_round(self.order, eligible, partners)
        return None if found is None else self._round(MINI_CLUSTERS, [found[0]], found[1])

    def _levels(self) -> dict[str, list[list[str]]]:
        """Return the groups along the topology that are still to be measured, by level, of those not suspected."""
        settled = self.settled
        eligible = [node for node in self._usable(self.members) if node in settled.eligible]
        if len(eligible) == 1:
            if any(settled.covered([*eligible, partner]) for partner in self.partners):
                return {}
            helpers = [node for node in self._usable(self.partners) if node in set(settled.trusted)]
            eligible = [node for node in self.order if node in {*eligible, *helpers[:1]}]
        if len(eligible) < 2 or settled.covered(eligible):
            return {}
        levels: dict[str, list[list[str]]] = {}
        members = set(self.members)
        for level in ("rack", "pod"):
            # Within its rack who is suspected of nothing but its boundary runs as well.
            inner = {*eligible, *(settled.bounded if level == "rack" else ())}
            by_unit: dict[str, list[str]] = {}
            for node in self._usable(inner):
                unit = (self.settings.places.get(node) or {}).get(level)
                if unit is not None and node in members:
                    by_unit.setdefault(unit, []).append(node)
            groups = [group for _unit, group in sorted(by_unit.items()) if len(group) > 1]
            if groups and groups != [eligible] and groups not in levels.values():
                levels[f"{level}s"] = groups
        levels["all"] = [eligible]
        return levels

    def _hung(self) -> Round | None:
        """Return jobs of those on whom something hung, each with a trusted node, so that only they can hang."""
        if self._of_kind(SUSPECTS):
            return None
        settled = self.settled
        asked = [node for node in settled.hung if node in self.members and node not in self.matrix.unavailable]
        passed = self._usable(settled.good & set(settled.trusted))
        free = [*passed, *(node for node in self._usable(self.partners) if node not in passed)]
        jobs = []
        for node in asked:
            met = settled.hung_with.get(node, set())
            other = next((each for each in free if each not in met), None)
            if other is None:
                continue
            free.remove(other)
            jobs.append((node, other))
        if not jobs:
            return None
        return self._round(SUSPECTS, jobs, [schedule.walk_move([0] * schedule.PAIR_REPEATS, self.settings)])

    def _round(self, kind: str, groups: Iterable[Sequence[str]], moves: Sequence[Mapping[str, Any]]) -> Round:
        return Round(self.number, kind, tuple(tuple(group) for group in groups), {"moves": list(moves)})


def _steps_of(move: Mapping[str, Any], count: int) -> list[list[tuple[int, int]]]:
    if "pairs" in move:
        return [[(int(one), int(other)) for one, other in step] for step in move["pairs"]]
    return [pairs_of(count, shift) if shift < rounds_of(count) else [] for shift in move["shifts"]]
