"""What becomes of nodes that count time otherwise than others, get wrong data, or on whom jobs hang."""

from __future__ import annotations

import math
from collections import Counter

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import WITNESSES, confirmed
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.blame import (
    CLEARED,
    HELD,
    NOT_ASKED,
    OPEN,
    REJECTED,
    Blame,
    by_node,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import (
    CONFIRM,
    Facts,
    Hung,
    Reference,
)

# How likely it may be that anybody of a fleet has wrong data with so many partners by chance, and is blamed for it.
LEAST_CHANCE = 0.01


def odd_clocks(facts: Facts) -> list[Blame]:
    """Hold whose clock counts otherwise than the others': nothing that it measures tells what it is."""
    found = []
    for node, name in zip(facts.clocks, facts.names(facts.clocks), strict=True):
        if name in facts.tested:
            factor, others = facts.clocks[node], facts.sweep.peers - 1
            much = f"{abs(factor - 1):.1%} {'more' if factor > 1 else 'less'}"
            said = f"its clock counts {much} than those of {others} others in the same exchanges, at every size"
            found.append(Blame(name, HELD, "pair_bandwidth", f"{said}: no node is blamed"))
    return found


def wrong_data(facts: Facts, reference: Reference, rejected: frozenset[str]) -> list[Blame]:
    """Return what becomes of members that wrong data implicates, where so many are ``rejected`` already.

    Whoever took part in it is held, unless another is certainly to blame.
    """
    wrong, members = facts.wrong, facts.tested
    sure, pairs = _surely_wrong(facts)
    fine = {*reference.nodes, *reference.good}.difference(*pairs)
    for node, met in list(sure.items()):
        if not confirmed(len(fine & met)):
            pairs |= {(min(node, other), max(node, other)) for other in sure.pop(node)}
    rails: dict[str, set[int]] = {}
    for each in facts.matrix.wrong:
        for node in (each.receiver, *([each.sender] if each.sender else [])):
            rails.setdefault(node, set()).update(each.rails)
    found: list[Blame] = []
    for node in sorted(members & sure.keys()):
        others = sorted(sure[node])
        which = sorted(rails.get(node, ()))
        single = len(which) == 1 and facts.matrix.rails > 1
        count = sum(wrong[node][other] for other in others)
        said = f"wrong data in {count} exchanges with {', '.join(others[:4])}"
        said += f" and {len(others) - 4} more" if len(others) > 4 else ""
        said += f", always on rail {which[0]}" if single else ""
        action = "reseat" if single else "investigate"
        found.append(Blame(node, REJECTED, "data", said, count, 0, "exchanges", action))
    rejected |= set(by_node(found, REJECTED))
    for one, other in sorted(pairs):
        count = wrong[one][other]
        said = f"wrong data in {count} exchanges between {one} and {other}: neither is certainly to blame for it"
        for node in sorted({one, other} & members):
            verdict = REJECTED if node in rejected else HELD
            found.append(Blame(node, verdict, "data", said, count, 0, "exchanges"))
    return found


def _surely_wrong(facts: Facts) -> tuple[dict[str, set[str]], set[tuple[str, str]]]:
    """Return who is certainly to blame for wrong data and with whom, and the pairs of all that nobody explains.

    A fault in what a node sends explains nothing that it receives, so either is counted by itself. It is certain if
    wrong data came with several partners again once suspects were asked, with more than half of all nodes (fewer are
    bad), or with more of them than chance makes of what others had: several bad nodes may send to one sound node.
    """
    left: dict[tuple[str, bool], set[str]] = {}
    again: dict[tuple[str, bool], set[str]] = {}
    for each in facts.matrix.wrong:
        if each.sender is not None:
            later = facts.plans.get(each.number, {}).get("kind") == CONFIRM
            for role, other in (((each.sender, True), each.receiver), ((each.receiver, False), each.sender)):
                left.setdefault(role, set()).add(other)
                again.setdefault(role, set()).update({other} if later else ())
    peers = max(1, facts.sweep.peers - 1)
    sure: dict[str, set[str]] = {}
    while True:
        usual = sum(len(others) for others in left.values()) / 2 / peers
        certain = [
            role
            for role, others in left.items()
            if confirmed(len(again[role] & others))
            or (confirmed(len(others)) and 2 * len(others) > peers)
            or 2 * peers * _chance(len(others), usual) < LEAST_CHANCE
        ]
        if not certain:
            break
        role = max(certain, key=lambda each: (len(left[each]), each))
        node, sent = role
        sure.setdefault(node, set()).update(left[role])
        for other in left.pop(role):
            left[other, not sent].discard(node)
    return sure, {(min(node, other), max(node, other)) for (node, _sent), others in left.items() for other in others}


def _chance(count: int, usual: float) -> float:
    """Return at most how likely one has so many where chance gives so many as usual (the tail of Poisson)."""
    if count <= usual:
        return 1.0
    return math.exp(count * math.log(usual) - usual - math.lgamma(count + 1)) / (1 - usual / (count + 1))


def hangs_again(facts: Facts, reference: Reference, hung: Hung) -> bool:
    """Return whether it is certain that a node is to blame for a hang.

    It stood still by itself twice, or kept two proven nodes waiting: one of them was good in this campaign, and with
    one it was alone. Who waited for others in several sweeps may be what makes them look so, and tells of nobody.
    """
    fine = (reference.good | {*reference.nodes, *facts.partners}) - facts.hung.keys() - reference.doubted.keys()
    waited = Counter(node for halt in facts.halts for node in set(halt.partners.values()))
    witnesses = {node for node in hung.waiting & fine if waited[node] < WITNESSES}
    again = hung.again and confirmed(len(witnesses)) and bool(witnesses & reference.good)
    return again or confirmed(len(hung.inside))


def hung_nodes(facts: Facts, reference: Reference) -> list[Blame]:
    """Return what becomes of members on whom a job hung or crashed: confirmed where it did so with proven ones.

    Whoever did so once and not again is held. It is cleared only if another answers for it.
    """
    found = [Blame(node, CLEARED) for node in facts.cleared if node in facts.tested]
    for node, hung in facts.hung.items():
        if node not in facts.tested or node in facts.matrix.unavailable:
            continue
        verdict, said = OPEN, f"hung or crashed: {hung.why}; {NOT_ASKED}"
        if hangs_again(facts, reference, hung):
            where = f"with {', '.join(sorted(hung.waiting))}" if hung.again and hung.waiting else "inside the node"
            verdict, said = REJECTED, f"hangs or crashes: {hung.why}; again {where}"
        elif hung.again:
            text = "too few of its partners are proven, so no node is blamed"
            verdict, said = HELD, f"hangs or crashes: {hung.why}; {text}"
        elif hung.asked:
            text = "not again with a trusted node" if hung.well else "nothing was measured with a trusted node"
            verdict, said = HELD, f"hung or crashed: {hung.why}; {text}, so no node is blamed"
        found.append(Blame(node, verdict, "pair_bandwidth", said))
    return found
