"""Settle by disjoint pairs, a job each, who is to blame for bad ones.

Pure: the same nodes and outcomes always give the same answer. First disjoint pairs; then those of bad pairs, each with
partners that are proven good. A bad pair implicates two nodes and confirms neither: only who never passes, and is bad
with proven partners, is to blame. Where nothing at all was good, what all have in common is likelier to be at fault
than each of them: before anybody is confirmed bad then, a control pair of partners has to be good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import (
    confirmed,
    with_reference_nodes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Round, across_racks

GOOD = "good"
BAD = "bad"
# The group was not measured: its job never ran, or a member was gone. Says nothing about anybody.
VOID = "void"
# Rounds of pairs in which nobody at all passed, after which a cause common to all is likelier than so many bad nodes.
BLIND_ROUNDS = 6
# Control pairs of a campaign: the first may have met a partner that went bad in service, two hardly both do.
CONTROLS = 2


@dataclass(frozen=True)
class Outcome:
    """One group's measurement judged; ``measured`` and ``expected`` are the worst against its limit."""

    number: int
    group: tuple[str, ...]
    verdict: str
    measured: float | None = None
    expected: float | None = None
    reason: str = ""
    less_is_better: bool = False

    @property
    def share(self) -> float:
        """What was measured as a part of what was expected; the worst outcome has the least."""
        share = (self.measured or 0) / (self.expected or 1)
        return -share if self.less_is_better else share


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
        # A node in service may tell about others until it fails with nodes that passed, or with another in service.
        self.trusted = self.passed | (set(self.partners) - self.doubted - self.failed)
        if self.bad_control and not self.passed and not self._control(()):
            self.trusted = set()
        implicated = {node for node in self.members if self._implicated(node, self.trusted)}
        # A cause that is common to all would be taken for that of each: somebody has to be good.
        self.confirmed = implicated if self.passed else set()
        self.pending = implicated - self.confirmed
        # Of two that are bad together and good with nobody, either may be: a single partner convicts nobody alone.
        self.questioned = {
            node
            for node in self.partners
            if node not in self.passed and any(other not in self.confirmed for other in self.bad[node])
        }

    def next_pairs(self) -> Round | None:
        """Return the next round of pairs, None when no pair would tell more."""
        if not self.outcomes and len(self.members) > 1:
            return Round(1, "pairs", tuple(across_racks(self.members, self.places)))
        blind = not self.passed and self.rounds >= BLIND_ROUNDS
        if self.rounds >= self.max_rounds or (self.bad_control and blind):
            return None
        suspects = self._suspects()
        settling = [node for node in suspects if node not in self.pending]
        # Alone only once a confirmation depends on it; beside suspects it costs no round.
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

    def _accused(self, node: str, trusted: Iterable[str]) -> bool:
        """Return whether reference nodes speak against the node, be it one where there is no other."""
        if node in self.passed:
            return False
        witnesses = set(trusted) & set(self.bad.get(node, ()))
        return self._implicated(node, trusted) or bool(witnesses and not self._choices(node, trusted))

    def _implicated(self, node: str, trusted: Iterable[str]) -> bool:
        """Return whether several reference nodes speak against the node."""
        if node in self.passed:
            return False
        witnesses = set(trusted) & set(self.bad.get(node, ()))
        # Two in service may have gone bad: one that passed in this campaign has the last word where there is one.
        heard = witnesses & self.passed or not self._choices(node, self.passed)
        return confirmed(len(witnesses)) and bool(heard)

    def _choices(self, node: str, trusted: Iterable[str]) -> list[str]:
        """Return with whom of ``trusted`` the node has not been tried and still can be."""
        return [
            other
            for other in sorted(trusted)
            if other != node and other not in self.unavailable and frozenset((node, other)) not in self.tried
        ]

    def _suspects(self) -> list[str]:
        """Return the nodes about which another pair could tell something."""
        members = [node for node in self.members if node not in self.passed and node not in self.confirmed]
        implicated = [
            node
            for node in self.partners
            if node not in self.passed and node not in self.doubted and self.passed & set(self.bad[node])
        ]
        return [node for node in (*members, *implicated) if node not in self.unavailable]

    def _with_trusted(self, suspects: Sequence[str], reserved: Iterable[str]) -> list[tuple[str, str]]:
        racks = self.places
        choices = {
            node: self._choices(node, self.passed if node in self.partners else self.trusted) for node in suspects
        }

        def rank(node: str, other: str) -> tuple[bool, bool, int, str]:
            # Passed in this campaign before merely in service; then another rack, then who has had the least to do.
            near = racks.get(other) is not None and racks.get(other) == racks.get(node)
            return other not in self.passed, near, self.uses[other], other

        # Who has the fewest partners left chooses first.
        ordered = sorted(suspects, key=lambda each: (len(choices[each]), each))
        return _sorted(with_reference_nodes(ordered, lambda node: choices[node], rank, reserved))

    def _untried(self, suspects: Sequence[str]) -> list[tuple[str, str]]:
        """Return pairs of nodes of which none is proven; partners are for those who met too few of them."""

        def choices(node: str) -> list[str]:
            few = not self.passed and not confirmed(len(set(self.partners) & set(self.bad[node])))
            return self._choices(node, [*suspects, *self.partners] if few else suspects)

        ordered = sorted(suspects, key=lambda each: (self.uses[each], each))
        return _sorted(with_reference_nodes(ordered, choices, lambda _node, other: (self.uses[other], other)))

    def clash(self, node: str) -> str:
        """Return with whom a node that passed was bad for no reason found in either, empty if with nobody."""
        for other in sorted(self.bad.get(node, ())):
            if other in self.passed or (other in self.partners and other not in self.doubted):
                return other
        return ""

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


def _other(outcome: Outcome, node: str) -> str:
    return next(other for other in outcome.group if other != node)


def _sorted(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted((min(pair), max(pair)) for pair in pairs)
