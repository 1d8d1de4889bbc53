"""What becomes of nodes that count time otherwise than others, get wrong data, or on whom jobs hang."""

from __future__ import annotations

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import confirmed
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
    Facts,
    Hung,
    Reference,
    in_common,
)


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
    """Return what becomes of members that wrong data implicates, where so many are ``rejected`` already."""
    wrong = facts.wrong
    nodes, pairs = in_common(wrong)
    rails: dict[str, set[int]] = {}
    for each in facts.matrix.wrong:
        for node in (each.receiver, *([each.sender] if each.sender else [])):
            rails.setdefault(node, set()).update(each.rails)
    members, fine = facts.tested, {*reference.nodes, *reference.good}
    found: list[Blame] = []
    for node in sorted(members & set(nodes)):
        others = sorted(set(wrong[node]))
        which = sorted(rails.get(node, ()))
        single = len(which) == 1 and facts.matrix.rails > 1
        count = sum(wrong[node].values())
        said = f"wrong data in {count} exchanges with {', '.join(others[:4])}"
        said += f" and {len(others) - 4} more" if len(others) > 4 else ""
        said += f", always on rail {which[0]}" if single else ""
        action = "reseat" if single else "investigate"
        blame = Blame(node, REJECTED, "data", said, count, 0, "exchanges", action)
        if not confirmed(len(fine.intersection(others))):
            blame = blame.but(OPEN, "none of them is proven, so no node is blamed")
        found.append(blame)
    rejected |= set(by_node(found, REJECTED))
    for one, other in pairs:
        count = wrong[one][other]
        said = f"wrong data in {count} exchanges between {one} and {other} alone: no node is blamed"
        for node in sorted({one, other} & members):
            verdict = REJECTED if node in rejected else HELD
            found.append(Blame(node, verdict, "data", said, count, 0, "exchanges"))
    return found


def hangs_again(facts: Facts, reference: Reference, hung: Hung) -> bool:
    """Return whether it is certain that a node is to blame for a hang.

    It stood still by itself twice, or kept two proven nodes waiting: one of them was good in this campaign, and with
    one it was alone.
    """
    fine = (reference.good | {*reference.nodes, *facts.partners}) - facts.hung.keys() - reference.doubted.keys()
    witnesses = hung.waiting & fine
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
