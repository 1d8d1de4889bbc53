"""Which round of acceptance collectives to run next, and, once enough is known, what is concluded about every node.

Pure: the same nodes and observations always give the same answer, so an interrupted campaign goes on from its record.
First one step in which every node meets every other (the pairwise sweep); then one that measures what is suspected
again, with partners that are proven, and beside that the groups along the topology of everyone else, and racks that
NVLink joins where somebody met too few of its own. A third only where something is still open: the groups of who was
cleared, the rest of a sweep that hung, those on whom it hung.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import (
    WITNESSES,
    reference_nodes,
    with_reference_nodes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round, across_racks
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation import collective_programs as programs
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import CLEARED, HELD, judged
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import CONFIRM, SUSPECTS, Facts
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BOUNDARY,
    Suspect,
    Sweep,
    Topology,
    limited,
    measured_again,
    swept,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import SENDRECV, Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import possible
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import (
    Halt,
    Readings,
    Seen,
    pairs_of_phases,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.mini_cluster import MiniClusters
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.network_findings import conclusion_of, unjudged
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.retests import (
    IN_VAIN,
    PAIR_REPEATS,
    is_answered,
    permutations_of,
    retests_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.suspects import explain

WALK, REST, APART, GROUPS = "walk", "rest", "apart", "groups"
MINI_CLUSTERS = "mini_clusters"
SWEEPS = (WALK, REST, APART)
# Campaigns end: so many sweeps that hang or do not start, and so many rounds of groups.
MOST_SWEEPS, MOST_GROUPS, MOST_UNSTARTED = 5, 4, 2
# A node that is tested alone meets so many nodes in service: with two, one that went bad meanwhile is told from it.
PARTNERS = 2


def next_round(members: Iterable[str], partners: Iterable[str], seen: Seen, settings: Settings) -> Round | Conclusion:
    """Return the next round, or the conclusion once another round would tell nothing more (see Planner)."""
    return Planner(members, partners, settings).next_round(seen)


def conclude_early(
    members: Iterable[str], partners: Iterable[str], seen: Seen, settings: Settings, reason: str
) -> Conclusion:
    """Return what is known when the campaign has to stop: nobody passes, who is confirmed bad already stays so."""
    return Planner(members, partners, settings).conclude_early(seen, reason)


class Planner:
    """Plans one campaign: answers by what it is asked alone, and keeps what it has read and worked out of it.

    ``partners`` are nodes already in service: they tell about others where nobody in the campaign can, nothing is
    concluded about them. ``seen`` has, by finished round and job, its number, its plan and its observation.
    """

    def __init__(self, members: Iterable[str], partners: Iterable[str], settings: Settings) -> None:
        self.settings = settings
        self.members = tuple(sorted(set(members)))
        self.partners = tuple(sorted(set(partners) - set(self.members)))

        def position(node: str) -> tuple[str, str, str]:
            place = settings.places.get(node) or {}
            return (str(place.get("pod") or ""), str(place.get("rack") or ""), node)

        # Neighbours lie side by side, so that the shifts of a sweep mostly pair nodes that lie apart.
        self.order = sorted((*self.members, *self.partners), key=position)
        self.fault = settings.fault()
        spread = settings.straggler is not None or any(each.collective == SENDRECV for each in settings.latency)
        self._readings = Readings(self.order, settings.pairs.sizes_bytes, settings.ranks_per_node, spread)
        self._topology = Topology.of(self.order, settings.places)
        self._swept: tuple[Any, Sweep, tuple[Suspect, ...]] | None = None

    def next_round(self, seen: Seen) -> Round | Conclusion:
        """Return the next round, or the conclusion once another round would tell nothing more."""
        if self.fault:
            return self._unjudged()
        campaign = Campaign(self.facts(seen), self.order)
        return campaign.next_round() or conclusion_of(campaign.judgement, campaign.mini_clusters)

    def conclude_early(self, seen: Seen, reason: str) -> Conclusion:
        """Return what is known when the campaign has to stop: nobody passes, who is confirmed bad already stays so."""
        if self.fault:
            return self._unjudged()
        campaign = Campaign(self.facts(seen), self.order)
        return conclusion_of(campaign.judgement, campaign.mini_clusters, stopped=reason)

    def _unjudged(self) -> Conclusion:
        return Conclusion({node: unjudged(self.settings, self.fault) for node in self.members})

    def facts(self, seen: Seen) -> Facts:
        """Return what these rounds showed."""
        seen = sorted(seen, key=lambda each: each[0])
        plans = {number: plan for number, plan, _item in seen}
        sweeps = {number for number, plan in plans.items() if plan.get("kind") in SWEEPS}
        matrix = possible(self._readings.matrix(seen, [each for each in seen if each[0] in sweeps]), self.settings)
        again = self._readings.exchanges([each for each in seen if each[0] not in sweeps])
        key = [(number, id(item)) for number, _plan, item in seen if number in sweeps]
        if self._swept is None or self._swept[0] != key or limited(self._swept[1], again) != self._swept[1].limited:
            tested = np.isin(np.array(self.order), np.array(self.members))
            sweep = swept(matrix.exchanges, self._topology, tested, self.settings, again)
            if not any(len(each.one) + len(each.unmeasured[0]) for each in (matrix.exchanges, again)):
                sweep = replace(sweep, channels=(), fabric=(), remarks=())
            self._swept = key, sweep, explain(sweep, matrix.nodes)
        _key, sweep, suspects = self._swept
        about = self.settings, self.members, self.partners, plans
        return Facts(*about, matrix, sweep, again, measured_again(sweep, again), suspects)


class Campaign:
    """What a campaign does next, by what it has seen so far."""

    def __init__(self, facts: Facts, order: Sequence[str]) -> None:
        self.facts, self.order, self.settings = facts, order, facts.settings
        self.members, self.partners = facts.members, facts.partners
        self.matrix, self.plans = facts.matrix, facts.plans
        self.place = {node: (self.settings.places.get(node) or {}).get("rack") for node in order}
        self.judgement = judged(facts)
        self.reference = self.judgement.reference
        self.mini_clusters = MiniClusters(self.members, self.matrix, self.plans, self.settings)
        blamed = {blame.node for blame in self.judgement.blames if blame.verdict != CLEARED}
        # Who runs in groups: nothing speaks against them.
        self.eligible = set(self.members) - {*blamed, *facts.hung, *self.matrix.unavailable}

    @property
    def number(self) -> int:
        """Return the number of the next round."""
        return max(self.plans, default=0) + 1

    def next_round(self) -> Round | None:
        """Return the next round, None when no other would tell more."""
        return self._sweep() or self._second() or self._train() or self._mini_clusters() or self._hung()

    def _of_kind(self, *kinds: str) -> list[int]:
        return [number for number, plan in sorted(self.plans.items()) if plan.get("kind") in kinds]

    def _usable(self, nodes: Iterable[str]) -> list[str]:
        gone = {*self.matrix.unavailable, *self.facts.hung}
        wanted = set(nodes) - gone
        return [node for node in self.order if node in wanted]

    def _sweep(self) -> Round | None:
        """Return the sweep, or what is left of it after it hung or could not start."""
        sweeps = self._of_kind(*SWEEPS)
        if not sweeps:
            return self._sweep_round()
        if len(sweeps) >= MOST_SWEEPS or not self._usable(self.members):
            return None
        halts = [halt for halt in self.matrix.halts if halt.number == sweeps[-1]]
        if not halts:
            return self._sweep_round() if self.plans[sweeps[-1]]["kind"] == APART and self.reference.good else None
        unstarted = [halt for halt in self.matrix.halts if not halt.started and not halt.unavailable]
        if len(unstarted) >= MOST_UNSTARTED:
            return None
        if self.plans[sweeps[-1]]["kind"] == APART:
            return self._sweep_round() if self.reference.good else None
        halt = halts[0]
        if not halt.started:
            return self._sweep_round()
        if not halt.suspects and not halt.unavailable:
            jobs = across_racks(self._usable(self.members), self.place)
            if not jobs:
                return None
            return self._round(APART, jobs, [programs.sweep_phase([0] * PAIR_REPEATS, self.settings)])
        return self._rest(halt)

    def _sweep_round(self) -> Round | None:
        usable = self._usable(self.members)
        if len(usable) == 1:
            usable += self._usable(self.partners)[:PARTNERS]
        if len(usable) < 2:
            return None
        inside = programs.inside_phase(self.settings)
        phases = [inside] if inside and not any(each.kind == "inside" for each in self.matrix.groups) else []
        phases += programs.sweep_phases([self.place[node] for node in usable], self.settings)
        return self._round(WALK, [usable], phases)

    def _rest(self, halt: Halt) -> Round | None:
        """Return the sweep from the permutation at which it hung, without those on whom it hung."""
        usable = self._usable(halt.group)
        if len(usable) < 2:
            return None
        phases = self.plans[halt.number]["program"]["moves"]
        phase = next((phase for phase in phases if phase["name"] == halt.phase), phases[0])
        if phase["kind"] != "pairs":
            return self._sweep_round()
        step, one, other, begins = pairs_of_phases(phases, len(halt.group))
        place = {node: at for at, node in enumerate(usable)}
        position = np.array([place.get(node, -1) for node in halt.group])
        kept = (step >= begins[phase["name"]] + halt.step) & (position[one] >= 0) & (position[other] >= 0)
        kept &= ~self._measured(halt, step, one, other)
        rest: dict[int, list[tuple[int, int]]] = {}
        columns = (step[kept], position[one[kept]], position[other[kept]])
        for at, first, second in zip(*(each.tolist() for each in columns), strict=True):
            rest.setdefault(at, []).append((first, second))
        steps = list(rest.values())
        return self._round(REST, [usable], [programs.pairs_phase(steps, self.settings)]) if steps else None

    def _measured(self, halt: Halt, step: Any, one: Any, other: Any) -> Any:
        """Return which exchanges, by permutation and positions in the job that hung, were measured at every size."""
        exchanges, count = self.facts.sweep.exchanges, len(self.matrix.nodes)
        nodes = np.array([self.matrix.index[node] for node in halt.group])
        rows = np.flatnonzero((exchanges.number == halt.number) & exchanges.known)
        measured = (exchanges.step[rows] * count + exchanges.one[rows]) * count + exchanges.other[rows]
        low, high = np.minimum(nodes[one], nodes[other]), np.maximum(nodes[one], nodes[other])
        return np.isin((step * count + low) * count + high, measured)

    def _second(self) -> Round | None:
        """Return the step that asks suspects again and runs the groups of everyone else, None if nothing is open."""
        done = self._of_kind(CONFIRM, GROUPS)
        if len(done) >= MOST_GROUPS:
            return None
        asked, there = bool(self.facts.confirming_jobs), set(self._usable(self.order))
        retests = [
            each
            for each in retests_of(self.facts, self.reference)
            if not (asked and each.weak) and each.nodes <= there and not is_answered(self.facts, each)
        ]
        proven = self._usable(self.reference.nodes)
        if not any(node in self.reference.good for node in proven):
            # Nobody in the campaign is proven: those in service have to be, by one another.
            proven = self._usable(self.partners)
        steps = permutations_of(retests, proven, self.place) if retests else []
        groups, racks = self._levels(), self._racks()
        if not steps and not groups and not racks:
            return None
        used = {node for step in steps for pair in step for node in pair} | set(racks)
        used |= {node for level in groups.values() for group in level for node in group}
        job = [node for node in self.order if node in used]
        position = {node: index for index, node in enumerate(job)}
        phases: list[dict[str, Any]] = []
        inside = programs.inside_phase(self.settings)
        if inside and self.facts.ask_inside and not done:
            job = self._usable({*job, *self.facts.ask_inside})
            position = {node: index for index, node in enumerate(job)}
            phases.append(inside)
        if steps:
            pairs = [[(position[one], position[other]) for one, other in step] for step in steps]
            phases.append(programs.pairs_phase(pairs, self.settings, programs.SUSPECTS_AGAIN))
        if racks:
            within = programs.within_racks([self.place[node] if node in racks else None for node in job])
            phases.append(programs.racks_phase(within, self.settings))
        placed = {level: [[position[node] for node in group] for group in found] for level, found in groups.items()}
        phases += programs.group_phases(placed, self.settings)
        if groups:
            phases += self.mini_clusters.phases(job, groups["all"][0])
        asks = bool(steps or racks)
        if self.settings.train is not None and not asks and "all" in placed and len(placed["all"][0]) == len(job):
            phases.append(programs.train_phase(self.settings))
        return self._round(CONFIRM if asks else GROUPS, [job], phases)

    def _racks(self) -> frozenset[str]:
        """Return who meets its rack in the next step, where NVLink joins racks: all of one where somebody met too few.

        That is no more than half of those it can meet. Of a rack with few under test nodes in service make it three: of
        two mates one may have gone bad meanwhile.
        """
        if not self.settings.nvlink_racks or len(self._rounds_of_racks()) >= IN_VAIN:
            return frozenset()
        met = self._met_in_racks()
        by_rack: dict[str | None, list[str]] = {}
        for node in self._usable(self.members):
            by_rack.setdefault(self.place[node], []).append(node)
        partners = [node for node in self._usable(self.partners) if node not in self.reference.doubted]
        found: set[str] = set()
        for rack, nodes in by_rack.items():
            served = [node for node in partners if self.place[node] == rack]
            mates = [*nodes, *served[: max(0, PARTNERS + 1 - len(nodes))]]
            if rack is not None and len(mates) > 1 and any(2 * met[node] < len(mates) for node in nodes):
                found.update(mates)
        return frozenset(found)

    def _rounds_of_racks(self) -> set[int]:
        """Return the rounds after the sweep in which racks were to meet."""
        return {
            number
            for number in self._of_kind(CONFIRM)
            if any(phase["name"] == programs.WITHIN_RACKS for phase in self.plans[number]["program"]["moves"])
        }

    def _met_in_racks(self) -> Counter[str]:
        """Return with how many others of its rack each node exchanged data."""
        met: set[int] = set()
        for exchanges in (self.facts.sweep.exchanges, self.facts.again):
            near = self.facts.sweep.topology.distances(exchanges.one, exchanges.other) == 0
            met |= set(exchanges.pairs[near & exchanges.known].tolist())
        return Counter(self.matrix.nodes[node] for pair in met for node in divmod(pair, len(self.matrix.nodes)))

    def _train(self) -> Round | None:
        """Return the training step of all that are left, where others took part in the step of their groups."""
        eligible = [node for node in self._usable(self.members) if node in self.eligible]
        rounds = self._of_kind(CONFIRM, GROUPS)
        if self.settings.train is None or len(eligible) < 2 or len(rounds) >= MOST_GROUPS:
            return None
        if self._trained(eligible):
            return None
        return self._round(GROUPS, [eligible], [programs.train_phase(self.settings)])

    def _mini_clusters(self) -> Round | None:
        """Return the mini-clusters that are asked again, or filled up with nodes in service."""
        eligible = [node for node in self._usable(self.members) if node in self.eligible]
        partners = [node for node in self._usable(self.partners) if node not in self.reference.doubted]
        found = self.mini_clusters.next_round(self.order, eligible, partners)
        return None if found is None else self._round(MINI_CLUSTERS, [found[0]], found[1])

    def _levels(self) -> dict[str, list[list[str]]]:
        """Return the groups along the topology that are still to be measured, by level, of those not suspected."""
        eligible = [node for node in self._usable(self.members) if node in self.eligible]
        if len(eligible) == 1:
            if any(self._covered([*eligible, partner]) for partner in self.partners):
                return {}
            helpers = [node for node in self._usable(self.partners) if node in set(self.reference.nodes)]
            eligible = [node for node in self.order if node in {*eligible, *helpers[:1]}]
        if len(eligible) < 2 or self._covered(eligible):
            return {}
        levels: dict[str, list[list[str]]] = {}
        members = set(self.members)
        for level in ("rack", "pod"):
            # Within its rack who is suspected of nothing but its boundary runs as well.
            inner = {*eligible, *(self._bounded() if level == "rack" else ())}
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

    def _bounded(self) -> set[str]:
        """Return who is held for what lies between itself and others."""
        return {blame.node for blame in self.judgement.blames if blame.kind == BOUNDARY and blame.verdict == HELD}

    def _covered(self, eligible: Sequence[str]) -> bool:
        """Return whether these all ran together, well or without anybody who is to blame since."""
        wanted, groups = frozenset(eligible), self.facts.groups
        halted = {halt.number for halt in self.matrix.halts}
        # A mate that did not come tells nothing of them.
        lost = {halt.number for halt in self.matrix.halts if not halt.started} & self._rounds_of_racks()
        tried = [(number, nodes) for number, nodes in self._together() if number not in lost]
        if any(group.doubtful for group in groups) and len({number for number, _nodes in tried}) < WITNESSES:
            return False
        same = [number not in halted for number, nodes in tried if nodes == wanted]
        together = (each for each in groups if each.level == "all" and each.whole and not each.bad)
        return any(same) or len(same) > 1 or any(wanted <= set(group.nodes) for group in together)

    def _together(self) -> list[tuple[int, frozenset[str]]]:
        """Return which groups of all were planned, and in which round."""
        return [
            (number, frozenset(plan["groups"][0][index] for index in phase["groups"][0]))
            for number, plan in self.plans.items()
            for phase in (plan.get("program") or {}).get("moves", ())
            if phase.get("kind") == "groups" and str(phase["name"]).startswith("all:")
        ]

    def _trained(self, eligible: Sequence[str]) -> bool:
        """Return whether these all went through the training step together, or were to twice."""
        wanted = set(eligible)
        planned = [
            plan["groups"][0]
            for plan in self.plans.values()
            for phase in (plan.get("program") or {}).get("moves", ())
            if phase.get("kind") == "train"
        ]
        done = any(each.kind == "train" and wanted <= set(each.nodes) for each in self.matrix.groups)
        return done or sum(wanted <= set(job) for job in planned) >= WITNESSES

    def _hung(self) -> Round | None:
        """Return jobs of those on whom something hung, each with a trusted node, so that only they can hang."""
        if self._of_kind(SUSPECTS):
            return None
        hung = {node: each.waiting for node, each in self.facts.hung.items()}
        asked = [node for node in hung if node in self.members and node not in self.matrix.unavailable]
        proven = self._usable(self.reference.good & set(self.reference.nodes))
        free = reference_nodes(proven, self._usable(self.partners))
        rank = {node: (at,) for at, node in enumerate(free)}
        choices = {node: [each for each in free if each not in hung[node]] for node in asked}
        jobs = with_reference_nodes(asked, lambda node: choices[node], lambda _node, other: rank[other])
        if not jobs:
            return None
        return self._round(SUSPECTS, jobs, [programs.sweep_phase([0] * PAIR_REPEATS, self.settings)])

    def _round(self, kind: str, groups: Iterable[Sequence[str]], phases: Sequence[Mapping[str, Any]]) -> Round:
        return Round(self.number, kind, tuple(tuple(group) for group in groups), {"moves": list(phases)})
