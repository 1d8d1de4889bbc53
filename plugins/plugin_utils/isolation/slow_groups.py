"""What becomes of nodes by the collectives that they ran inside themselves, in groups of two, in racks and in pods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import WITNESSES, confirmed
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import (
    CLEARED,
    HELD,
    LEAST_CONFIRMED,
    NOT_ASKED,
    OPEN,
    REJECTED,
    Blame,
    heaviest,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import Facts
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.chances import chance_of
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import MAD_SIGMA
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import TWOS
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import Operation
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.groups_of_two import Doubt
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import MINI_CLUSTER

# In groups of two fewer than these reject nobody: where one in fifty operations is late, four of five are so by chance
# once in a million times. Who was late in fewer is held if chance makes less than this of all in doubt.
LEAST_IN_GROUPS, GROUPS_CHANCE = 5, 1e-3
# The levels of groups that racks and pods are, and the kind of blame that speaks of them; of groups of two it is TWOS.
PARTS_OF_TOPOLOGY, GROUP = ("racks", "pods"), "group"


def bad_inside(facts: Facts) -> list[Blame]:
    """Return what becomes of members that were slow, or got wrong data, by themselves."""
    wrong: dict[str, int] = {}
    for each in facts.matrix.wrong:
        if each.sender is None and each.where == "inside":
            wrong[each.receiver] = wrong.get(each.receiver, 0) + 1
    found: list[Blame] = []
    for node in facts.members:
        bad = facts.slow_inside.get(node, ())
        if node in wrong:
            said = f"wrong data inside the node in {wrong[node]} collectives"
            found.append(Blame(node, REJECTED, "data", said, wrong[node], 0, "collectives"))
        if not bad:
            continue
        worst = max(bad, key=lambda each: each.slowdown)
        said = f"inside the node: {worst.text}"
        blame = Blame(node, REJECTED, "group_bandwidth", said, worst.measured, worst.expected, worst.unit)
        if len(facts.rounds_inside(node)) < WITNESSES:
            found.append(blame.but(OPEN, "not measured again yet"))
        elif confirmed(len({each.number for each in bad})):
            found.append(blame)
        else:
            found.append(Blame(node, CLEARED))
    return found


def stragglers(facts: Facts) -> list[Blame]:
    """Reject who is the last of its group far too often where the group's slowest operations are too slow for it."""
    limit = facts.settings.straggler
    if limit is None:
        return []
    shares: dict[str, list[float]] = {}
    for group in facts.matrix.groups:
        # Of few nodes one is always the last; and somebody has to be where nothing is slow.
        few = group.kind in ("inside", MINI_CLUSTER) or len(group.nodes) < 4
        if few or group.p99 / group.seconds <= limit.p99_over_p50:
            continue
        for node, count in group.last.items():
            share = count / max(group.iterations, 1)
            if share > max(limit.last_share, 2 / len(group.nodes)):
                shares.setdefault(node, []).append(share)
    found = []
    for node, its in shares.items():
        if node in facts.tested and confirmed(len(its)):
            said = f"the last of its group in up to {max(its):.0%} of the iterations of {len(its)} collectives"
            found.append(Blame(node, REJECTED, "straggler", said, round(max(its), 3), limit.last_share, "share"))
    return found


def slow_in_groups_of_two(facts: Facts) -> list[Blame]:
    """Return what becomes of members whose group of two was slow in a collective: rejected if they are so with others.

    One that was slow again only now and then is held if it was so more often than groups of sound nodes are.
    """
    doubts = facts.of_two.doubts
    mostly = {node for (node, _what), doubt in doubts.items() if 2 * doubt.missed > len(doubt.again)}
    sound = [bad for one, other, _what, bad in facts.of_two.first if mostly.isdisjoint((one, other))]
    usually = (sum(sound) + 0.5) / (len(sound) + 1)
    noisy = _noisy_in_groups_of_two(facts)
    found: dict[str, list[Blame]] = {}
    for (node, what), doubt in doubts.items():
        if node not in facts.tested:
            continue
        part, tries, missed = doubt.part, len(doubt.again), doubt.missed
        said = f"in a group of two with {doubt.mate}: {part.text}"
        blame = Blame(node, CLEARED, part.check, said, part.measured, part.expected, part.unit, kind=TWOS)
        again = f"again in {missed} of {tries} with proven nodes"
        if tries < LEAST_CONFIRMED:
            blame = blame.but(OPEN, NOT_ASKED)
        elif _is_slow_in_all(doubt) and what not in noisy:
            blame = blame.but(REJECTED, again)
        elif 2 * missed > tries or chance_of(missed, tries, usually) * len(doubts) < GROUPS_CHANCE:
            blame = blame.but(HELD, f"{again}, so no node is blamed")
        found.setdefault(node, []).append(blame)
    return [blame for its in found.values() for blame in heaviest(its)]


def _noisy_in_groups_of_two(facts: Facts) -> set[Operation]:
    """Return in what groups of two lie farther apart than the margin: to be slower than others proves nothing there."""
    values: dict[Operation, list[float]] = {}
    for group in facts.groups:
        for part in group.parts if group.level == TWOS else ():
            values.setdefault(part.operation, []).append(part.slowdown)
    apart = {what: MAD_SIGMA * float(np.median(np.abs(np.array(its) - np.median(its)))) for what, its in values.items()}
    return {what for what, spread in apart.items() if spread > facts.settings.cohort.margin}


def _is_slow_in_all(doubt: Doubt) -> bool:
    """Return whether a node was slow with several proven ones, and with all but one at the most of enough of them."""
    tries = len(doubt.again)
    return tries >= LEAST_IN_GROUPS and doubt.missed >= tries - 1 and confirmed(doubt.witnesses)


def slow_groups(facts: Facts, slow: frozenset[str]) -> list[Blame]:
    """Hold all members of a rack or pod that is slow together twice, though each passed in pairs, but who is ``slow``.

    One that was slow once is open until it is measured again, unless somebody in it is to blame.
    """
    found = []
    for group in facts.groups:
        if group.level not in PARTS_OF_TOPOLOGY or not group.last or not (group.bad or group.doubtful):
            continue
        if not group.bad and slow.intersection(group.nodes):
            continue
        said = f"{group.text}, although all of them passed in pairs: suspect what they share, no node is blamed"
        verdict = HELD
        if not group.bad:
            said, verdict = f"{group.text}; not measured again yet, so no node is blamed", OPEN
        blame = Blame("", verdict, group.check, said, group.measured, group.expected, group.unit, kind=GROUP)
        found += [replace(blame, node=node) for node in group.nodes if node in facts.tested and node not in slow]
    return found
