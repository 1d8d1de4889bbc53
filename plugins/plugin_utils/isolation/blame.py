"""Who is to blame for what. Facts are frozen; each pass takes them and returns blames, and policy is a pass too.

Nobody is confirmed bad by who implicated him first: a second, independent measurement with proven partners decides. A
node is rejected if it is slow again with reference nodes; two of a pair and all behind a boundary are held, since each
of them is good with others. Beyond the share that the class sets, bad nodes are held: what they have in common is
likelier to be at fault than each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import WITNESSES, confirmed
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import (
    NODE_SIGMAS,
    SUSPECTS,
    Facts,
    Reference,
    in_common,
    reference_of,
    slow_kinds,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BOUNDARY,
    INTERMITTENT,
    LINK,
    NODE,
    PAIR,
    Channel,
    Suspect,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import size_text
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import MINI_CLUSTER
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.medians import median

# What becomes of a node. Open: held, for want of a second measurement; cleared: it was suspected, and is sound.
REJECTED, HELD, OPEN, CLEARED = "rejected", "held", "open", "cleared"
# The standard error of a median is so much larger than that of a mean.
MEDIAN_ERROR = 1.2533
# A pair is confirmed so many standard errors from its peers, a node NODE_SIGMAS; of pairs there are thousands.
PAIR_SIGMAS = 4.5
# A node that is slow now and then is so again by less than this chance; of normal noise so much lies beyond 3 sigma.
NOW_AND_THEN_CHANCE, NORMAL_TAIL = 5e-3, 1.35e-3
# Fewer exchanges than these confirm nothing, and clear nobody.
LEAST_CONFIRMED = 3
# What was as certain as this in the sweep is not forgotten because it did not show again.
CERTAIN_SIGMAS, CERTAIN_ROWS = 5, 20
NOT_ASKED = "could not be measured again with any proven node, so no node is blamed"


@dataclass(frozen=True)
class Blame:
    """What becomes of a node and why: one check's numbers, and what a person is to do.

    ``kind`` is that of the suspect behind it, empty where something else than slow exchanges spoke.
    """

    node: str
    verdict: str
    check: str = ""
    reason: str = ""
    measured: float | None = None
    expected: float | None = None
    unit: str = ""
    action: str = "investigate"
    kind: str = ""

    def but(self, verdict: str, text: str) -> Blame:
        """Return the same with another verdict, and why."""
        return replace(self, verdict=verdict, reason=f"{self.reason}; {text}")


def by_node(blames: Iterable[Blame], verdict: str) -> dict[str, list[Blame]]:
    """Return the blames of one verdict by node, in their order."""
    found: dict[str, list[Blame]] = {}
    for blame in blames:
        if blame.verdict == verdict:
            found.setdefault(blame.node, []).append(blame)
    return found


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
    found = [*slow_nodes(facts, reference), *slow_boundaries(facts, reference), *slow_pairs(facts)]
    found += wrong_data(facts, reference, frozenset(by_node(found, REJECTED)))
    found += bad_inside(facts)
    found += hung_nodes(facts, reference)
    found += stragglers(facts)
    bad, nodes, too_many = bad_share(facts, found)
    remarks = weak_pairs(facts)
    if too_many:
        said = f"{bad} of {nodes} nodes are bad"
        share = f"more than {facts.settings.hold.share:.0%}"
        found = held_instead(found, f"{said}, {share}: suspect the fabric or the baseline")
        remarks.append(f"{said}: suspect the fabric or the baseline")
    found = held_for_fabric(facts, found)
    found += slow_groups(facts, frozenset(by_node(found, REJECTED)))
    return Judgement(facts, _questioned(facts, reference, found), tuple(found), tuple(remarks))


def _questioned(facts: Facts, reference: Reference, found: Sequence[Blame]) -> Reference:
    """Return the reference with a doubt about a single partner in service that was bad with those who are held."""
    held = sorted(by_node(found, HELD))
    if len(reference.nodes) >= WITNESSES or not held:
        return reference
    text = f"bad with {', '.join(held)}, and no other node could tell which of them is"
    alone = {node: text for node in reference.nodes if node in facts.partners and node not in reference.good}
    return replace(reference, doubted={**reference.doubted, **alone})


def slow_nodes(facts: Facts, reference: Reference) -> list[Blame]:
    """Return what becomes of the members that are slow by themselves: always, on one rail, or now and then."""
    suspects: dict[int, list[Suspect]] = {}
    for suspect in slow_kinds(facts):
        if facts.sweep.members[suspect.members[0]]:
            suspects.setdefault(suspect.members[0], []).append(suspect)
    return _confirmed_nodes(facts, reference, suspects)


def _confirmed_nodes(facts: Facts, reference: Reference, suspects: Mapping[int, Sequence[Suspect]]) -> list[Blame]:
    nobody = np.zeros(len(facts.sweep.exchanges.one), dtype=bool)
    first = {node: [_again(facts, reference, each, nobody) for each in mine] for node, mine in suspects.items()}
    bad = [node for node, answers in first.items() if any(blame.verdict == REJECTED for blame in answers)]
    # What a node showed with those who are to blame says nothing about itself.
    theirs = facts.sweep.exchanges.touching(bad)
    control_is_bad = bool(bad) and _control_is_bad(facts, reference)
    found: list[Blame] = []
    for node, mine in suspects.items():
        answers = first[node] if node in bad else [_again(facts, reference, each, theirs) for each in mine]
        worst = next(
            (each for each in (REJECTED, HELD, OPEN) if any(blame.verdict == each for blame in answers)), CLEARED
        )
        told = [blame for blame in answers if blame.verdict == worst]
        # Confirmed by who is bad as well is not confirmed.
        found += [replace(blame, verdict=HELD) for blame in told] if worst == REJECTED and control_is_bad else told
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
        least = max(channel.threshold, 3 * channel.sigma)
        shown = int((x > least).sum())
        chance = _chance_of(shown, len(x), _usually(facts, channel, least))
        again = f"again in {shown} of {len(x)} with trusted nodes"
        if chance < NOW_AND_THEN_CHANCE:
            values = channel.again_value[rows[x > least]]
            return blame_of(facts, suspect, REJECTED, values, f"{again}; {sure_text(chance)}")
        return blame_of(facts, suspect, HELD, channel.value[mine], f"{again}, so no node is blamed")
    slowdown = float(np.median(x))
    sigmas = slowdown * math.sqrt(len(x)) / (MEDIAN_ERROR * channel.sigma)
    least = facts.least_slowdown(suspect.channel)
    if slowdown > least and (channel.limit or sigmas > NODE_SIGMAS):
        again = f"again in {int((x > channel.threshold).sum())} of {len(x)} with {others} trusted nodes"
        again += "" if channel.limit else f"; {sure_text(_chance(sigmas, len(facts.members)))}"
        return blame_of(facts, suspect, REJECTED, channel.again_value[rows], again)
    before = channel.x[mine[~theirs[mine]]]
    before = before[~np.isnan(before)]
    was = float(np.median(before)) if len(before) >= CERTAIN_ROWS else 0.0
    if was > least and was * math.sqrt(len(before)) / (MEDIAN_ERROR * channel.sigma) > CERTAIN_SIGMAS:
        again = f"not in {len(x)} with trusted nodes afterwards, so no node is blamed"
        return blame_of(facts, suspect, HELD, channel.value[mine], again)
    return Blame(facts.matrix.nodes[node], CLEARED, kind=suspect.kind)


def _chance(sigmas: float, tries: int) -> float:
    return min(1.0, tries * 0.5 * math.erfc(sigmas / math.sqrt(2)))


def sure_text(chance: float) -> str:
    """Return how sure a verdict is, by the chance that noise alone makes one like it among all that were looked at."""
    return f"confidence {100 * (1 - chance):.2f} %" if chance > 5e-5 else "confidence over 99.99 %"


def _usually(facts: Facts, channel: Channel, least: float) -> float:
    """Return in what share of the exchanges of those that are not suspected noise alone goes beyond this slowdown."""
    suspected = {each.members[0] for each in slow_kinds(facts)}
    x = channel.x[~facts.explained & ~facts.sweep.exchanges.touching(suspected)]
    return max(float((x > least).sum() + 0.5) / (int((~np.isnan(x)).sum()) + 1), NORMAL_TAIL)


def _chance_of(shown: int, count: int, share: float) -> float:
    """Return how likely something that shows in this share of them shows in so many of a number of exchanges."""
    return sum(math.comb(count, each) * share**each * (1 - share) ** (count - each) for each in range(shown, count + 1))


def blame_of(facts: Facts, suspect: Suspect, verdict: str, values: Any, again: str) -> Blame:
    """Return what is said of a suspect, or of the first of several nodes, with what was measured."""
    channel = facts.channels[suspect.channel]
    values = values[~np.isnan(values)]
    measured = float(f"{median(values):.4g}") if len(values) else None
    expected = float(f"{channel.expected:.4g}")
    size = size_text(channel.size)
    standard = "the class' limit" if channel.limit else f"{facts.sweep.peers} peers"
    where = "" if channel.rail is None else f"rail {channel.rail}: "
    much = f"{suspect.slowdown:.1%} worse than {standard} at {size}"
    if suspect.kind == INTERMITTENT:
        said = f"{where}slow in {suspect.share:.0%} of {suspect.rows} exchanges at {size}; {again}"
    elif suspect.kind == BOUNDARY:
        said = f"{where}{suspect.unit} is {much} with all nodes outside and not within; {again}"
        if suspect.beyond:
            times = f"in {suspect.share:.0%} of {suspect.rows} exchanges"
            said = f"{where}{suspect.unit} are {much} {times} with each other and not with others; {again}"
    elif suspect.kind == PAIR:
        names = " and ".join(facts.names(suspect.members))
        said = f"{where}{names} are {much} with each other and not with others; {again}"
    else:
        said = f"{where}{much} in {suspect.share:.0%} of {suspect.rows} exchanges; {again}"
    action = "reseat" if channel.rail is not None and suspect.kind in (LINK, INTERMITTENT) else "investigate"
    node = facts.matrix.nodes[suspect.members[0]]
    return Blame(node, verdict, channel.check, said, measured, expected, channel.unit, action, suspect.kind)


def slow_boundaries(facts: Facts, reference: Reference) -> list[Blame]:
    """Return what becomes of the members behind a boundary: held, unless what was slow is fast, or they themselves."""
    found: list[Blame] = []
    for suspect in facts.suspects:
        if suspect.kind != BOUNDARY:
            continue
        channel = facts.channels[suspect.channel]
        between = np.zeros(len(facts.again.one), dtype=bool)
        between[facts.again.across(suspect.members, suspect.beyond)] = True
        within = facts.again.touching(suspect.members) & ~between
        late, again = (each[~np.isnan(each)] for each in (channel.again[between], channel.again[within]))
        if not suspect.declared and len(again) and float(np.median(again)) > channel.threshold:
            # They are slow with each other after all: it is the nodes.
            alone = suspect._replace(kind=NODE, strong=True, unit="", beyond=())
            each = {node: [alone._replace(members=(node,))] for node in suspect.members}
            found += _confirmed_nodes(facts, reference, each)
            continue
        names = facts.names(suspect.behind)
        enough = len(late) >= LEAST_CONFIRMED
        if enough and float(np.median(late)) <= channel.threshold:
            found += [Blame(name, CLEARED, kind=BOUNDARY) for name in names]
            continue
        text = f"again in {len(late)} exchanges" if enough else "could not be measured again"
        values = channel.value[facts.sweep.exchanges.across(suspect.members, suspect.beyond)]
        said = f"{text}: suspect what lies between, no node is blamed"
        blame = blame_of(facts, suspect, HELD, values, said)
        found += [replace(blame, node=name) for name in dict.fromkeys(names) if name in facts.tested]
    return found


def slow_pairs(facts: Facts) -> list[Blame]:
    """Return what becomes of members that are slow with one other: both held, as each is good with others."""
    sweep, margin = facts.sweep, facts.settings.cohort.margin
    pairs = [each for each in facts.suspects if each.kind == PAIR]
    strong = {each for suspect in pairs if suspect.strong for each in suspect.members}
    # So many pairs that stand out are a network with hiccups: nobody is kept from the groups by them.
    crowd = len(strong) > facts.settings.hold.share * max(sweep.peers, 10)
    found: list[Blame] = []
    for suspect in pairs:
        one, other = suspect.members
        channel, names = facts.channels[suspect.channel], facts.names(suspect.members)
        # An exchange that could not be read is none in which the pair was sound.
        late = [row for row in facts.measured_again.get((one, other), []) if not math.isnan(channel.again[row])]
        if len(late) < LEAST_CONFIRMED and not (suspect.strong and not crowd):
            continue
        if len(late) < LEAST_CONFIRMED:
            rows, again = (each.rows_of(one) for each in (sweep.exchanges, facts.again))
            rows = rows[sweep.exchanges.other[rows] == other]
            again = again[facts.again.other[again] == other]
            values = np.concatenate([channel.value[rows], channel.again_value[again]])
            text = "could not be measured again, so no node is blamed"
            found += _both(facts, blame_of(facts, suspect, OPEN, values, text), names)
            continue
        x = channel.again[late]
        slowdown = float(median(x))
        sigmas = slowdown * math.sqrt(len(x)) / (MEDIAN_ERROR * channel.sigma)
        certain = slowdown > margin and (channel.limit or sigmas > PAIR_SIGMAS)
        if certain and slowdown - _of_themselves(facts, suspect) > margin:
            text = f"again in {len(x)} exchanges: suspect what lies between them, no node is blamed"
            found += _both(facts, blame_of(facts, suspect, HELD, channel.again_value[late], text), names)
        else:
            found += [Blame(name, CLEARED, kind=PAIR) for name in names]
    return found


def _both(facts: Facts, blame: Blame, names: Sequence[str]) -> list[Blame]:
    return [replace(blame, node=name) for name in names if name in facts.tested]


def weak_pairs(facts: Facts) -> list[str]:
    """Return in words how many pairs were slow once and not measured again, after a round that asked some."""
    if not facts.confirming_jobs:
        return []
    again = facts.measured_again
    pairs = [each.members for each in facts.suspects if each.kind == PAIR]
    weak = sum(len(again.get((one, other), ())) < LEAST_CONFIRMED for one, other in pairs)
    if not weak:
        return []
    return [f"{weak} pairs were slow once, as noise makes them, and not measured again"]


def _of_themselves(facts: Facts, suspect: Suspect) -> float:
    """Return how slow the slower one of a pair is with all others."""
    exchanges, channel = facts.sweep.exchanges, facts.channels[suspect.channel]
    found = 0.0
    for node in suspect.members:
        mine = exchanges.rows_of(node)
        x = channel.x[mine[~np.isin(exchanges.one[mine] + exchanges.other[mine] - node, suspect.members)]]
        x = x[~np.isnan(x)]
        found = max(found, float(np.median(x)) if len(x) else 0.0)
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


def hung_nodes(facts: Facts, reference: Reference) -> list[Blame]:
    """Return what becomes of members on whom a job hung or crashed: confirmed where it did so with proven ones."""
    fine = reference.good | set(reference.nodes)
    tried = {node for plan in facts.of_kind(SUSPECTS) for job in plan["groups"] for node in job}
    hung_alone = {
        node
        for halt in facts.matrix.halts
        if halt.started and len(halt.group) == 2 and facts.plans[halt.number].get("kind") == SUSPECTS
        for node in halt.group
    }
    found: list[Blame] = []
    for node, hung in facts.hung.items():
        if node not in facts.tested or node in facts.matrix.unavailable:
            continue
        witnesses = hung.waiting & fine
        verdict, said = OPEN, f"hung or crashed: {hung.why}; {NOT_ASKED}"
        if node in hung_alone and confirmed(len(witnesses)) and witnesses & reference.good:
            verdict, said = REJECTED, f"hangs or crashes: {hung.why}; again with {', '.join(sorted(witnesses))}"
        elif node in hung_alone:
            text = "too few of its partners are proven, so no node is blamed"
            verdict, said = HELD, f"hangs or crashes: {hung.why}; {text}"
        elif node in tried:
            text = "not again with a trusted node, so no node is blamed"
            verdict, said = HELD, f"hung or crashed: {hung.why}; {text}"
        found.append(Blame(node, verdict, "pair_bandwidth", said))
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


def bad_share(facts: Facts, blames: Sequence[Blame]) -> tuple[int, int, bool]:
    """Return how many nodes are bad, of how many, and whether what they share is suspect before each of them.

    That is from the share on that the class sets. Who fell below is counted whether it was slow again or not; pairs and
    boundaries are held for something else. Of all are those that were measured in the sweep, and who is bad without, as
    one on whom it hung at once.
    """
    hold = facts.settings.hold
    held = {blame.node for blame in blames if blame.verdict == HELD}
    bad = {blame.node for blame in blames if blame.verdict in (REJECTED, OPEN)}
    bad |= held.intersection(facts.names(each.members[0] for each in slow_kinds(facts)))
    exchanges = facts.sweep.exchanges
    every = len(bad.union(facts.names(np.flatnonzero(exchanges.of_nodes(exchanges.known)))))
    return len(bad), every, len(bad) >= hold.nodes and len(bad) > hold.share * max(1, every)


def held_instead(blames: Sequence[Blame], why: str, nodes: Iterable[str] | None = None) -> list[Blame]:
    """Return the blames with everybody held, or these nodes, who was rejected, after what they are held for already."""
    chosen = {blame.node for blame in blames} if nodes is None else set(nodes)
    moved = [blame.verdict == REJECTED and blame.node in chosen for blame in blames]
    kept = [blame for blame, moves in zip(blames, moved, strict=True) if not moves]
    return kept + [blame.but(HELD, why) for blame, moves in zip(blames, moved, strict=True) if moves]


def held_for_fabric(facts: Facts, blames: Sequence[Blame]) -> list[Blame]:
    """Return the blames with every member held where the fabric as a whole is suspect."""
    found = list(blames)
    for said in facts.sweep.fabric:
        text = f"{said}: suspect the fabric, no node is blamed"
        found += [Blame(node, HELD, "pair_bandwidth", text) for node in facts.members]
        found = held_instead(found, "the fabric as a whole is suspect", facts.members)
    return found


def slow_groups(facts: Facts, rejected: frozenset[str]) -> list[Blame]:
    """Hold all members of a part of the topology that is slow together, though each passed in pairs."""
    last = max((group.number for group in facts.groups if group.level == "all"), default=0)
    found = []
    for group in facts.groups:
        if group.level == "all" or group.number < last or not group.bad:
            continue
        said = f"{group.text}, although all of them passed in pairs: suspect what they share, no node is blamed"
        blame = Blame("", HELD, group.check, said, group.measured, group.expected, group.unit)
        found += [replace(blame, node=node) for node in group.nodes if node in facts.tested and node not in rejected]
    return found
