"""Who is to blame for what. Facts are frozen; each pass takes them and returns blames, and policy is a pass too.

Nobody is confirmed bad by who implicated him first: a second, independent measurement with proven partners decides. A
node is rejected if it is slow again with reference nodes; two of a pair and all behind a boundary are held, since each
of them is good with others. Beyond the share that the class sets, bad nodes are held: what they have in common is
likelier to be at fault than each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import WITNESSES
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import (
    HELD,
    OPEN,
    REJECTED,
    Blame,
    by_node,
    held_instead,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.broken_nodes import (
    hung_nodes,
    odd_clocks,
    wrong_data,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import (
    Facts,
    Reference,
    reference_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import BOUNDARY, NODE
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import TWOS
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.slow_boundaries import (
    perhaps_slow_inside,
    slow_boundaries,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.slow_groups import (
    bad_inside,
    slow_groups,
    slow_in_groups_of_two,
    stragglers,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.slow_nodes import slow_nodes
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.slow_pairs import slow_pairs, weak_pairs


@dataclass(frozen=True)
class Judgement:
    """What follows from the facts: who is proven, all blames in the order in which they are told, and remarks."""

    facts: Facts
    reference: Reference
    blames: tuple[Blame, ...]
    remarks: tuple[str, ...] = ()


def judged(facts: Facts) -> Judgement:
    """Return everything that speaks against nodes under test, and what people have to know besides."""
    reference = reference_of(facts)
    found = odd_clocks(facts) + slow_nodes(facts, reference)
    alone = frozenset(each.node for each in found if each.verdict == REJECTED or each.kind == BOUNDARY)
    found += slow_boundaries(facts, reference, alone)
    found += slow_pairs(facts, alone)
    found += wrong_data(facts, reference, frozenset(by_node(found, REJECTED)))
    found += bad_inside(facts)
    found += hung_nodes(facts, reference)
    found += stragglers(facts)
    found += slow_in_groups_of_two(facts)
    bad, nodes, too_many = bad_share(facts, found)
    remarks = weak_pairs(facts)
    if too_many:
        said = f"{bad} of {nodes} nodes are bad"
        share, text = f"more than {facts.settings.hold.share:.0%}", f"suspect the fabric or the baseline{_alike(facts)}"
        found = held_instead(found, f"{said}, {share}: {text}")
        remarks.append(f"{said}: {text}")
    found = held_for_fabric(facts, found)
    of_two = [each.node for each in found if each.kind == TWOS and each.verdict in (REJECTED, HELD)]
    found += slow_groups(facts, frozenset([*by_node(found, REJECTED), *of_two]))
    return Judgement(facts, _questioned(facts, reference, found), tuple(found), tuple(remarks))


def _questioned(facts: Facts, reference: Reference, found: Sequence[Blame]) -> Reference:
    """Return the reference with a doubt about a single partner in service that was bad with those who are held."""
    held = sorted(by_node(found, HELD))
    if len(reference.nodes) >= WITNESSES or not held:
        return reference
    text = f"bad with {', '.join(held)}, and no other node could tell which of them is"
    alone = {node: text for node in reference.nodes if node in facts.partners and node not in reference.good}
    return replace(reference, doubted={**reference.doubted, **alone})


def bad_share(facts: Facts, blames: Sequence[Blame]) -> tuple[int, int, bool]:
    """Return how many nodes are bad, of how many, and whether what they share is suspect before each of them.

    That is from the share on that the class sets. Who fell below is counted whether it was slow again or not; pairs and
    those behind boundaries, if they are fast with each other, are held for something else. Of all are those that were
    measured in the sweep, and who is bad without, as one on whom it hung at once.
    """
    hold = facts.settings.hold
    held = {blame.node for blame in blames if blame.verdict == HELD}
    bad = {blame.node for blame in blames if blame.verdict in (REJECTED, OPEN)}
    bad |= held.intersection(facts.names(each.members[0] for each in facts.single))
    bad |= held.intersection(facts.names(perhaps_slow_inside(facts)))
    exchanges = facts.sweep.exchanges
    every = len(bad.union(facts.names(np.flatnonzero(exchanges.of_nodes(exchanges.known)))))
    return len(bad), every, len(bad) >= hold.nodes and len(bad) > hold.share * max(1, every)


def _alike(facts: Facts) -> str:
    """Return in words by how much nodes are slow that are so alike, as another kind of hardware is; empty if not."""
    by_channel: dict[int, list[float]] = {}
    for suspect in facts.suspects:
        if suspect.kind == NODE and facts.channels[suspect.channel].rail is None:
            by_channel.setdefault(suspect.channel, []).append(suspect.slowdown)
    most = max(by_channel.values(), key=len, default=[])
    if len(most) < facts.settings.hold.nodes or max(most) - min(most) > facts.settings.cohort.margin:
        return ""
    return f"; {len(most)} are {min(most):.1%} to {max(most):.1%} slow alike: hardware of two kinds wants two classes"


def held_for_fabric(facts: Facts, blames: Sequence[Blame]) -> list[Blame]:
    """Return the blames with every member held where the fabric as a whole is suspect."""
    found = list(blames)
    for said in facts.sweep.fabric:
        text = f"{said}: suspect the fabric, no node is blamed"
        found += [Blame(node, HELD, "pair_bandwidth", text) for node in facts.members]
        found = held_instead(found, "the fabric as a whole is suspect", facts.members)
    return found
