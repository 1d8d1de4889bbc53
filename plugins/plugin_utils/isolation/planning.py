"""Rounds and conclusions of every stage, and how disjoint pairs, a job each, are settled.

Pure: the same nodes and observations always give the same answer, so an interrupted campaign goes on from its record.
Pairs are settled so: first disjoint ones; then those of bad pairs, each with partners that are proven good; then all
that passed together.
A bad pair accuses two nodes and convicts neither: only who never passes, and is bad with proven partners, is to blame.
Where nothing at all was good, what all have in common is likelier to be at fault than each of them: before anybody is
convicted then, a control pair of partners has to be good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.finding import FAIL, INCOMPLETE, PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import (
    BAD,
    GOOD,
    UNIT,
    VOID,
    Outcome,
)

PAIR_CHECK = "pair_bandwidth"
GROUP_CHECK = "group_bandwidth"
SUBJECT = "network"
# Two witnesses: with one, a fault between just these two would be taken for the node's.
WITNESSES = 2
# Rounds of pairs in which nobody at all passed, after which a cause common to all is likelier than so many bad nodes.
BLIND_ROUNDS = 6
# Control pairs of a campaign: the first may have met a partner that went bad in service, two hardly both do.
CONTROLS = 2


@dataclass(frozen=True)
class Round:
    """Disjoint groups to measure at the same time, a job each; ``kind`` says what for, in the words of the planner.

    ``program`` is what each job walks through once started ({"moves": [...]}, JSON data), empty where the stage's
    module does one thing only.
    """

    number: int
    kind: str
    groups: tuple[tuple[str, ...], ...]
    program: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Conclusion:
    """Findings by node under test; ``held`` and ``doubted`` (partners, against whom there is no finding) say why.

    ``remarks`` are what people have to know and no node is judged by.
    """

    findings: Mapping[str, tuple[Finding, ...]]
    held: Mapping[str, str] = field(default_factory=dict)
    doubted: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Circumstances:
    """``unavailable`` says why nodes cannot be measured, ``places`` where each lies (pairs are made across them)."""

    unavailable: Mapping[str, str]
    places: Mapping[str, str | None]
    max_rounds: int


class Record:
    """What a campaign has seen so far of one thing that groups can be good or bad at, and what follows from it."""

    def __init__(
        self,
        under_test: Iterable[str],
        partners: Iterable[str],
        outcomes: Sequence[Outcome],
        circumstances: Circumstances,
    ) -> None:
        self.members = sorted(set(under_test))
        self.partners = sorted(set(partners) - set(self.members))
        self.places = circumstances.places
        self.max_rounds = circumstances.max_rounds
        self.outcomes = list(outcomes)
        self.rounds = max((outcome.number for outcome in self.outcomes), default=0)
        self.unavailable = dict(circumstances.unavailable)
        self.tried = {frozenset(outcome.group) for outcome in self.outcomes}
        self.good: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            for node in outcome.group if outcome.verdict == GOOD else ():
                self.good.setdefault(node, []).append(outcome)
        self.passed = set(self.good)
        self.bad: dict[str, dict[str, Outcome]] = {node: {} for node in (*self.members, *self.partners)}
        for outcome in self.outcomes:
            if outcome.verdict == BAD and len(outcome.group) == 2:
                one, other = outcome.group
                self.bad.setdefault(one, {})[other] = outcome
                self.bad.setdefault(other, {})[one] = outcome
        self.uses = Counter(node for outcome in self.outcomes for node in outcome.group)
        self.doubted = {node for node in self.partners if self._accused(node, self.passed)}
        self.controls = [outcome for outcome in self.outcomes if set(outcome.group) <= set(self.partners)]
        self.bad_control = next((outcome for outcome in self.controls if outcome.verdict == BAD), None)
        self.failed = {node for outcome in self.controls if outcome.verdict == BAD for node in outcome.group}
        # A node in service vouches for others until it fails with nodes that passed, or with another in service.
        self.trusted = self.passed | (set(self.partners) - self.doubted - self.failed)
        if self.bad_control and not self.passed and not self._control(()):
            self.trusted = set()
        accused = {node for node in self.members if self._accused(node, self.trusted)}
        self.convicted = {node for node in accused if self.passed or self._stands_alone(node)}
        self.pending = accused - self.convicted

    def next_pairs(self) -> Round | None:
        """Return the next round of pairs, None when no pair would tell more."""
        if not self.outcomes and len(self.members) > 1:
            return Round(1, "pairs", tuple(across_racks(self.members, self.places)))
        blind = not self.passed and self.rounds >= BLIND_ROUNDS
        if self.rounds >= self.max_rounds or (self.bad_control and blind):
            return None
        suspects = self._suspects()
        settling = [node for node in suspects if node not in self.pending]
        # Alone only once a conviction depends on it; beside suspects it costs no round.
        control = self._control(()) if self.pending else []
        pairs = self._with_trusted(settling, control)
        kind = "suspects" if pairs else "control"
        if pairs and not control and any(self.bad.values()):
            control = self._control([node for pair in pairs for node in pair])
        if control:
            pairs = sorted([*pairs, (control[0], control[1])])
        nobody_to_ask = not self.passed or self.trusted <= set(self.unavailable)
        if not pairs and nobody_to_ask and self.rounds < BLIND_ROUNDS:
            pairs, kind = self._untried(suspects), "untried"
        return Round(self.rounds + 1, kind, tuple(pairs)) if pairs else None

    def next_together(self) -> Round | None:
        """Return the round in which all that passed run as one group, None if that is measured or there are none."""
        group = self._together()
        if len(group) < 2 or frozenset(group) in self.tried or self.rounds >= 2 * self.max_rounds:
            return None
        return Round(self.rounds + 1, "together", (tuple(group),))

    def conclusion(self, stopped: str = "") -> Conclusion:
        """Return a finding of each check for every node under test; ``stopped`` says why the campaign ends early."""
        held: dict[str, str] = {}
        findings: dict[str, tuple[Finding, ...]] = {}
        group = self._together()
        together = self._group_outcome(group)
        for node in self.members:
            pair, why_held = self._pair_finding(node, stopped)
            if why_held:
                held[node] = why_held
            if pair.verdict != PASS:
                reason = "not reached: " + (why_held or "the node did not pass in pairs")
                findings[node] = (pair, _finding(GROUP_CHECK, INCOMPLETE, None, stopped or reason))
                continue
            findings[node] = (pair, self._group_finding(node, group, together))
            if together is not None and together.verdict == BAD:
                held[node] = findings[node][1].reason
        doubted = {node: self._said(node, self.witness(node, self.passed)) for node in sorted(self.doubted)}
        return Conclusion(findings, held, doubted)

    def _control(self, taken: Iterable[str]) -> list[str]:
        """Return the two partners whose pair would tell a cause common to all, none if it is known or cannot be."""
        if self.passed or len(self.controls) >= CONTROLS:
            return []
        free = [node for node in self._available_partners() if node not in taken]
        # Who witnesses against others is put to the test before who does not.
        free.sort(key=lambda node: (-len(self.bad[node]), self.uses[node], node))
        untried = (pair for pair in combinations(free, 2) if frozenset(pair) not in self.tried)
        return sorted(next(untried, ()))

    def _available_partners(self) -> list[str]:
        return [node for node in self.partners if node not in self.unavailable and node not in self.failed]

    def _stands_alone(self, node: str) -> bool:
        """Return whether the node is convicted though nothing was good: no control pair is to be had, and it did run.

        A crash or a hang can come from what all ranks are given; slow or wrong with a node in service rarely does.
        """
        if self.bad_control or len(self._available_partners()) > 1:
            return False
        return any(outcome.ran for other, outcome in self.bad[node].items() if other in self.partners)

    def _accused(self, node: str, trusted: Iterable[str]) -> bool:
        """Return whether those that vouch for others speak against the node."""
        if node in self.passed:
            return False
        witnesses = set(trusted) & set(self.bad.get(node, ()))
        if not witnesses or not self._choices(node, trusted):
            return bool(witnesses)
        # Two in service may have gone bad: one that passed in this campaign has the last word where there is one.
        heard = witnesses & self.passed or not self._choices(node, self.passed)
        return len(witnesses) >= WITNESSES and bool(heard)

    def _choices(self, node: str, trusted: Iterable[str]) -> list[str]:
        """Return with whom of ``trusted`` the node has not been tried and still can be."""
        return [
            other
            for other in sorted(trusted)
            if other != node and other not in self.unavailable and frozenset((node, other)) not in self.tried
        ]

    def _suspects(self) -> list[str]:
        """Return the nodes about which another pair could tell something."""
        members = [node for node in self.members if node not in self.passed and node not in self.convicted]
        accused = [
            node
            for node in self.partners
            if node not in self.passed and node not in self.doubted and self.passed & set(self.bad[node])
        ]
        return [node for node in (*members, *accused) if node not in self.unavailable]

    def _with_trusted(self, suspects: Sequence[str], reserved: Iterable[str]) -> list[tuple[str, str]]:
        racks = self.places
        choices = {
            node: self._choices(node, self.passed if node in self.partners else self.trusted) for node in suspects
        }
        taken: set[str] = set(reserved)
        pairs = []
        # Who has the fewest partners left chooses first.
        for node in sorted(suspects, key=lambda each: (len(choices[each]), each)):
            free = [other for other in choices[node] if other not in taken]
            if node in taken or not free:
                continue
            # Passed in this campaign before merely in service; then another rack, then who has had the least to do.
            best = min(
                free,
                key=lambda other: (
                    other not in self.passed,
                    racks.get(other) is not None and racks.get(other) == racks.get(node),
                    self.uses[other],
                    other,
                ),
            )
            taken |= {node, best}
            pairs.append((min(node, best), max(node, best)))
        return sorted(pairs)

    def _untried(self, suspects: Sequence[str]) -> list[tuple[str, str]]:
        """Return pairs of nodes of which none is proven; partners are for those who met too few of them."""
        taken: set[str] = set()
        pairs = []
        for node in sorted(suspects, key=lambda each: (self.uses[each], each)):
            few = not self.passed and len(set(self.partners) & set(self.bad[node])) < WITNESSES
            others = [*suspects, *self.partners] if few else suspects
            free = [other for other in self._choices(node, others) if other not in taken]
            if node in taken or not free:
                continue
            best = min(free, key=lambda other: (self.uses[other], other))
            taken |= {node, best}
            pairs.append((min(node, best), max(node, best)))
        return sorted(pairs)

    def clash(self, node: str) -> str:
        """Return with whom a node that passed was bad for no reason found in either, empty if with nobody."""
        for other in sorted(self.bad.get(node, ())):
            if other in self.passed or (other in self.partners and other not in self.doubted):
                return other
        return ""

    def _together(self) -> list[str]:
        return [
            node
            for node in self.members
            if node in self.passed and node not in self.unavailable and not self.clash(node)
        ]

    def _group_outcome(self, group: Sequence[str]) -> Outcome | None:
        """Return how the group did; one node's group is the one with its proven partner."""
        if len(group) == 1:
            return self.passes(group[0])
        return next((each for each in reversed(self.outcomes) if frozenset(each.group) == frozenset(group)), None)

    def passes(self, node: str) -> Outcome:
        """Return the least good of the pairs in which the node passed."""
        good = self.good[node]
        pairs = [each for each in good if len(each.group) == 2] or good
        return min(pairs, key=lambda each: each.share)

    def witness(self, node: str, trusted: Iterable[str]) -> Outcome:
        """Return the pair that says most against the node: with who passed, and a number rather than a failure."""
        against = [outcome for other, outcome in sorted(self.bad[node].items()) if other in set(trusted)]
        return min(
            against,
            key=lambda each: (
                _other(each, node) not in self.passed,
                each.measured is None,
                each.share,
            ),
        )

    def _said(self, node: str, outcome: Outcome) -> str:
        other = _other(outcome, node)
        named = (
            f"{other} (proven)" if other in self.passed else f"{other} (admitted)" if other in self.partners else other
        )
        if outcome.measured is None:
            return f"all-reduce with {named} failed: {outcome.reason}"
        return outcome.text().replace(" reached ", f" with {named} reached ")

    def _pair_finding(self, node: str, stopped: str) -> tuple[Finding, str]:
        """Return the finding, and why the node is held if it is."""
        if node in self.convicted:
            witness = self.witness(node, self.trusted)
            others = sorted((set(self.bad[node]) & self.trusted) - set(witness.group))
            reason = self._said(node, witness) + (f"; as bad with {', '.join(others)}" if others else "")
            return _finding(PAIR_CHECK, FAIL, witness, reason, "investigate"), ""
        if stopped:
            return _finding(PAIR_CHECK, INCOMPLETE, None, stopped), ""
        if node in self.unavailable:
            reason = f"not available in Slurm: {self.unavailable[node]}"
            return _finding(PAIR_CHECK, INCOMPLETE, None, reason, "investigate"), ""
        if node in self.passed:
            clash = self.clash(node)
            if clash:
                outcome = self.bad[node][clash]
                reason = (
                    f"{self._said(node, outcome)}, though both are good with others: suspect what lies between them"
                )
                return _finding(PAIR_CHECK, INCOMPLETE, outcome, reason, "investigate"), reason
            outcome = self.passes(node)
            return _finding(PAIR_CHECK, PASS, outcome, self._said(node, outcome)), ""
        accusers = sorted(self.bad[node].items())
        if accusers:
            outcome = accusers[0][1]
            reason = f"{self._said(node, outcome)}; {self._why_unproven(node)}, so nobody is blamed"
            return _finding(PAIR_CHECK, INCOMPLETE, outcome, reason, "investigate"), reason
        voids = [each.reason for each in self.outcomes if each.verdict == VOID and node in each.group]
        reason = voids[-1] if voids else "no proven partner was available to measure it with"
        return _finding(PAIR_CHECK, INCOMPLETE, None, reason, "investigate"), ""

    def _why_unproven(self, node: str) -> str:
        if self.bad_control and not self.passed:
            pair = " and ".join(self.bad_control.group)
            return f"the control pair of admitted nodes ({pair}) was bad as well: {self.bad_control.text()}"
        if node in self.pending:
            return "nothing at all was good in this campaign and there is no control pair of admitted nodes to tell why"
        if self.trusted & set(self.bad[node]):
            return "not settled within the limit of rounds"
        return "nobody it was paired with is proven good"

    def _group_finding(self, node: str, group: Sequence[str], together: Outcome | None) -> Finding:
        if together is None:
            return _finding(GROUP_CHECK, INCOMPLETE, None, "the group of all that passed was not measured")
        if together.verdict == GOOD:
            with_whom = f" with {_other(together, node)}" if len(group) == 1 else ""
            reason = f"{len(together.group)} nodes together{with_whom}: {together.text()}"
            return _finding(GROUP_CHECK, PASS, together, reason)
        said = together.text() if together.measured is not None else together.reason
        if together.verdict == BAD:
            said = f"{said}, although all {len(group)} nodes passed in pairs: suspect the fabric, nobody is blamed"
        return _finding(GROUP_CHECK, INCOMPLETE, together, f"{len(group)} nodes together: {said}", "investigate")


def across_racks(nodes: Sequence[str], racks: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Return disjoint pairs, across racks as far as no rack holds more than half; one of an odd number is left over."""
    sizes = Counter(racks.get(node) for node in nodes)
    ordered = sorted(nodes, key=lambda node: (-sizes[racks.get(node)], str(racks.get(node)), node))
    # Racks now lie in blocks: whoever is half the list away is in another block.
    half = (len(ordered) + 1) // 2
    return sorted((min(pair), max(pair)) for pair in zip(ordered, ordered[half:], strict=False))


def _other(outcome: Outcome, node: str) -> str:
    return next(other for other in outcome.group if other != node)


def _finding(check: str, verdict: str, outcome: Outcome | None, reason: str, action: str = "none") -> Finding:
    measured = outcome.measured if outcome else None
    expected = outcome.expected if outcome else None
    return Finding(check, SUBJECT, verdict, measured, expected, UNIT if outcome else "", reason, action)
