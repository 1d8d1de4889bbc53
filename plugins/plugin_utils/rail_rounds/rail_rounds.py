"""Which hosts' rails are measured against which next, and what is concluded about every rail of every node.

Pure: the same observations always give the same answer. First each node looped back; then disjoint pairs at the same
leaf switch, in the same pod, and across pods, as far as there are such; then the members of bad pairs with partners
that are proven on that rail; then whoever was not yet good at a distance at which there are others. Each rail is
settled by itself, as collectives settle nodes: a bad pair implicates two and confirms neither. Where every host that
was measured at a switch is bad on a rail, the switch is likelier to blame than each of them: they are held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import subject_of
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.perftest import LATENCY
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Conclusion, Round, across_racks
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds import rail_judging as judging
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.distances import (
    ACROSS,
    DISTANCES,
    LEAF,
    POD,
    WHERE,
    Neighbours,
    Place,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.pairs import (
    BAD,
    GOOD,
    VOID,
    Circumstances,
    Outcome,
    Record,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.rail_rounds.rail_judging import Cohort, Limits, Pair

LOOPBACK_CHECK, BANDWIDTH_CHECK, LATENCY_CHECK = "rail_loopback", "rail_bandwidth", "rail_latency"
COUNTERS_CHECK, MARKING_CHECK = "rail_counters", "rail_marking"
UNITS = {LOOPBACK_CHECK: "Gb/s", BANDWIDTH_CHECK: "Gb/s", LATENCY_CHECK: "us", MARKING_CHECK: "B"}
# Pairs take minutes: what is not settled in so many rounds is left to people.
MAX_ROUNDS = 12


@dataclass(frozen=True)
class Plan:
    """What is to be measured: nodes under test, partners in service, rails, checks, and what they are judged by."""

    members: tuple[str, ...]
    partners: tuple[str, ...]
    places: Mapping[str, Place]
    rails: tuple[Rail, ...]
    checks: tuple[str, ...]
    limits: Limits

    def distance(self, one: str, other: str, rail: Rail) -> str:
        """Return how far apart two nodes' rails are."""
        return self.places[one].distance(self.places[other], rail)

    def farthest(self, one: str, other: str) -> str:
        """Return the distance of two nodes over whichever rail is worst."""
        return max((self.distance(one, other, rail) for rail in self.rails), key=DISTANCES.index)


@dataclass
class Campaign:
    """What the rounds of a plan have shown so far, and what follows from it."""

    plan: Plan
    pairs: list[Pair]
    loops: Mapping[str, Pair]
    unavailable: dict[str, str] = field(default_factory=dict)
    unread: dict[tuple[Rail, str], dict[str, str]] = field(default_factory=dict)
    records: dict[tuple[Rail, str], Record] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, observed: Sequence[Pair]) -> Campaign:
        """Return the campaign after these observations, loopbacks (groups of one) and pairs."""
        loops = {pair.group[0]: pair for pair in observed if len(pair.group) == 1}
        campaign = cls(plan, [pair for pair in observed if len(pair.group) == 2], loops)
        for pair in observed:
            campaign.unavailable.update(pair.unavailable)
        campaign._judge()
        return campaign

    def _judge(self) -> None:
        plan, limits = self.plan, self.plan.limits
        self.neighbours = Neighbours(plan.places, plan.rails)
        speeds = [value for pair in self.pairs for value in self._least(pair)]
        looped = [
            value
            for loop in self.loops.values()
            for rail in plan.rails
            if (value := judging.loopback(loop.answers.get(loop.group[0]), rail)[0]) is not None
        ]
        self.cohorts: dict[str, Cohort] = {
            BANDWIDTH_CHECK: Cohort.of(speeds, limits),
            LOOPBACK_CHECK: Cohort.of(looped, limits),
        }
        for distance in DISTANCES:
            values = [
                value
                for pair in self.pairs
                for rail in plan.rails
                if plan.distance(pair.group[0], pair.group[1], rail) == distance
                for value in pair.values(rail, LATENCY)[0]
            ]
            self.cohorts[distance] = Cohort.of(values, limits)
        for rail in plan.rails:
            for check in plan.checks:
                if check != LOOPBACK_CHECK:
                    outcomes = [self._outcome(pair, rail, check) for pair in self.pairs]
                    unread = self.unread.get((rail, check), {})
                    gone = {**unread, **self.unavailable}
                    leaves = {name: place.leaf(rail) for name, place in plan.places.items()}
                    circumstances = Circumstances(gone, leaves, MAX_ROUNDS)
                    record = Record(plan.members, plan.partners, outcomes, circumstances)
                    self.records[rail, check] = record

    def _least(self, pair: Pair) -> list[float]:
        found = (judging.speeds(pair, rail, self.plan.limits) for rail in self.plan.rails)
        return [min(values) for values, wrong in found if values and not wrong]

    def _outcome(self, pair: Pair, rail: Rail, check: str) -> Outcome:
        limits = self.plan.limits
        if check == BANDWIDTH_CHECK:
            return judging.bandwidth(pair, rail, limits, self.cohorts[check])
        if check == LATENCY_CHECK:
            distance = self.plan.distance(pair.group[0], pair.group[1], rail)
            return judging.latency(pair, rail, distance, limits, self.cohorts[distance])
        judge = judging.counters if check == COUNTERS_CHECK else judging.marking
        outcome, unread = judge(pair, rail, limits)
        self.unread.setdefault((rail, check), {}).update(unread)
        return outcome

    def next_round(self) -> Round | None:
        """Return the next round, None when no pair would tell more."""
        members = self.plan.members
        if not self.loops and members:
            return Round(1, "loopback", tuple((node,) for node in members))
        number = max((pair.number for pair in (*self.pairs, *self.loops.values())), default=0) + 1
        for distance in DISTANCES:
            pairs = self._untried_at(distance)
            if pairs:
                return Round(number, distance, tuple(pairs))
        taken: set[str] = set()
        chosen: list[tuple[str, ...]] = []
        for record in self.records.values():
            proposed = record.next_pairs()
            for pair in proposed.groups if proposed else ():
                if not taken & set(pair):
                    taken |= set(pair)
                    chosen.append(pair)
        if chosen:
            return Round(number, "suspects", tuple(sorted(chosen)))
        gaps = self._gap_pairs() if number <= MAX_ROUNDS else []
        return Round(number, "distances", tuple(gaps)) if gaps else None

    def _gap_pairs(self) -> list[tuple[str, str]]:
        """Return disjoint pairs that measure nodes at distances at which they were good with nobody yet."""
        taken: set[str] = set()
        pairs = []
        for (rail, check), record in self.records.items():
            for node in record.members:
                if node in taken or node not in record.passed or node in record.unavailable or record.clash(node):
                    continue
                free = (
                    other
                    for others in self._gaps(node, rail, check).values()
                    for other in others
                    if other in record.trusted
                    and other not in {*taken, *record.unavailable}
                    and frozenset((node, other)) not in record.tried
                )
                other = next(free, None)
                if other:
                    taken |= {node, other}
                    pairs.append((min(node, other), max(node, other)))
        return sorted(pairs)

    def _gaps(self, node: str, rail: Rail, check: str) -> dict[str, list[str]]:
        """Return the distances that are owed for a node and at which it was good with nobody, with who lies there.

        Owed is every distance at which there is a node, under test or in service, that is not known to be bad on this
        rail itself. One at which nobody can be reached is made up for by a farther one, which goes over it as well.
        """
        record = self.records[rail, check]
        good = {self.plan.distance(each.group[0], each.group[1], rail) for each in record.good.get(node, ())}
        useless = {*record.confirmed, *record.doubted, *self.unread.get((rail, check), ())}
        gaps: dict[str, list[str]] = {}
        for index, distance in enumerate(DISTANCES):
            if distance in good:
                continue
            others = [other for other in self.neighbours.at(node, rail, distance) if other not in useless]
            farther = good & set(DISTANCES[index + 1 :])
            if others and not (farther and set(others) <= set(self.unavailable)):
                gaps[distance] = others
        return gaps

    def _untried_at(self, distance: str) -> list[tuple[str, str]]:
        """Return disjoint pairs at a distance, none once pairs were measured at it."""
        plan = self.plan
        if any(plan.farthest(*pair.group) == distance for pair in self.pairs):
            return []
        nodes = [node for node in plan.members if node not in self.unavailable]
        groups: dict[tuple[str | None, ...], list[str]] = {}
        for node in nodes:
            place = plan.places[node]
            leaves = tuple(place.leaf(rail) for rail in plan.rails)
            key = {LEAF: leaves, POD: (place.pod,), ACROSS: ()}[distance]
            groups.setdefault(key, []).append(node)
        apart = {
            node: plan.places[node].pod if distance == ACROSS else ",".join(map(str, _leaves(plan, node)))
            for node in nodes
        }
        pairs = [pair for group in groups.values() for pair in across_racks(group, apart)]
        return sorted(pair for pair in pairs if plan.farthest(*pair) == distance)

    def conclusion(self, stopped: str = "") -> Conclusion:
        """Return a finding of each check for every rail of every node under test."""
        held: dict[str, str] = {}
        findings: dict[str, tuple[Finding, ...]] = {}
        for node in self.plan.members:
            found = []
            for rail in self.plan.rails:
                for check in self.plan.checks:
                    if check == LOOPBACK_CHECK:
                        finding, why = self._loopback(node, rail, stopped), ""
                    else:
                        finding, why = self._finding(node, rail, check, stopped)
                    found.append(finding)
                    if why:
                        held.setdefault(node, why)
            findings[node] = tuple(found)
        doubted = {
            node: f"{rail}: {self._said(record, node, rail)}"
            for (rail, _), record in self.records.items()
            for node in sorted(record.doubted | record.questioned)
        }
        return Conclusion(findings, held, doubted)

    def _loopback(self, node: str, rail: Rail, stopped: str) -> Finding:
        limits, loop, about = self.plan.limits, self.loops.get(node), _About(LOOPBACK_CHECK, rail)
        value, wrong = judging.loopback(loop.answers.get(node) if loop else None, rail)
        floor = limits.loopback_gbps
        if value is None:
            why = stopped or (loop.error if loop and loop.error else wrong)
            return about.finding(INCOMPLETE, (None, floor), f"{rail} looped back: {why}")
        cohort = self.cohorts[LOOPBACK_CHECK]
        far = cohort.far(value, "Gb/s")
        said = f"{rail} looped back in its host: {value:.4g} Gb/s" + (f", {far}" if far else "")
        if value < floor or far:
            why = f"{said}; suspect NIC and PCIe, the cable took no part"
            return about.finding(FAIL, (value, floor), why, "investigate")
        if stopped or (loop and loop.error):
            return about.finding(INCOMPLETE, (value, floor), stopped or (loop.error if loop else ""))
        return about.finding(PASS, (value, floor), _with(said, cohort.said()))

    def _finding(self, node: str, rail: Rail, check: str, stopped: str) -> tuple[Finding, str]:
        """Return the finding, and why the node is held if it is."""
        record, about = self.records[rail, check], _About(check, rail)
        place = self.plan.places[node].named(rail)
        if node in record.confirmed:
            outcome = record.witness(node, record.trusted)
            reason = f"{place}: {self._said(record, node, rail)}"
            switch = self._common_switch(record, node, rail)
            if switch:
                reason += f"; so are all hosts measured at {switch}: suspect the switch, no node is blamed"
                return about.of(INCOMPLETE, outcome, reason, "investigate"), reason
            action = "investigate" if check == MARKING_CHECK else "reseat"
            return about.of(FAIL, outcome, reason, action), ""
        if stopped:
            return about.of(INCOMPLETE, None, stopped), ""
        if node in record.unavailable:
            reason = f"{place}: {record.unavailable[node]}"
            return about.of(INCOMPLETE, None, reason, "investigate"), ""
        if node in record.passed:
            clash = record.clash(node)
            if clash:
                outcome = record.bad[node][clash]
                reason = (
                    f"{place}: {self._text(outcome, node, rail)}, though both are good with others: suspect the way"
                )
                return about.of(INCOMPLETE, outcome, reason, "investigate"), reason
            outcome = record.passes(node)
            gaps = self._gaps(node, rail, check)
            if gaps:
                reason = f"{place}: {'; '.join(self._gap(*gap) for gap in gaps.items())}"
                return about.of(INCOMPLETE, outcome, reason, "investigate"), reason
            cohort = self._cohort(outcome, rail, check)
            text = _with(f"{place}: {self._text(outcome, node, rail)}", cohort.said() if cohort else "")
            return about.of(PASS, outcome, text), ""
        against = sorted(record.bad[node].items())
        if against:
            outcome = against[0][1]
            reason = f"{place}: {self._text(outcome, node, rail)}; nobody is proven to be at fault"
            return about.of(INCOMPLETE, outcome, reason, "investigate"), reason
        voids = [each.reason for each in record.outcomes if each.verdict == VOID and node in each.group]
        reason = f"{place}: {voids[-1] if voids else 'no partner was there to measure it with'}"
        return about.of(INCOMPLETE, None, reason, "investigate"), ""

    def _gap(self, distance: str, others: Sequence[str]) -> str:
        """Return in words why nodes were not measured at a distance."""
        gone = [f"{other} is {self.unavailable[other]}" for other in others if other in self.unavailable]
        why = ", ".join(gone[:3]) if len(gone) == len(others) else f"not proven good with any of {len(others)} nodes"
        return f"not measured {WHERE[distance]}: {why}"

    def _common_switch(self, record: Record, node: str, rail: Rail) -> str:
        """Return the leaf switch at which everybody that was measured is bad, if there are at least two of them."""
        leaf = self.plan.places[node].leaf(rail)
        measured = {name for each in record.outcomes if each.verdict in (GOOD, BAD) for name in each.group}
        there = [name for name in measured if leaf is not None and self.plan.places[name].leaf(rail) == leaf]
        return str(leaf) if len(there) > 1 and not record.passed & set(there) else ""

    def _cohort(self, outcome: Outcome, rail: Rail, check: str) -> Cohort | None:
        if check == LATENCY_CHECK:
            return self.cohorts[self.plan.distance(outcome.group[0], outcome.group[1], rail)]
        return self.cohorts.get(check)

    def _said(self, record: Record, node: str, rail: Rail) -> str:
        outcome = record.witness(node, record.trusted if node in record.confirmed else record.passed)
        others = sorted(set(record.bad[node]) & record.trusted - set(outcome.group))
        return self._text(outcome, node, rail) + (f"; as bad with {', '.join(others)}" if others else "")

    def _text(self, outcome: Outcome, node: str, rail: Rail) -> str:
        other = next(name for name in outcome.group if name != node)
        where = WHERE[self.plan.distance(node, other, rail)]
        return f"with {other} {where}: {outcome.reason}"


def next_round(plan: Plan, observed: Sequence[Pair]) -> Round | Conclusion:
    """Return the next round, or the conclusion once another would tell nothing more."""
    campaign = Campaign.of(plan, observed)
    return campaign.next_round() or campaign.conclusion()


def conclude_early(plan: Plan, observed: Sequence[Pair], reason: str) -> Conclusion:
    """Return what is known when the campaign has to stop: nobody passes, who is confirmed bad already stays so."""
    return Campaign.of(plan, observed).conclusion(stopped=reason)


def _leaves(plan: Plan, node: str) -> list[str | None]:
    return [plan.places[node].leaf(rail) for rail in plan.rails]


def _with(text: str, more: str) -> str:
    return f"{text} ({more})" if more else text


@dataclass(frozen=True)
class _About:
    """One check of one rail; makes its findings."""

    check: str
    rail: Rail

    def finding(
        self, verdict: str, values: tuple[float | None, float | None], reason: str, action: str = "none"
    ) -> Finding:
        measured = None if values[0] is None else float(f"{values[0]:.5g}")
        unit = UNITS.get(self.check, "")
        return Finding(self.check, subject_of(self.rail), verdict, measured, values[1], unit, reason, action)

    def of(self, verdict: str, outcome: Outcome | None, reason: str, action: str = "none") -> Finding:
        return self.finding(verdict, (outcome.measured, outcome.expected) if outcome else (None, None), reason, action)
