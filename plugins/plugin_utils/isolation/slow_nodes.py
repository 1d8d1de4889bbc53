"""What becomes of nodes that are slow by themselves, by what they showed again with reference nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import WITNESSES
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import (
    CLEARED,
    HELD,
    LEAST_CONFIRMED,
    NOT_ASKED,
    OPEN,
    REJECTED,
    Blame,
    blame_of,
    heaviest,
    sure_text,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import (
    NODE_SIGMAS,
    Facts,
    Reference,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.chances import (
    MEDIAN_ERROR,
    chance_of,
    usual_share,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import BOUNDARY, INTERMITTENT, Suspect
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.suspects import INTERMITTENT_PARTNERS

# A node that is slow now and then is so again by less than this chance; what happens to others as well with more than
# this one clears whom only chance may have made a suspect. Of 96 exchanges 29 are slow where 30 % are, 2 where 2 % are.
NOW_AND_THEN_CHANCE, NO_CHANCE = 1e-5, 5e-3
# What was as certain as this in the sweep is not forgotten because it did not show again.
CERTAIN_SIGMAS, CERTAIN_ROWS = 5, 20
# Who is slow in fewer of its exchanges than this share may be so with some alone.
NEARLY_ALL = 0.9


def slow_nodes(facts: Facts, reference: Reference) -> list[Blame]:
    """Return what becomes of the members that are slow by themselves: always, on one rail, or now and then."""
    suspects: dict[int, list[Suspect]] = {}
    for suspect in facts.single:
        if facts.sweep.members[suspect.members[0]]:
            suspects.setdefault(suspect.members[0], []).append(suspect)
    return confirmed_nodes(facts, reference, suspects)


def confirmed_nodes(facts: Facts, reference: Reference, suspects: Mapping[int, Sequence[Suspect]]) -> list[Blame]:
    nobody = np.zeros(len(facts.sweep.exchanges.one), dtype=bool)
    first = {node: [_told(facts, reference, each, nobody) for each in mine] for node, mine in suspects.items()}
    bad = [node for node, answers in first.items() if any(blame.verdict == REJECTED for blame in answers)]
    # What a node showed with those who are to blame says nothing about itself.
    theirs = facts.sweep.exchanges.touching(bad)
    control_is_bad = bool(bad) and _control_is_bad(facts, reference)
    found: list[Blame] = []
    for node, mine in suspects.items():
        told = heaviest(first[node] if node in bad else [_told(facts, reference, each, theirs) for each in mine])
        # Confirmed by who is bad as well is not confirmed.
        confirmed_by_bad = told[0].verdict == REJECTED and control_is_bad
        found += [replace(blame, verdict=HELD) for blame in told] if confirmed_by_bad else told
    return found


def _control_is_bad(facts: Facts, reference: Reference) -> bool:
    """Return whether the reference nodes are in service only, and are good with nobody themselves, or are too few."""
    if any(node in reference.good and node in facts.tested for node in reference.nodes):
        return False
    if len(reference.nodes) < WITNESSES:
        # With one partner either of the two may be to blame.
        return True
    # One of them has to be good with anybody.
    for exchanges, again in ((facts.sweep.exchanges, False), (facts.again, True)):
        rows = reference.chosen[exchanges.one] | reference.chosen[exchanges.other]
        for channel in facts.channels:
            if channel.rail is None:
                rows &= (channel.again if again else channel.x) <= channel.threshold
        if rows.any():
            return False
    return True


def _told(facts: Facts, reference: Reference, suspect: Suspect, theirs: Any) -> Blame:
    """Return what becomes of a node: held for a boundary if what it is bad for is its rack's, or its pod's."""
    blame = _again(facts, reference, suspect, theirs)
    unit = _own_unit(facts, suspect) if blame.verdict == REJECTED else ""
    if not unit:
        return blame
    text = f"so are most of {unit}, and seldom with each other: suspect what lies before it, no node is blamed"
    return replace(blame.but(HELD, text), kind=BOUNDARY)


def _again(facts: Facts, reference: Reference, suspect: Suspect, theirs: Any) -> Blame:
    """Return what a node showed with reference nodes; ``theirs`` are rows of the sweep that say nothing about it."""
    channel, node = facts.channels[suspect.channel], suspect.members[0]
    mine = facts.sweep.exchanges.rows_of(node)
    rows = facts.again.rows_of(node)
    mates = facts.again.one[rows] + facts.again.other[rows] - node
    counts = reference.chosen[mates] & ~np.isnan(channel.again[rows])
    rows, others = rows[counts], len(np.unique(mates[counts]))
    x = channel.again[rows]
    if len(x) < LEAST_CONFIRMED or others < min(WITNESSES, len(reference.nodes)):
        return blame_of(facts, suspect, OPEN, channel.value[mine], NOT_ASKED)
    if suspect.kind == INTERMITTENT:
        return _now_and_then(facts, reference, suspect, rows, theirs)
    slowdown = float(np.median(x))
    sigmas = slowdown * math.sqrt(len(x)) / (MEDIAN_ERROR * channel.sigma)
    least = facts.least_slowdown(suspect.channel)
    if slowdown > least and (channel.limit or sigmas > NODE_SIGMAS):
        again = f"again in {int((x > channel.threshold).sum())} of {len(x)} with {others} trusted nodes"
        again += "" if channel.limit else f"; {sure_text(_chance(sigmas, len(facts.members)))}"
        return blame_of(facts, suspect, REJECTED, channel.again_value[rows], again)
    if suspect.share < NEARLY_ALL and not channel.limit:
        # With some of them it was slow, and those with whom it is measured again may be the others.
        found, calm = _now_and_then(facts, reference, suspect, rows, theirs), x[x <= channel.threshold]
        if found.verdict == REJECTED and len(calm) and float(np.median(calm)) <= channel.threshold / 2:
            return found
        if found.verdict == HELD and (x > channel.beyond_noise).any():
            return found
    before = channel.x[mine[~theirs[mine]]]
    before = before[~np.isnan(before)]
    was = float(np.median(before)) if len(before) >= CERTAIN_ROWS else 0.0
    if was > least and was * math.sqrt(len(before)) / (MEDIAN_ERROR * channel.sigma) > CERTAIN_SIGMAS:
        again = f"not in {len(x)} with trusted nodes afterwards, so no node is blamed"
        return blame_of(facts, suspect, HELD, channel.value[mine], again)
    return _cleared(facts, suspect, mates[counts], theirs)


def _cleared(facts: Facts, suspect: Suspect, mates: Any, theirs: Any) -> Blame:
    """Return that a node is sound, if it was measured again with some of those with whom it was slow."""
    exchanges, channel, node = facts.sweep.exchanges, facts.channels[suspect.channel], suspect.members[0]
    mine = exchanges.rows_of(node)
    slow = mine[(channel.x[mine] > channel.beyond_noise) & ~theirs[mine]]
    partners = np.unique(exchanges.one[slow] + exchanges.other[slow] - node)
    if len(partners) >= INTERMITTENT_PARTNERS and np.isin(mates, partners).sum() < LEAST_CONFIRMED:
        text = "not measured again with those with whom it was slow, so no node is blamed"
        return blame_of(facts, suspect, HELD, channel.value[mine], text)
    return Blame(facts.matrix.nodes[node], CLEARED, kind=suspect.kind)


def _now_and_then(facts: Facts, reference: Reference, suspect: Suspect, rows: Any, theirs: Any) -> Blame:
    """Return what a node showed that is slow now and then, or with some: in later rounds with reference nodes.

    It is to blame if it is so with several of them, more often than noise makes it. If all are in one rack, or are most
    of a pod, what lies between may be.
    """
    channel, node = facts.channels[suspect.channel], suspect.members[0]
    mates = facts.again.one[rows] + facts.again.other[rows] - node
    least = channel.beyond_noise
    bad = channel.again[rows] > least
    usually = usual_share(facts, channel, least)
    chance = chance_of(int(bad.sum()), len(bad), usually)
    # What happens to all others as well is nobody's own, whether or not they are suspected for it.
    beside = chance_of(int(bad.sum()), len(bad), max(usually, usual_share(facts, channel, least, node)))
    again = f"again in {int(bad.sum())} of {len(bad)} with trusted nodes"
    same = np.isin(mates, suspect.partners)
    if suspect.partners and same.any():
        again = f"with {len(suspect.partners)} nodes; again in {int(bad[same].sum())} of {int(same.sum())} with these"
        again += f" and {int(bad[~same].sum())} of {int((~same).sum())} with other trusted nodes"
    slow = np.unique(mates[bad])
    if chance > NO_CHANCE and not suspect.strong:
        return _cleared(facts, suspect, mates, theirs)
    # Who is slow with others as well is no witness: all of them may have something else in common.
    paired = [each for suspect in facts.pairs if suspect.strong for each in suspect.members]
    if beside >= NOW_AND_THEN_CHANCE or len(np.setdiff1d(slow, paired)) < min(WITNESSES, len(reference.nodes)):
        mine = facts.sweep.exchanges.rows_of(node)
        return blame_of(facts, suspect, HELD, channel.value[mine], f"{again}, so no node is blamed")
    values, others = channel.again_value[rows[bad]], np.union1d(slow, suspect.partners).astype(int)
    text, unit = "", _one_unit(facts, node, others)
    if unit:
        text = f"all in {unit}: suspect what lies between, no node is blamed"
    elif len(others) < INTERMITTENT_PARTNERS:
        text = "it may be what lies between each two, so no node is blamed"
    if text:
        return blame_of(facts, suspect, HELD, values, f"{again}, {text}")
    return blame_of(facts, suspect, REJECTED, values, f"{again}; {sure_text(beside)}")


def _one_unit(facts: Facts, node: int, others: Any) -> str:
    """Return the rack, or the pod of which they are most, that all these nodes are in, if any.

    That may be the node's own rack, and not its own pod.
    """
    topology = facts.sweep.topology
    for level, part in (("rack", 0.0), ("pod", 0.5)):
        unit = topology.units[level]
        (its,) = np.unique(unit[others]) if len(np.unique(unit[others])) == 1 else (-1,)
        if its == unit[node] and (level == "pod" or facts.settings.nvlink_racks):
            # NVLink joins each node of a rack to all others by what is its own.
            continue
        if its != -1 and len(others) > part * int((unit == its).sum()):
            return f"{level} {topology.names[level][its]}"
    return ""


def _own_unit(facts: Facts, suspect: Suspect) -> str:
    """Return the pod or rack of a node, if most of its nodes are suspected, and are slow half as often within, or less.

    Of two that are slow by themselves now and then an exchange between them is slow more often than others.
    """
    exchanges, topology, channel = facts.sweep.exchanges, facts.sweep.topology, facts.channels[suspect.channel]
    known, late = ~np.isnan(channel.x), channel.x > channel.beyond_noise
    suspected = {each.members[0] for each in facts.single}
    for level in ("pod", "rack"):
        unit, its = topology.units[level], int(topology.units[level][suspect.members[0]])
        there = (unit == its) & (exchanges.of_nodes(known) > 0)
        its_suspected = suspected.intersection(np.flatnonzero(there).tolist())
        if its == -1 or len(its_suspected) < 2 or 2 * len(its_suspected) <= there.sum():
            continue
        one, other = there[exchanges.one], there[exchanges.other]
        within, outwards = (float(late[rows].sum() / max(1, known[rows].sum())) for rows in (one & other, one ^ other))
        if 2 * within < outwards:
            return f"{level} {topology.names[level][its]}"
    return ""


def _chance(sigmas: float, tries: int) -> float:
    return min(1.0, tries * 0.5 * math.erfc(sigmas / math.sqrt(2)))
