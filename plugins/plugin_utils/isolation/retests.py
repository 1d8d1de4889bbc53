"""What is measured again, how often, and with whom: every suspect with nodes that are proven."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import best_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.below_floor import often_below
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import LEAST_CONFIRMED
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import (
    Facts,
    Reference,
    in_common,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BOUNDARY,
    INTERMITTENT,
    PAIR,
    Suspect,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import STEADY_REPEATS
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.slow_nodes import NEARLY_ALL

# Repeats of one that is slow now and then, of a pair, of a pair beside hundreds. A permutation takes a second: it is
# worth it to tell 2 % of late exchanges from 30 % for certain.
RARE_REPEATS, PAIR_REPEATS, CROWDED_REPEATS = 96, 6, 4
# Repeats of one that was below the class' floor too often: not so many that what was seen counts for nothing.
BELOW_REPEATS = 24
# Few nodes have few partners: what is asked again is asked oftener.
FEW_NODES, FEW_REPEATS = 8, 12
# A permutation takes a second, another step minutes: where exchanges of 1,024 nodes take longer in 2 % of all, 10,000
# pairs are asked again four times in 94.
MOST_PERMUTATIONS = 96
# Sound pairs beside those that are confirmed, to tell what slowed down everybody.
CONTROL_PAIRS = 16
# So often a suspect is planned for and not measured; then it stays open.
IN_VAIN = 2


@dataclass(frozen=True)
class Retest:
    """What is to be measured again: one node with ``repeats`` reference nodes, or a pair ``repeats`` times.

    ``weak``: noise makes such, nothing waits for it. Half of it is with ``partners``, with whom alone it may be slow.
    """

    node: str
    other: str | None
    repeats: int
    weak: bool = False
    partners: frozenset[str] = frozenset()

    @property
    def nodes(self) -> set[str]:
        """Return the node, or both."""
        return {self.node} if self.other is None else {self.node, self.other}


def retests_of(facts: Facts, reference: Reference) -> list[Retest]:
    """Return everything that is to be measured again, nodes before pairs; pairs worst first."""
    gone = {*facts.hung, *facts.matrix.unavailable}
    nodes, wrong_pairs = in_common(facts.wrong)
    repeats = _repeats(facts)
    for node in (*nodes, *(each for pair in wrong_pairs for each in pair)):
        repeats.setdefault(node, STEADY_REPEATS)
    members = set(facts.members) - gone
    partners: dict[str, set[str]] = {}
    for suspect in facts.suspects:
        if suspect.partners:
            partners.setdefault(facts.names(suspect.members)[0], set()).update(facts.names(suspect.partners))
    found = [
        Retest(node, None, count, partners=frozenset(partners.get(node, ())))
        for node, count in sorted(repeats.items())
        if node in members
    ]
    pairs: dict[tuple[str, str], int] = dict.fromkeys(wrong_pairs, PAIR_REPEATS)
    proven = [node for node in reference.nodes if node not in gone]
    for suspect in facts.suspects:
        if suspect.kind == BOUNDARY:
            for pair in _across_and_within(facts, suspect, proven):
                pairs.setdefault(pair, PAIR_REPEATS)
    # All rails together before one: many more single ones stand out by chance.
    single_rail = [each.rail is not None for each in facts.channels]
    slow = sorted(facts.pairs, key=lambda each: (-each.strong, single_rail[each.channel], -each.slowdown))
    names, weak = facts.matrix.nodes, set()
    first: dict[tuple[int, ...], bool] = {}
    for suspect in slow:
        first.setdefault(suspect.members, suspect.strong)
    for (one, other), strong in first.items():
        pair = names[one], names[other]
        if pair not in pairs:
            weak |= set() if strong else {pair}
        pairs.setdefault(pair, PAIR_REPEATS if strong else CROWDED_REPEATS)
    return found + [Retest(*pair, count, pair in weak) for pair, count in pairs.items() if not gone & set(pair)]


def _repeats(facts: Facts) -> dict[str, int]:
    """Return how often each suspected node is measured again."""
    steady = FEW_REPEATS if len(facts.members) < FEW_NODES else STEADY_REPEATS
    found: dict[str, int] = {}
    for suspect in facts.suspects:
        if suspect.kind == BOUNDARY and not suspect.declared:
            # It may be they themselves, and that takes witnesses.
            for node in facts.names(suspect.members[:4]):
                found.setdefault(node, STEADY_REPEATS)
        elif suspect.kind not in (BOUNDARY, PAIR):
            (node,) = facts.names(suspect.members)
            rare = suspect.kind == INTERMITTENT or suspect.share < NEARLY_ALL
            found[node] = max(found.get(node, 0), RARE_REPEATS if rare else steady)
    # Where exchanges take longer now and then, some nodes had more of these than the class lets pass.
    for node in often_below(facts):
        found.setdefault(node, BELOW_REPEATS)
    return found


def _across_and_within(facts: Facts, suspect: Suspect, proven: Sequence[str]) -> list[tuple[str, str]]:
    """Return some pairs across a boundary, and some that it does not lie between."""
    names = facts.names(suspect.members)
    outside = facts.names(suspect.beyond)
    if not outside:
        inside = set(names)
        outside = [node for node in proven if node not in inside]
    step = max(1, len(outside) // 4)
    across = [(node, outside[index * step % len(outside)]) for index, node in enumerate(names[:4]) if outside]
    return [*across, *zip(names[:4:2], names[1:4:2], strict=False)]


def is_answered(facts: Facts, retest: Retest) -> bool:
    """Return whether what a retest is to tell was measured already, or was tried twice in vain."""
    in_vain = sum(retest.nodes <= job for job in facts.confirming_jobs)
    return facts.times_again[retest.node, retest.other or ""] >= LEAST_CONFIRMED or in_vain >= IN_VAIN


def permutations_of(
    retests: Sequence[Retest], proven: Sequence[str], places: Mapping[str, str | None]
) -> list[list[tuple[str, str]]]:
    """Return permutations in which every retest gets its repeats, with different reference nodes, worst first.

    In what is left of each permutation proven nodes meet each other.
    """
    left = [retest.repeats for retest in retests]
    uses: Counter[tuple[str, str]] = Counter()
    busy: Counter[str] = Counter()
    steps: list[list[tuple[str, str]]] = []
    open_at = list(range(len(retests)))
    # Pairs before nodes, which have a choice of partners; what noise makes is last.
    kinds = [(retest.weak, retest.other is None) for retest in retests]
    while open_at and len(steps) < MOST_PERMUTATIONS:
        # What noise makes gets the room beside what is waited for, and little of its own.
        if len(steps) > STEADY_REPEATS and all(retests[at].weak for at in open_at):
            break
        taken: set[str] = set()
        step: list[tuple[str, str]] = []
        pool = sorted(proven, key=lambda each: (busy[each], each))
        for at in sorted(open_at, key=lambda each: (kinds[each], -left[each])):
            node, other = retests[at].node, retests[at].other
            if node in taken or other in taken:
                continue
            if other is None:
                free: Iterable[str] = (each for each in pool if each not in taken)
                if retests[at].partners and 2 * left[at] > retests[at].repeats:
                    free = list(free)
                    free = [each for each in free if each in retests[at].partners] or free
                other = _partner(node, free, uses, places)
                if other is None:
                    continue
            taken |= {node, other}
            uses[node, other] += 1
            busy[other] += 1
            left[at] -= 1
            step.append((node, other))
        if not step:
            break
        control = [node for node in pool if node not in taken][: 2 * CONTROL_PAIRS]
        half = len(control) // 2
        step += list(zip(control[:half], control[half:], strict=False))
        steps.append(step)
        open_at = [at for at in open_at if left[at] > 0]
    return steps


def _partner(
    node: str, free: Iterable[str], uses: Mapping[tuple[str, str], int], places: Mapping[str, str | None]
) -> str | None:
    """Return the proven node with which it was measured least, in another rack if there is one."""
    place = places.get(node)

    def rank(other: str) -> tuple[int, bool, str]:
        return uses.get((node, other), 0), place is not None and places.get(other) == place, other

    return best_of((other for other in free if other != node), rank, best=(0, False))
