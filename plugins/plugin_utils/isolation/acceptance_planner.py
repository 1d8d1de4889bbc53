"""Which round of acceptance collectives to run next, and, once enough is known, what is concluded about every node.

Pure: the same nodes and observations always give the same answer, so an interrupted campaign goes on from its record.
First one step in which every node meets every other (the pairwise sweep); then one that measures what is suspected
again, with partners that are proven, and beside that the groups along the topology of everyone else, and racks that
NVLink joins where somebody met too few of its own. A third only where something is still open: the groups of who was
cleared, and those that missed something once. After a sweep that hung the next step is the rest of it, and beside it
those on whom it hung.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import (
    WITNESSES,
    with_reference_nodes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round, across_racks
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation import collective_programs as programs
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import CLEARED, HELD, OPEN
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.broken_nodes import hangs_again
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import (
    APART,
    CONFIRM,
    GROUPS,
    REST,
    SUSPECTS,
    SWEEPS,
    WALK,
    Facts,
    Hung,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BOUNDARY,
    Suspect,
    Sweep,
    Topology,
    limited,
    measured_again,
    swept,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.clocks import by_sound_clocks, odd_clocks
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import SENDRECV, Settings
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import possible
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.groups_of_two import couples_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judgement import judged
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import (
    INSIDE,
    Halt,
    Readings,
    Seen,
    pairs_of_phases,
    phases_of,
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
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.slow_groups import (
    GROUP,
    LEAST_IN_GROUPS,
    PARTS_OF_TOPOLOGY,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.suspects import explain

MINI_CLUSTERS = "mini_clusters"
# Campaigns end: so many sweeps that hang or do not start, and so many rounds of groups.
MOST_SWEEPS, MOST_GROUPS, MOST_UNSTARTED = 5, 5, 2
# So often a node on whom something hung is asked again: with one reference node more than it takes.
# Of rounds that do nothing else there are fewer.
MOST_ASKED, MOST_SUSPECTS = 3, 2
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
        # In the order in which they are to be taken.
        tested = frozenset(self.members)
        self.partners = tuple(dict.fromkeys(node for node in partners if node not in tested))

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
        sweeps = {number for number, plan in plans.items() if _sweeps(plan)}
        matrix = possible(self._readings.matrix(seen, _of_sweep), self.settings, swept=True)
        again = self._readings.exchanges(seen, lambda plan, phase: not _of_sweep(plan, phase))
        clocks = odd_clocks(matrix.exchanges, self.settings)
        if clocks:
            matrix = replace(matrix, exchanges=by_sound_clocks(matrix.exchanges, clocks))
            again = by_sound_clocks(again, clocks)
        key = [(number, id(item)) for number, _plan, item in seen if number in sweeps]
        if self._swept is None or self._swept[0] != key or limited(self._swept[1], again) != self._swept[1].limited:
            tested = np.isin(np.array(self.order), np.array(self.members))
            sweep = swept(matrix.exchanges, self._topology, tested, self.settings, again)
            if not any(len(each.one) + len(each.unmeasured[0]) for each in (matrix.exchanges, again)):
                sweep = replace(sweep, channels=(), fabric=(), remarks=())
            self._swept = key, sweep, explain(sweep, matrix.nodes)
        _key, sweep, suspects = self._swept
        about = self.settings, self.members, self.partners, plans
        told = (item["idle"] for _number, _plan, item in reversed(seen) if isinstance(item.get("idle"), list))
        idle = next((frozenset(map(str, each)) for each in told), None)
        return Facts(*about, matrix, sweep, again, measured_again(sweep, again), suspects, clocks, idle)


def _sweeps(plan: Mapping[str, Any]) -> bool:
    """Return whether a round showed something of the sweep, if only what was left of it."""
    phases = (plan.get("program") or {}).get("moves", ())
    return any(_of_sweep(plan, str(phase["name"])) for phase in phases if phase["kind"] == "pairs")


def _of_sweep(plan: Mapping[str, Any], phase: str) -> bool:
    if phase.startswith(programs.HUNG_AGAIN):
        return False
    return plan.get("kind") in SWEEPS or (plan.get("kind") in {CONFIRM, GROUPS} and phase == programs.WALK_PHASE)


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
        first = self._sweep() or self._ask(alone=False) or self._second() or self._ask()
        return first or self._train() or self._mini_clusters()

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
        halts = [halt for halt in self.facts.halts if halt.number == sweeps[-1]]
        if not halts:
            return self._sweep_round() if self.plans[sweeps[-1]]["kind"] == APART and self.reference.good else None
        unstarted = [halt for halt in self.facts.halts if not halt.started and not halt.unavailable]
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

    def _sweep_round(self, asks: Sequence[tuple[str, ...]] = ()) -> Round | None:
        busy = {node for ask in asks for node in ask}
        usable = [node for node in self._usable(self.members) if node not in busy]
        if len(usable) == 1:
            usable += [node for node in (*self._idle, *self._busy) if node not in busy][:PARTNERS]
        if len(usable) < 2:
            return None
        inside = programs.inside_phase(self.settings)
        phases = [inside] if inside and self._lack_inside(usable) else []
        phases += programs.sweep_phases([self.place[node] for node in usable], self.settings)
        return self._with_asks(WALK, usable, phases, asks)

    def _rest(self, halt: Halt) -> Round | None:
        """Return what is left of the sweep that hung, and beside it those on whom it did."""
        asks = self._asks([*self._idle, *self._mine])
        phases = phases_of(self.plans[halt.number], halt.group)
        if next((phase["kind"] for phase in phases if phase["name"] == halt.phase), "pairs") != "pairs":
            return self._sweep_round(asks)
        busy = {node for ask in asks for node in ask}
        usable = [node for node in self._usable(self._walked[0]) if node not in busy]
        steps = self._owed(usable, usable)
        return self._with_asks(REST, usable, [programs.pairs_phase(steps, self.settings)], asks) if steps else None

    @cached_property
    def _walked(self) -> tuple[tuple[str, ...], list[Any]]:
        """Return who was to meet in the sweep, and its phases."""
        for number in reversed(self._of_kind(WALK)):
            job = tuple(self.plans[number]["groups"][0])
            return job, phases_of(self.plans[number], job)
        return (), []

    def _late(self) -> list[str]:
        """Return who has still to meet others in the sweep: it is cleared since, or told about another meanwhile."""
        sweeps = self._of_kind(WALK, REST)
        halted = {halt.number: halt for halt in self.facts.halts}
        there: set[str] = set()
        if sweeps and sweeps[-1] in halted:
            halt = halted[sweeps[-1]]
            if not halt.started or not (halt.suspects or halt.unavailable):
                return []
        elif sweeps:
            there.update(self.plans[sweeps[-1]]["groups"][0])
        for number in self._of_kind(CONFIRM, GROUPS):
            if _sweeps(self.plans[number]) and number not in halted:
                there.update(self.plans[number]["groups"][0])
        return [node for node in self._usable(self._walked[0]) if node in self.facts.tested and node not in there]

    def _owed(self, nodes: Sequence[str], late: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return the permutations of the sweep that are left between nodes, by their positions: those of ``late``."""
        job, phases = self._walked
        step, one, other, _begins = pairs_of_phases(phases, len(job))
        count, exchanges = len(self.matrix.nodes), self.facts.sweep.exchanges
        of_all = np.array([self.matrix.index[node] for node in job], dtype=np.int64)
        pairs = np.minimum(of_all[one], of_all[other]) * count + np.maximum(of_all[one], of_all[other])
        # Few nodes meet several times: how often they were to before.
        order = np.argsort(pairs, kind="stable")
        before = np.empty(len(pairs), dtype=np.int64)
        before[order] = np.arange(len(pairs)) - np.searchsorted(pairs[order], pairs[order])
        measured = np.sort(exchanges.pairs[exchanges.known])
        times = np.searchsorted(measured, pairs, side="right") - np.searchsorted(measured, pairs)
        place = {node: at for at, node in enumerate(nodes)}
        position = np.array([place.get(node, -1) for node in job])
        asked = np.isin(np.array(job), np.array(late))
        kept = (before >= times) & (position[one] >= 0) & (position[other] >= 0) & (asked[one] | asked[other])
        rest: dict[int, list[tuple[int, int]]] = {}
        columns = (step[kept], position[one[kept]], position[other[kept]])
        for at, first, second in zip(*(each.tolist() for each in columns), strict=True):
            rest.setdefault(at, []).append((first, second))
        return list(rest.values())

    def _lack_inside(self, nodes: Iterable[str]) -> set[str]:
        """Return of which nodes nothing was measured inside."""
        return set(nodes).difference(each.nodes[0] for each in self.matrix.groups if each.kind == INSIDE)

    @cached_property
    def _mine(self) -> list[str]:
        """Return who of the members may tell about others: it was good in this campaign."""
        return self._usable(self.reference.good & self.facts.tested)

    @cached_property
    def _idle(self) -> list[str]:
        """Return the nodes in service that may tell about others at once, as far as anybody told who is idle."""
        usable = set(self._usable(self.partners)).difference(self.reference.doubted)
        idle = usable if self.facts.idle is None else usable & self.facts.idle
        return [node for node in self.partners if node in idle]

    @property
    def _busy(self) -> list[str]:
        """Return the nodes in service that may tell about others once users are done with them."""
        usable = set(self._usable(self.partners)).difference(self.reference.doubted, self._idle)
        return [node for node in self.partners if node in usable]

    def _asks(self, others: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the jobs that ask again on whom something hung, so that only it can hang.

        Who did inside itself is asked alone, everybody else with one of ``others`` that it did not keep waiting yet.
        """
        asked = {node: hung for node, hung in self.facts.hung.items() if self._is_open(node, hung)}
        rank = {node: (at,) for at, node in enumerate(others)}
        choices = {node: [each for each in others if each not in hung.waiting] for node, hung in asked.items()}
        for node, hung in asked.items():
            if hung.again and not hung.waiting & self.reference.good:
                # One of those that tell has to be good in this campaign.
                choices[node] = [each for each in choices[node] if each in self._mine] or choices[node]
        met = [node for node, hung in asked.items() if not hung.inside]
        jobs = with_reference_nodes(met, lambda node: choices[node], lambda _node, other: rank[other])
        return [*((node,) for node, hung in asked.items() if hung.inside), *jobs]

    def _is_open(self, node: str, hung: Hung) -> bool:
        done = hung.well or hung.asked >= MOST_ASKED or node in self.matrix.unavailable
        return node in self.facts.tested and not done and not hangs_again(self.facts, self.reference, hung)

    def _ask(self, alone: bool = True) -> Round | None:
        """Return a round of those on whom something hung; unless ``alone`` none if they can be asked beside another.

        Whoever is cleared by it then runs with the others. Nodes that users are on are the last that are taken.
        """
        if len(self._of_kind(SUSPECTS)) >= MOST_SUSPECTS:
            return None
        asks = self._asks([*self._idle, *self._mine, *self._busy])
        beside = all(len(ask) == 1 or ask[1] in self._idle for ask in asks)
        return self._with_asks(SUSPECTS, [], [], asks) if asks and (alone or not beside) else None

    def _with_asks(
        self, kind: str, job: Sequence[str], phases: Sequence[Mapping[str, Any]], asks: Sequence[tuple[str, ...]]
    ) -> Round:
        """Return a round of one job, if it has nodes, and of those that ask again on whom something hung."""
        if not asks:
            return self._round(kind, [job], phases)
        jobs = [*([job] if job else []), *asks]
        number = {ask: jobs.index(ask) for ask in asks}
        alone = [number[ask] for ask in asks if len(ask) == 1]
        met = {number[ask]: self.facts.hung[ask[0]].collective for ask in asks if len(ask) > 1}
        again = programs.hung_phases(alone, met, PAIR_REPEATS, self.settings)
        return self._round(kind, jobs, [*({**phase, "jobs": [0]} for phase in phases), *again])

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
        groups, racks, late = self._levels(), self._racks(), self._late()
        swept = self._usable(self._walked[0]) if late and self._owed(self._walked[0], late) else []
        collectives, twos = self._twos()
        if not steps and not groups and not racks and not swept and not twos:
            return None
        used = {node for step in steps for pair in step for node in pair} | {*racks, *swept}
        used |= {node for level in groups.values() for group in level for node in group}
        used |= {node for step in twos for pair in step for node in pair}
        job = [node for node in self.order if node in used]
        position = {node: index for index, node in enumerate(job)}
        phases: list[dict[str, Any]] = []
        inside = programs.inside_phase(self.settings)
        inside_again = set(() if done else self.facts.ask_inside) | self._lack_inside(late)
        if inside and inside_again:
            job = self._usable({*job, *inside_again})
            position = {node: index for index, node in enumerate(job)}
            phases.append(inside)
        if steps:
            pairs = [[(position[one], position[other]) for one, other in step] for step in steps]
            phases.append(programs.pairs_phase(pairs, self.settings, programs.SUSPECTS_AGAIN))
        if swept:
            phases.append(programs.pairs_phase(self._owed(job, late), self.settings))
        if racks:
            within = programs.within_racks([self.place[node] if node in racks else None for node in job])
            phases.append(programs.racks_phase(within, self.settings))
        placed = {level: [[position[node] for node in group] for group in found] for level, found in groups.items()}
        couples = [[(position[one], position[other]) for one, other in step] for step in twos]
        phases += programs.twos_phases(couples, collectives, self.settings)
        phases += programs.group_phases(placed, self.settings)
        if "all" in groups:
            phases += self.mini_clusters.phases(job, groups["all"][0])
        asks = bool(steps or racks or swept)
        if self.settings.train is not None and not asks and "all" in placed and len(placed["all"][0]) == len(job):
            phases.append(programs.train_phase(self.settings))
        beside = self._asks([node for node in self._idle if node not in job])
        return self._with_asks(CONFIRM if asks else GROUPS, job, phases, beside)

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
        """Return the groups along the topology that are still to be measured, by level, of those not suspected.

        A rack or pod that missed something once is measured again, and the others beside it.
        """
        eligible, again = [node for node in self._usable(self.members) if node in self.eligible], self._missed_once()
        covered = False
        if len(eligible) == 1:
            covered = any(self._covered([*eligible, partner]) for partner in self.partners)
            helpers = [node for node in self._usable(self.partners) if node in set(self.reference.nodes)]
            eligible = [node for node in self.order if node in {*eligible, *helpers[:1]}]
        covered = covered or len(eligible) < 2 or self._covered(eligible)
        if covered and not again:
            return {}
        levels: dict[str, list[list[str]]] = {}
        members = set(self.members)
        for level in ("rack", "pod"):
            # Within its rack who is suspected of nothing but its boundary runs as well.
            inner = {*eligible, *again, *(self._bounded() if level == "rack" else ())}
            by_unit: dict[str, list[str]] = {}
            for node in self._usable(inner):
                unit = (self.settings.places.get(node) or {}).get(level)
                if unit is not None and node in members:
                    by_unit.setdefault(unit, []).append(node)
            groups = [group for _unit, group in sorted(by_unit.items()) if len(group) > 1]
            if groups and groups != [eligible] and groups not in levels.values():
                levels[f"{level}s"] = groups
        if not covered:
            levels["all"] = [eligible]
        return levels

    @cached_property
    def _open(self) -> dict[str, bool]:
        """Return against whom nothing speaks but groups that are to be measured again; and if these are of two."""
        found: dict[str, set[str]] = {}
        for blame in self.judgement.blames:
            if blame.verdict != CLEARED:
                found.setdefault(blame.node, set()).add(blame.kind if blame.verdict == OPEN else blame.verdict)
        return {node: programs.TWOS in kinds for node, kinds in found.items() if kinds <= {programs.TWOS, GROUP}}

    def _missed_once(self) -> set[str]:
        """Return who is in a rack or pod that missed something once, and can be measured again with others of it."""
        found: set[str] = set()
        for group in self.facts.groups:
            if group.level in PARTS_OF_TOPOLOGY and group.last and group.doubtful:
                left = [node for node in self._usable(group.nodes) if self._open.get(node) is False]
                found.update(left if len(left) > 1 else ())
        return found

    def _twos(self) -> tuple[Sequence[str], list[list[tuple[str, str]]]]:
        """Return the groups of two that are to be measured, in permutations, and by which collectives.

        Everybody is in one, of few nodes in several, so that there are enough alike. Whoever was in a slow one is
        measured with others, who are proven.
        """
        seen, every = self.facts.of_two, self.settings.groups.collectives
        eligible = [node for node in self._usable(self.members) if node in self.eligible]
        peers = self.settings.cohort.peers
        if not seen.planned and len(eligible) < peers:
            return (), []
        owed = {node for node in eligible if seen.owed(node, self.facts.owed_of_two)}
        fresh = [node for node in eligible if node in owed and seen.planned.get(node, 0) < IN_VAIN]
        slow = self._usable(node for node, of_two in self._open.items() if of_two)
        slow = [node for node in slow if seen.planned.get(node, 0) <= IN_VAIN]
        names = {name for (node, (_check, name, _size)) in seen.doubts if node in slow}
        # Who is in a slow rack is good with others.
        sound = {node for node, of_two in self._open.items() if not of_two}.union(eligible) - owed
        proven = self._usable(sound)
        repeats = programs.STEADY_REPEATS if proven else LEAST_IN_GROUPS
        times = 1 if seen.planned else math.ceil(peers / (len(eligible) // 2))
        steps = couples_of({**dict.fromkeys(fresh, times), **dict.fromkeys(slow, repeats)}, proven, self.order)
        return [each for each in every if fresh or each in names], steps

    def _bounded(self) -> set[str]:
        """Return who is held for what lies between itself and others."""
        return {blame.node for blame in self.judgement.blames if blame.kind == BOUNDARY and blame.verdict == HELD}

    def _covered(self, eligible: Sequence[str]) -> bool:
        """Return whether these all ran together, well or without anybody who is to blame since."""
        wanted, groups = frozenset(eligible), self.facts.groups
        halted = {halt.number for halt in self.facts.halts}
        # A mate that did not come tells nothing of them.
        lost = {halt.number for halt in self.matrix.halts if not halt.started} & self._rounds_of_racks()
        tried = [(number, nodes) for number, nodes in self._together() if number not in lost]
        together = [each for each in groups if each.level == "all" and each.whole and wanted <= set(each.nodes)]
        if together:
            # What they missed once is measured again, what they missed twice is settled.
            return not together[-1].doubtful or any(not each.bad and not each.doubtful for each in together)
        same = [number not in halted for number, nodes in tried if nodes == wanted]
        return any(same) or len(same) > 1

    def _together(self) -> list[tuple[int, frozenset[str]]]:
        """Return which groups of all were planned, and in which round."""
        found = (
            (number, frozenset(plan["groups"][0][index] for index in phase["groups"][0]))
            for number, plan in self.plans.items()
            for phase in (plan.get("program") or {}).get("moves", ())
            if phase.get("kind") == "groups" and str(phase["name"]).startswith("all:")
        )
        # Of several collectives once.
        return list(dict.fromkeys(found))

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

    def _round(self, kind: str, groups: Iterable[Sequence[str]], phases: Sequence[Mapping[str, Any]]) -> Round:
        return Round(self.number, kind, tuple(tuple(group) for group in groups), {"moves": list(phases)})
