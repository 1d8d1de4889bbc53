"""Who is to blame for what. Facts are frozen; each pass takes them and returns blames, and policy is a pass too.

Nobody is confirmed bad by who implicated him first: a second, independent measurement with proven partners decides. A
node is rejected if it is slow again with reference nodes; two of a pair and all behind a boundary are held, since each
of them is good with others. Beyond the share that the class sets, bad nodes are held: what they have in common is
likelier to be at fault than each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import WITNESSES, confirmed
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.campaign_facts import (
    NODE_SIGMAS,
    Facts,
    Hung,
    Reference,
    in_common,
    reference_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import (
    BOUNDARY,
    INTERMITTENT,
    LINK,
    MAD_SIGMA,
    NODE,
    PAIR,
    STRONG_SIGMAS,
    Channel,
    Suspect,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import TWOS
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import size_text
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import Operation
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.groups_of_two import Doubt
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import MINI_CLUSTER
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.medians import median
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.suspects import INTERMITTENT_PARTNERS

# What becomes of a node. Open: held, for want of a second measurement; cleared: it was suspected, and is sound.
REJECTED, HELD, OPEN, CLEARED = "rejected", "held", "open", "cleared"
# The standard error of a median is so much larger than that of a mean.
MEDIAN_ERROR = 1.2533
# A pair is confirmed so many standard errors from its peers, a node NODE_SIGMAS; of pairs there are thousands.
PAIR_SIGMAS = 4.5
# A node that is slow now and then is so again by less than this chance; of normal noise so much lies beyond 3 sigma.
NOW_AND_THEN_CHANCE, NORMAL_TAIL = 5e-3, 1.35e-3
# What happens to others as well, with more than this chance, clears whom only chance may have made a suspect.
NO_CHANCE = 0.05
# A pair that is slow in some of its later exchanges is so by less than this chance, among all that were asked.
PAIR_CHANCE = 1e-3
# Fewer exchanges than these confirm nothing, and clear nobody.
LEAST_CONFIRMED = 3
# In groups of two fewer than these reject nobody: where one in fifty operations is late, four of five are so by chance
# once in a million times. Who was late in fewer is held if chance makes less than this of all in doubt.
LEAST_IN_GROUPS, GROUPS_CHANCE = 5, 1e-3
# The levels of groups that racks and pods are, and the kind of blame that speaks of them; of groups of two it is TWOS.
PARTS_OF_TOPOLOGY, GROUP = ("racks", "pods"), "group"
# What was as certain as this in the sweep is not forgotten because it did not show again.
CERTAIN_SIGMAS, CERTAIN_ROWS = 5, 20
# Who is slow in fewer of its exchanges than this share may be so with some alone.
NEARLY_ALL = 0.9
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
    found = odd_clocks(facts) + slow_nodes(facts, reference)
    alone = frozenset(by_node(found, REJECTED))
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


def slow_nodes(facts: Facts, reference: Reference) -> list[Blame]:
    """Return what becomes of the members that are slow by themselves: always, on one rail, or now and then."""
    suspects: dict[int, list[Suspect]] = {}
    for suspect in facts.single:
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
        told = _heaviest(first[node] if node in bad else [_again(facts, reference, each, theirs) for each in mine])
        # Confirmed by who is bad as well is not confirmed.
        confirmed_by_bad = told[0].verdict == REJECTED and control_is_bad
        found += [replace(blame, verdict=HELD) for blame in told] if confirmed_by_bad else told
    return found


def _heaviest(blames: Sequence[Blame]) -> list[Blame]:
    """Return those of one node's blames that decide what becomes of it."""
    verdict = min((blame.verdict for blame in blames), key=(REJECTED, HELD, OPEN, CLEARED).index)
    return [blame for blame in blames if blame.verdict == verdict]


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
    chance = _chance_of(int(bad.sum()), len(bad), _usually(facts, channel, least))
    again = f"again in {int(bad.sum())} of {len(bad)} with trusted nodes"
    same = np.isin(mates, suspect.partners)
    if suspect.partners and same.any():
        again = f"with {len(suspect.partners)} nodes; again in {int(bad[same].sum())} of {int(same.sum())} with these"
        again += f" and {int(bad[~same].sum())} of {int((~same).sum())} with other trusted nodes"
    slow = np.unique(mates[bad])
    if chance > NO_CHANCE and not suspect.strong:
        return _cleared(facts, suspect, mates, theirs)
    if chance >= NOW_AND_THEN_CHANCE or len(slow) < min(WITNESSES, len(reference.nodes)):
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
    return blame_of(facts, suspect, REJECTED, values, f"{again}; {sure_text(chance)}")


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


def _chance(sigmas: float, tries: int) -> float:
    return min(1.0, tries * 0.5 * math.erfc(sigmas / math.sqrt(2)))


def sure_text(chance: float) -> str:
    """Return how sure a verdict is, by the chance that noise alone makes one like it among all that were looked at."""
    return f"confidence {100 * (1 - chance):.2f} %" if chance > 5e-5 else "confidence over 99.99 %"


def _usually(facts: Facts, channel: Channel, least: float) -> float:
    """Return in what share of the exchanges of those that are not suspected noise alone goes beyond this slowdown."""
    suspected = {each.members[0] for each in facts.single}
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


def slow_boundaries(facts: Facts, reference: Reference, rejected: frozenset[str] = frozenset()) -> list[Blame]:
    """Return what becomes of the members behind a boundary: held, unless what was slow is fast, or they themselves.

    Where everybody on one of two sides is ``rejected`` for itself, nothing lies between.
    """
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
        if suspect.beyond and any(rejected.issuperset(facts.names(side)) for side in (suspect.members, suspect.beyond)):
            found += [Blame(name, CLEARED, kind=BOUNDARY) for name in names if name not in rejected]
            found += _slow_beside(facts, suspect)
            continue
        enough = len(late) >= LEAST_CONFIRMED
        if enough and float(np.median(late)) <= channel.threshold:
            found += [Blame(name, CLEARED, kind=BOUNDARY) for name in names]
            found += _slow_beside(facts, suspect)
            continue
        text = f"again in {len(late)} exchanges" if enough else "could not be measured again"
        values = channel.value[facts.sweep.exchanges.across(suspect.members, suspect.beyond)]
        said = f"{text}: suspect what lies between, no node is blamed"
        blame = blame_of(facts, suspect, HELD, values, said)
        found += [replace(blame, node=name) for name in dict.fromkeys(names) if name in facts.tested]
    return found


def _slow_beside(facts: Facts, suspect: Suspect) -> list[Blame]:
    """Hold both of each slow pair that a boundary explained which is none, but those of nodes slow by themselves."""
    channel, exchanges = facts.channels[suspect.channel], facts.sweep.exchanges
    rows = exchanges.across(suspect.members, suspect.beyond)
    alone = exchanges.touching([each.members[0] for each in facts.single])
    sure = max(channel.threshold, STRONG_SIGMAS * channel.sigma)
    rows = rows[(channel.x[rows] > sure) & ~alone[rows]]
    found: list[Blame] = []
    for row in np.unique(rows).tolist():
        pair = int(exchanges.one[row]), int(exchanges.other[row])
        again = channel.again[facts.measured_again.get(pair, [])]
        if len(again) >= LEAST_CONFIRMED and float(np.median(again)) <= channel.threshold:
            continue
        slow = suspect._replace(kind=PAIR, members=pair, beyond=(), unit="", slowdown=float(channel.x[row]))
        blame = blame_of(facts, slow, HELD, channel.value[[row]], "not measured again, so no node is blamed")
        found += _both(facts, blame, facts.names(pair))
    return found


def slow_pairs(facts: Facts, rejected: frozenset[str] = frozenset()) -> list[Blame]:
    """Return what becomes of members that are slow with one other: both held, as each is good with others."""
    sweep, margin = facts.sweep, facts.settings.cohort.margin
    pairs = list(facts.pairs)
    for suspect in facts.single:
        if suspect.kind == INTERMITTENT and facts.matrix.nodes[suspect.members[0]] not in rejected:
            pairs += _alone_slow(facts, suspect)
    strong = {each for suspect in pairs if suspect.strong for each in suspect.members}
    # So many pairs that stand out are a network with hiccups: until they are asked, nobody is kept from the groups.
    crowd = len(strong) > facts.settings.hold.share * max(sweep.peers, 10) and not facts.confirming_jobs
    bases: dict[int, float] = {}
    found: list[Blame] = []
    cleared: set[str] = set()
    for suspect, late, usually in _pairs_again(facts, pairs):
        channel, names = facts.channels[suspect.channel], facts.names(suspect.members)
        if late < LEAST_CONFIRMED and not (suspect.strong and not crowd):
            continue
        if late < LEAST_CONFIRMED:
            values = _values_of_pair(facts, suspect)
            text = "could not be measured again, so no node is blamed"
            found += _both(facts, blame_of(facts, suspect, OPEN, values, text), names)
            continue
        least = channel.beyond_noise
        sigmas, slowdown = usually * math.sqrt(late) / (MEDIAN_ERROR * channel.sigma), usually
        certain = slowdown > margin and (channel.limit or sigmas > PAIR_SIGMAS)
        rows = facts.measured_again[suspect.members]
        x = channel.again[rows]
        slow = x[x > least]
        if not certain and len(slow) > 1:
            if suspect.channel not in bases:
                bases[suspect.channel] = _usually(facts, channel, least)
            certain = len(pairs) * _chance_of(len(slow), late, bases[suspect.channel]) < PAIR_CHANCE
            slowdown = float(median(slow))
        if certain and slowdown - _of_themselves(facts, suspect) > margin:
            text = f"again in {len(slow)} of {late} exchanges: suspect what lies between them, no node is blamed"
            found += _both(facts, blame_of(facts, suspect, HELD, channel.again_value[rows], text), names)
        else:
            cleared.update(names)
    return found + [Blame(name, CLEARED, kind=PAIR) for name in sorted(cleared)]


def _pairs_again(facts: Facts, pairs: Sequence[Suspect]) -> Iterator[tuple[Suspect, int, float]]:
    """Yield each pair with how often it was measured again, and how slow nearly all of these were.

    An exchange that could not be read is none in which the pair was sound.
    """
    again, nothing = facts.measured_again, len(facts.again.one)
    most = max((len(again.get(each.members, ())) for each in pairs), default=0)
    by_channel: dict[int, list[Suspect]] = {}
    for suspect in pairs:
        by_channel.setdefault(suspect.channel, []).append(suspect)
    for at, mine in by_channel.items():
        rows = [again.get(each.members, []) for each in mine]
        places = np.array([[*each, *[nothing] * (most - len(each))] for each in rows], dtype=np.int64)
        x = np.append(facts.channels[at].again, np.nan)[places]
        counts, slowdowns = (~np.isnan(x)).sum(axis=1), _nearly_all(x)
        yield from zip(mine, counts.tolist(), slowdowns.tolist(), strict=True)


def _values_of_pair(facts: Facts, suspect: Suspect) -> Any:
    """Return what all exchanges of a pair showed, of the sweep and after it."""
    (one, other), channel = suspect.members, facts.channels[suspect.channel]
    values = []
    for exchanges, value in ((facts.sweep.exchanges, channel.value), (facts.again, channel.again_value)):
        rows = exchanges.rows_of(one)
        values.append(value[rows[exchanges.other[rows] == other]])
    return np.concatenate(values)


def _nearly_all(x: Any) -> Any:
    """Return by row what two thirds of what is known in it and one more are at least: all of three, five of six.

    Of a bad pair nearly all exchanges are slow; where many are, now and then, some of six are so by chance.
    """
    ordered, known = np.sort(x, axis=-1), (~np.isnan(x)).sum(axis=-1, keepdims=True)
    if not x.shape[-1]:
        return np.full(x.shape[:-1], np.nan)
    return np.take_along_axis(ordered, np.maximum(known - 1, 0) // 3, axis=-1)[..., 0]


def _alone_slow(facts: Facts, suspect: Suspect) -> list[Suspect]:
    """Return the pair that a node was taken for that is slow again with one of its partners only, if it is."""
    found = []
    for other in suspect.partners:
        pair = min(*suspect.members, other), max(*suspect.members, other)
        x = facts.channels[suspect.channel].again[facts.measured_again.get(pair, [])]
        if len(x) >= LEAST_CONFIRMED and _nearly_all(x) > facts.channels[suspect.channel].threshold:
            found.append(suspect._replace(kind=PAIR, members=pair, strong=False, partners=()))
    return found if len(found) == 1 else []


def _both(facts: Facts, blame: Blame, names: Sequence[str]) -> list[Blame]:
    return [replace(blame, node=name) for name in names if name in facts.tested]


def weak_pairs(facts: Facts) -> list[str]:
    """Return in words how many pairs were slow once and not measured again, after a round that asked some."""
    if not facts.confirming_jobs:
        return []
    again = facts.measured_again
    weak = sum(len(again.get(each.members, ())) < LEAST_CONFIRMED for each in facts.pairs)
    if not weak:
        return []
    return [f"{weak} pairs were slow once, as noise makes them, and not measured again"]


def _of_themselves(facts: Facts, suspect: Suspect) -> float:
    """Return how slow the slower one of a pair is with all others."""
    exchanges, channel = facts.sweep.exchanges, facts.channels[suspect.channel]
    found = 0.0
    # What it showed with those who are slow by themselves says nothing about it.
    left_out = [*suspect.members, *(each.members[0] for each in facts.single)]
    for node in suspect.members:
        mine = exchanges.rows_of(node)
        x = channel.x[mine[~np.isin(exchanges.one[mine] + exchanges.other[mine] - node, left_out)]]
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
    those behind boundaries, if they are fast with each other, are held for something else. Of all are those that were
    measured in the sweep, and who is bad without, as one on whom it hung at once.
    """
    hold = facts.settings.hold
    held = {blame.node for blame in blames if blame.verdict == HELD}
    bad = {blame.node for blame in blames if blame.verdict in (REJECTED, OPEN)}
    bad |= held.intersection(facts.names(each.members[0] for each in facts.single))
    bad |= held.intersection(facts.names(_perhaps_slow_inside(facts)))
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


def _perhaps_slow_inside(facts: Facts) -> set[int]:
    """Return who is held for a boundary of which nobody showed that those behind it are fast with each other.

    Of a sweep that was cut short no two hosts of a small rack need have met.
    """
    found: set[int] = set()
    for suspect in facts.suspects:
        if suspect.kind != BOUNDARY or suspect.beyond or found.issuperset(suspect.members):
            continue
        channel, inside = facts.channels[suspect.channel], np.zeros(len(facts.matrix.nodes), dtype=bool)
        inside[list(suspect.members)] = True
        x = np.concatenate(
            [
                values[rows[inside[each.one[rows]] & inside[each.other[rows]]]]
                for each, values in ((facts.sweep.exchanges, channel.x), (facts.again, channel.again))
                for rows in [np.concatenate([each.rows_of(node) for node in suspect.members])]
            ]
        )
        x = x[~np.isnan(x)]
        if not len(x) or float(np.median(x)) > channel.threshold:
            found.update(suspect.members)
    return found


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
        elif 2 * missed > tries or _chance_of(missed, tries, usually) * len(doubts) < GROUPS_CHANCE:
            blame = blame.but(HELD, f"{again}, so no node is blamed")
        found.setdefault(node, []).append(blame)
    return [blame for its in found.values() for blame in _heaviest(its)]


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
