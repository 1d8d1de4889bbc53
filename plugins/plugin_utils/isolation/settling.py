"""What of the suspects is certain: a second, independent measurement with partners that are proven decides.

Nobody is convicted by who accused him first. A node is rejected if it is slow again with trusted others; two of a pair
and all behind a boundary are held, since each of them is good with others. Beyond the share that the class sets, bad
nodes are held: what they have in common is likelier to be at fault than each of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.effects import explain
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.grouping import Judged, judged_groups
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.judging import size_text
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import MINI_CLUSTER
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.schedule import (
    CROWDED_REPEATS,
    PAIR_REPEATS,
    RARE_REPEATS,
    STEADY_REPEATS,
    Meeting,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.view import (
    BOUNDARY,
    INTERMITTENT,
    LINK,
    NODE,
    PAIR,
    Channel,
    Suspect,
    View,
    across,
    spread_of_nodes,
)

# The standard error of a median is so much larger than that of a mean.
MEDIAN_ERROR = 1.2533
# Confirmed is what lies so many standard errors from its peers; of pairs there are thousands.
NODE_SIGMAS, PAIR_SIGMAS = 3.5, 4.5
# Two witnesses: with one, a fault between just these two would be taken for the node's.
WITNESSES = 2
# A node that is slow now and then is so again by less than this chance; of normal noise so much lies beyond 3 sigma.
NOW_AND_THEN_CHANCE, NORMAL_TAIL = 5e-3, 1.35e-3
# Fewer exchanges than these confirm nothing, and clear nobody.
LEAST_CONFIRMED = 3
# Few nodes have few partners: what is asked again is asked oftener.
FEW_NODES, FEW_REPEATS = 8, 12
# What was as certain as this in the walk is not forgotten because it did not show again.
CERTAIN_SIGMAS, CERTAIN_ROWS = 5, 20
NOT_ASKED = "could not be measured again with anybody who is proven, so nobody is blamed"


@dataclass(frozen=True)
class Blame:
    """Why a node is rejected, held or not cleared: one check's numbers, and what a person is to do."""

    check: str
    reason: str
    measured: float | None = None
    expected: float | None = None
    unit: str = ""
    action: str = "investigate"


@dataclass
class Settled:
    """What is known of everybody: who is trusted, what is to be asked again, who is rejected, held or still open.

    ``hung`` says why a node is kept out of other jobs, ``hung_with`` whom it kept waiting.
    """

    view: View
    members: list[str]
    suspects: list[Suspect] = field(default_factory=list)
    good: set[str] = field(default_factory=set)
    trusted: list[str] = field(default_factory=list)
    vouching: Any = None
    meetings: list[Meeting] = field(default_factory=list)
    rejected: dict[str, list[Blame]] = field(default_factory=dict)
    held: dict[str, list[Blame]] = field(default_factory=dict)
    open: dict[str, list[Blame]] = field(default_factory=dict)
    eligible: set[str] = field(default_factory=set)
    bounded: set[str] = field(default_factory=set)
    cleared: set[str] = field(default_factory=set)
    ask_inside: set[str] = field(default_factory=set)
    hung: dict[str, str] = field(default_factory=dict)
    hung_with: dict[str, set[str]] = field(default_factory=dict)
    doubted: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    groups: list[Judged] = field(default_factory=list)
    tried: list[tuple[frozenset[str], bool]] = field(default_factory=list)
    tried_rounds: set[int] = field(default_factory=set)
    train_jobs: list[set[str]] = field(default_factory=list)
    plans: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    confirmed: Counter[tuple[str, str]] = field(default_factory=Counter)
    confirmed_jobs: list[set[str]] = field(default_factory=list)
    late: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def asked(self, meeting: Meeting) -> bool:
        """Return whether what the meeting is to tell was measured already, or was tried twice in vain."""
        key = (meeting.node, meeting.other or "")
        nodes = {meeting.node, *([meeting.other] if meeting.other else [])}
        in_vain = sum(nodes <= job for job in self.confirmed_jobs)
        return self.confirmed[key] >= LEAST_CONFIRMED or in_vain >= 2

    def covered(self, eligible: Sequence[str]) -> bool:
        """Return whether these all ran together, well or without anybody who is to blame since."""
        wanted = frozenset(eligible)
        fine = any(
            wanted <= set(group.nodes) and group.whole and not group.bad
            for group in self.groups
            if group.level == "all"
        )
        same = [finished for nodes, finished in self.tried if nodes == wanted]
        if any(group.doubtful for group in self.groups) and len(self.tried_rounds) < WITNESSES:
            return False
        return fine or any(same) or len(same) > 1

    def trained(self, eligible: Sequence[str]) -> bool:
        """Return whether these all went through the training step together, or were to twice."""
        wanted = set(eligible)
        done = [each for each in self.view.matrix.groups if each.kind == "train" and wanted <= set(each.nodes)]
        return bool(done) or sum(wanted <= job for job in self.train_jobs) >= WITNESSES


def settle(
    view: View, members: Sequence[str], partners: Sequence[str], plans: Mapping[int, Mapping[str, Any]]
) -> Settled:
    """Return what follows from everything that was seen so far."""
    settled = Settled(view, list(members), plans=plans)
    _count_confirmations(settled)
    _halts(settled, partners)
    settled.suspects = explain(view)
    wrong = _wrong_suspects(view)
    inside = judged_groups(view.matrix, view.settings, "inside")
    slow_inside: dict[str, list[Judged]] = {node: [] for node in members}
    for each in inside:
        if (each.bad or each.doubtful) and each.nodes[0] in slow_inside:
            slow_inside[each.nodes[0]].append(each)
    rounds_inside = _rounds_inside(settled)
    # Who was so once and not again is asked no more, and vouches for others.
    settled.ask_inside = {
        node
        for node, bad in slow_inside.items()
        if bad and len(rounds_inside[node]) == len({each.number for each in bad})
    }
    _trust(settled, wrong, partners)
    settled.groups = judged_groups(view.matrix, view.settings, "groups")
    _tried(settled)
    _meetings(settled, wrong)
    _settle_nodes(settled)
    _settle_boundaries(settled)
    _settle_pairs(settled)
    _settle_wrong(settled, wrong)
    _settle_inside(settled, slow_inside, rounds_inside)
    _settle_hung(settled, partners)
    _stragglers(settled)
    _hold_share(settled)
    _slow_groups(settled)
    _eligible(settled)
    return settled


def _count_confirmations(settled: Settled) -> None:
    view, names = settled.view, settled.view.matrix.nodes
    for row in np.flatnonzero(~view.first & ~np.isnan(view.matrix.gb).any(axis=(1, 2))).tolist():
        one, other = int(view.one[row]), int(view.other[row])
        settled.late.setdefault((one, other), []).append(row)
        for key in ((one, other), (other, one)):
            settled.confirmed[names[key[0]], names[key[1]]] += 1
            settled.confirmed[names[key[0]], ""] += 1
    for plan in plans_of(settled.plans, "confirm"):
        settled.confirmed_jobs += [set(job) for job in plan["groups"]]


def plans_of(plans: Mapping[int, Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """Return the plans of the finished rounds of one kind."""
    return [plan for _number, plan in sorted(plans.items()) if plan.get("kind") == kind]


def _names(settled: Settled, members: Iterable[int]) -> list[str]:
    return [settled.view.matrix.nodes[each] for each in members]


def _halts(settled: Settled, partners: Sequence[str]) -> None:
    for halt in settled.view.matrix.halts:
        if not halt.started:
            continue
        suspects = dict(halt.suspects)
        if len(halt.group) == 2 and not suspects:
            suspects = dict.fromkeys(halt.group, halt.error)
        for node, why in suspects.items():
            if len(halt.group) == 2:
                other = halt.group[1 - halt.group.index(node)]
                if node in partners or (other in settled.hung and node not in settled.hung):
                    # The other one is already in question, and this one was to tell about it.
                    continue
            else:
                other = halt.partners.get(node, "")
            if node in halt.unavailable:
                continue
            settled.hung.setdefault(node, f"{why} (round {halt.number}: {halt.error})")
            settled.hung_with.setdefault(node, set()).update({other} - {""})


def _wrong_suspects(view: View) -> dict[str, dict[str, int]]:
    """Return by node the partners with which data was wrong, and how often."""
    found: dict[str, dict[str, int]] = {}
    for each in view.matrix.wrong:
        if each.sender is not None:
            for one, other in ((each.receiver, each.sender), (each.sender, each.receiver)):
                found.setdefault(one, {})[other] = found.setdefault(one, {}).get(other, 0) + 1
    return found


def _common(wrong: Mapping[str, Mapping[str, int]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the nodes that several wrong exchanges have in common, and the pairs of those that none explains."""
    left = {node: set(others) for node, others in wrong.items()}
    nodes: list[str] = []
    while left:
        node = min(left, key=lambda each: (-len(left[each]), each))
        if len(left[node]) < WITNESSES:
            break
        nodes.append(node)
        for other in left.pop(node):
            left.get(other, set()).discard(node)
    pairs = {(min(node, other), max(node, other)) for node, others in left.items() for other in others}
    return nodes, sorted(pairs)


def _trust(settled: Settled, wrong: Mapping[str, Mapping[str, int]], partners: Sequence[str]) -> None:
    """Find who is proven by exchanges with others that are: nobody suspected, or of whom too little is known."""
    view, matrix = settled.view, settled.view.matrix
    blamed = np.zeros(len(matrix.nodes), dtype=bool)
    strong_pairs = [each for each in settled.suspects if each.kind == PAIR and each.strong]
    for suspect in settled.suspects:
        if suspect.kind != PAIR:
            blamed[list(suspect.behind)] = True
    if 2 * len(strong_pairs) <= settled.view.settings.hold.share * max(view.peers, 5):
        for suspect in strong_pairs:
            blamed[list(suspect.members)] = True
    out = {*settled.hung, *matrix.unavailable, *matrix.garbled, *settled.ask_inside}
    nodes, pairs = _common(wrong)
    out |= {*nodes, *(node for pair in pairs for node in pair)}
    index = matrix.index()
    blamed[[index[node] for node in out if node in index]] = True
    fine = ~np.isnan(matrix.gb).any(axis=(1, 2)) & ~blamed[matrix.one] & ~blamed[matrix.other]
    judged = False
    for channel in view.channels:
        if channel.rail is None and channel.check in ("pair_bandwidth", "pair_latency"):
            judged = True
            fine &= channel.x <= max(channel.threshold, 3 * channel.sigma)
    met = np.zeros(len(matrix.nodes), dtype=bool)
    if judged:
        met[matrix.one[fine]] = met[matrix.other[fine]] = True
    proven = [node for index, node in enumerate(matrix.nodes) if met[index]]
    settled.good = set(proven)
    doubted = {
        node
        for suspect in settled.suspects
        if suspect.kind in (NODE, LINK)
        for node in _names(settled, suspect.members)
        if node in partners and proven
    }
    for node in sorted(doubted):
        settled.doubted[node] = "slow with nodes that are not with others"
    members = set(settled.members)
    mine = [node for node in proven if node in members]
    helpers = [node for node in partners if node not in doubted and node not in out]
    settled.trusted = mine if len(mine) > WITNESSES else [*mine, *helpers]
    settled.vouching = np.zeros(len(matrix.nodes), dtype=bool)
    settled.vouching[[index[node] for node in settled.trusted]] = True


def _meetings(settled: Settled, wrong: Mapping[str, Mapping[str, int]]) -> None:
    few = len(settled.members) < FEW_NODES
    repeats: dict[str, int] = {}
    for suspect in settled.suspects:
        if suspect.kind in (NODE, LINK, INTERMITTENT):
            asked = RARE_REPEATS if suspect.kind == INTERMITTENT else FEW_REPEATS if few else STEADY_REPEATS
            for node in _names(settled, suspect.members):
                repeats[node] = max(repeats.get(node, 0), asked)
        elif suspect.kind == BOUNDARY and not suspect.declared:
            # It may be they themselves, and that takes witnesses.
            for node in _names(settled, suspect.members[:4]):
                repeats.setdefault(node, STEADY_REPEATS)
    nodes, wrong_pairs = _common(wrong)
    for node in (*nodes, *(each for pair in wrong_pairs for each in pair)):
        repeats.setdefault(node, STEADY_REPEATS)
    members = set(settled.members)
    gone = {*settled.hung, *settled.view.matrix.unavailable}
    found = [Meeting(node, None, count) for node, count in sorted(repeats.items()) if node in members - gone]
    pairs: dict[tuple[str, str], int] = dict.fromkeys(wrong_pairs, PAIR_REPEATS)
    trusted = [node for node in settled.trusted if node not in gone]
    for suspect in settled.suspects:
        if suspect.kind == BOUNDARY:
            for pair in _across_and_within(settled, suspect, trusted):
                pairs.setdefault(pair, PAIR_REPEATS)
    channels = settled.view.channels
    slow = [each for each in settled.suspects if each.kind == PAIR]
    # All rails together before one: many more single ones stand out by chance.
    slow.sort(key=lambda each: (-each.strong, channels[each.channel].rail is not None, -each.slowdown))
    weak = set()
    for suspect in slow:
        one, other = _names(settled, suspect.members)
        if (one, other) not in pairs:
            pairs[one, other] = PAIR_REPEATS if suspect.strong else CROWDED_REPEATS
            weak |= set() if suspect.strong else {(one, other)}
    found += [Meeting(*pair, count, pair in weak) for pair, count in pairs.items() if not gone & set(pair)]
    settled.meetings = found


def _across_and_within(settled: Settled, suspect: Suspect, trusted: Sequence[str]) -> list[tuple[str, str]]:
    """Return some pairs across a boundary, and some that it does not lie between."""
    names = _names(settled, suspect.members)
    outside = _names(settled, suspect.beyond) or [node for node in trusted if node not in names]
    step = max(1, len(outside) // 4)
    across_it = [(node, outside[index * step % len(outside)]) for index, node in enumerate(names[:4]) if outside]
    return [*across_it, *zip(names[:4:2], names[1:4:2], strict=False)]


def _confirming(settled: Settled, channel: Channel, rows: Any) -> Any:
    values = channel.x[rows & ~settled.view.first]
    return values[~np.isnan(values)]


def _with_trusted(settled: Settled, node: int) -> Any:
    """Return the rows in which the node met somebody who is trusted."""
    view = settled.view
    mine = view.rows_of(node)
    return mine[settled.vouching[view.one[mine] + view.other[mine] - node]]


def _control_is_bad(settled: Settled) -> bool:
    """Return whether those who are to vouch are in service only, and are good with nobody themselves."""
    view = settled.view
    if any(node in settled.good and node in settled.members for node in settled.trusted):
        return False
    helpers = settled.vouching
    if helpers.sum() < WITNESSES:
        return False
    # One of them has to be good with anybody.
    rows = helpers[view.one] | helpers[view.other]
    for channel in view.channels:
        if channel.rail is None:
            rows &= channel.x <= channel.threshold
    return not rows.any()


def _chance(sigmas: float, tries: int) -> float:
    return min(1.0, tries * 0.5 * math.erfc(sigmas / math.sqrt(2)))


def sure_text(chance: float) -> str:
    """Return how sure a verdict is, by the chance that noise alone makes one like it among all that were looked at."""
    return f"confidence {100 * (1 - chance):.2f} %" if chance > 5e-5 else "confidence over 99.99 %"


def _settle_nodes(settled: Settled) -> None:
    suspects: dict[int, list[Suspect]] = {}
    for suspect in settled.suspects:
        if suspect.kind in (NODE, LINK, INTERMITTENT) and settled.view.members[suspect.members[0]]:
            suspects.setdefault(suspect.members[0], []).append(suspect)
    _settle_these(settled, suspects)


def _settle_these(settled: Settled, suspects: Mapping[int, Sequence[Suspect]]) -> None:
    control = _control_is_bad(settled)
    nobody = np.zeros(len(settled.view.one), dtype=bool)
    found = {
        node: [_settle_node(settled, node, suspect, nobody) for suspect in mine] for node, mine in suspects.items()
    }
    blamed = [node for node, answers in found.items() if any(where is settled.rejected for where, _blame in answers)]
    # What a node showed with those who are to blame says nothing about itself.
    theirs = settled.view.touching(blamed)
    for node, mine in suspects.items():
        name = settled.view.matrix.nodes[node]
        answers = found[node] if node in blamed else [_settle_node(settled, node, each, theirs) for each in mine]
        if all(where is None for where, _blame in answers):
            settled.cleared.add(name)
        for verdict in (settled.rejected, settled.held, settled.open):
            blames = [blame for where, blame in answers if where is verdict and blame is not None]
            if not blames:
                continue
            # Convicted by who is bad as well is not convicted.
            (settled.held if verdict is settled.rejected and control else verdict).setdefault(name, []).extend(blames)
            break


def _settle_node(settled: Settled, node: int, suspect: Suspect, theirs: Any) -> tuple[Any, Blame | None]:
    view = settled.view
    channel = view.channels[suspect.channel]
    walked = view.rows_of(node)[view.first[view.rows_of(node)]]
    rows = _with_trusted(settled, node)
    rows = rows[~view.first[rows] & ~np.isnan(channel.x[rows])]
    x = channel.x[rows]
    others = len(np.unique(np.concatenate([view.one[rows], view.other[rows]]))) - 1
    if len(x) < LEAST_CONFIRMED or others < min(WITNESSES, len(settled.trusted)):
        where = settled.open
        return where, blame_of(settled, suspect, walked, NOT_ASKED)
    if suspect.kind == INTERMITTENT:
        least = max(channel.threshold, 3 * channel.sigma)
        shown = int((x > least).sum())
        chance = _chance_of(shown, len(x), _usually(settled, channel, least))
        again = f"again in {shown} of {len(x)} with trusted nodes"
        if chance < NOW_AND_THEN_CHANCE:
            return settled.rejected, blame_of(settled, suspect, rows[x > least], f"{again}; {sure_text(chance)}")
        return settled.held, blame_of(settled, suspect, walked, f"{again}, so nobody is blamed")
    slowdown = float(np.median(x))
    sigmas = slowdown * math.sqrt(len(x)) / (MEDIAN_ERROR * channel.sigma)
    least = least_slowdown(view, suspect.channel)
    if slowdown > least and (channel.limit or sigmas > NODE_SIGMAS):
        sure = "every one of them" if channel.limit else sure_text(_chance(sigmas, len(settled.members)))
        bad = int((x > channel.threshold).sum())
        return settled.rejected, blame_of(
            settled,
            suspect,
            rows,
            f"again in {bad} of {len(x)} with {others} trusted nodes; {sure}"
            if not channel.limit
            else f"again in {bad} of {len(x)} with {others} trusted nodes",
        )
    before = channel.x[walked[~theirs[walked]]]
    before = before[~np.isnan(before)]
    was = float(np.median(before)) if len(before) >= CERTAIN_ROWS else 0.0
    if was > least and was * math.sqrt(len(before)) / (MEDIAN_ERROR * channel.sigma) > CERTAIN_SIGMAS:
        again = f"not in {len(x)} with trusted nodes afterwards, so nobody is blamed"
        return settled.held, blame_of(settled, suspect, walked, again)
    return None, None


def _usually(settled: Settled, channel: Channel, least: float) -> float:
    """Return in what share of the exchanges of those that are not suspected noise alone goes beyond this slowdown."""
    view = settled.view
    suspected = {each.members[0] for each in settled.suspects if each.kind in (NODE, LINK, INTERMITTENT)}
    x = channel.x[view.first & ~view.bounded & ~view.touching(suspected)]
    return max(float((x > least).sum() + 0.5) / (int((~np.isnan(x)).sum()) + 1), NORMAL_TAIL)


def _chance_of(shown: int, count: int, share: float) -> float:
    """Return how likely something that shows in this share of them shows in so many of a number of exchanges."""
    return sum(math.comb(count, each) * share**each * (1 - share) ** (count - each) for each in range(shown, count + 1))


def least_slowdown(view: View, at: int) -> float:
    """Return how slow a node may be in a channel: the margin, or as far from its peers as sound nodes are."""
    margin = view.settings.cohort.margin
    return margin if view.channels[at].limit else max(margin, NODE_SIGMAS * spread_of_nodes(view, at))


def blame_of(settled: Settled, suspect: Suspect, rows: Any, again: str) -> Blame:
    """Return what is said of a suspect, with what it measured in these rows."""
    view = settled.view
    channel = view.channels[suspect.channel]
    value = channel.value[rows]
    value = value[~np.isnan(value)]
    measured = float(f"{np.median(value):.4g}") if len(value) else None
    expected = float(f"{channel.expected:.4g}")
    size = size_text(channel.size)
    standard = "the class' limit" if channel.limit else f"{view.peers} peers"
    where = "" if channel.rail is None else f"rail {channel.rail}: "
    much = f"{suspect.slowdown:.1%} worse than {standard} at {size}"
    if suspect.kind == INTERMITTENT:
        said = f"{where}slow in {suspect.share:.0%} of {suspect.rows} exchanges at {size}; {again}"
    elif suspect.kind == BOUNDARY:
        said = f"{where}{suspect.unit} is {much} with everybody outside and not within; {again}"
        if suspect.beyond:
            times = f"in {suspect.share:.0%} of {suspect.rows} exchanges"
            said = f"{where}{suspect.unit} are {much} {times} with each other and not with others; {again}"
    elif suspect.kind == PAIR:
        names = " and ".join(_names(settled, suspect.members))
        said = f"{where}{names} are {much} with each other and not with others; {again}"
    else:
        said = f"{where}{much} in {suspect.share:.0%} of {suspect.rows} exchanges; {again}"
    action = "reseat" if channel.rail is not None and suspect.kind in (LINK, INTERMITTENT) else "investigate"
    return Blame(channel.check, said, measured, expected, channel.unit, action)


def _settle_boundaries(settled: Settled) -> None:
    view = settled.view
    for suspect in settled.suspects:
        if suspect.kind != BOUNDARY:
            continue
        channel = view.channels[suspect.channel]
        between = across(view, suspect)
        late = _confirming(settled, channel, between)
        again = _confirming(settled, channel, view.touching(suspect.members) & ~between)
        if not suspect.declared and len(again) and float(np.median(again)) > channel.threshold:
            # They are slow with each other after all: it is the nodes.
            found = {node: [Suspect(NODE, (node,), *_numbers(suspect))] for node in suspect.members}
            _settle_these(settled, found)
            continue
        names = _names(settled, suspect.behind)
        if len(late) >= LEAST_CONFIRMED and float(np.median(late)) <= channel.threshold:
            settled.cleared |= set(names)
            continue
        confirmed = len(late) >= LEAST_CONFIRMED
        text = f"again in {len(late)} exchanges" if confirmed else "could not be measured again"
        said = f"{text}: suspect what lies between, nobody is blamed"
        blame = blame_of(settled, suspect, view.first & between, said)
        for name in set(names) & set(settled.members):
            settled.held.setdefault(name, []).append(blame)
        settled.bounded |= set(names)


def _numbers(suspect: Suspect) -> tuple[Any, ...]:
    return suspect.channel, suspect.slowdown, suspect.share, suspect.rows


def _settle_pairs(settled: Settled) -> None:
    view, weak = settled.view, 0
    strong = {
        each for suspect in settled.suspects if suspect.kind == PAIR and suspect.strong for each in suspect.members
    }
    # So many pairs that stand out are a network with hiccups: nobody is kept from the groups by them.
    crowd = len(strong) > view.settings.hold.share * max(view.peers, 10)
    for suspect in settled.suspects:
        if suspect.kind != PAIR:
            continue
        channel = view.channels[suspect.channel]
        late = settled.late.get((suspect.members[0], suspect.members[1]), [])
        if len(late) < LEAST_CONFIRMED:
            weak += 1
            if suspect.strong and not crowd:
                rows = (view.one == suspect.members[0]) & (view.other == suspect.members[1])
                blame = blame_of(settled, suspect, rows, "could not be measured again, so nobody is blamed")
                for name in set(_names(settled, suspect.members)) & set(settled.members):
                    settled.open.setdefault(name, []).append(blame)
            continue
        x = channel.x[late]
        names = _names(settled, suspect.members)
        slowdown = float(np.median(x))
        sigmas = slowdown * math.sqrt(len(x)) / (MEDIAN_ERROR * channel.sigma)
        margin = view.settings.cohort.margin
        convicted = slowdown > margin and (channel.limit or sigmas > PAIR_SIGMAS)
        if convicted and slowdown - _of_themselves(view, suspect) > margin:
            again = f"again in {len(x)} exchanges: suspect what lies between them, nobody is blamed"
            blame = blame_of(settled, suspect, late, again)
            for name in set(names) & set(settled.members):
                settled.held.setdefault(name, []).append(blame)
        else:
            settled.cleared |= set(names)
    if weak and plans_of(settled.plans, "confirm"):
        settled.remarks.append(f"{weak} pairs were slow once, as noise makes them, and not measured again")


def _of_themselves(view: View, suspect: Suspect) -> float:
    """Return how slow the slower one of a pair is with all others."""
    channel = view.channels[suspect.channel]
    found = 0.0
    for node in suspect.members:
        mine = view.rows_of(node)
        other = view.one[mine] + view.other[mine] - node
        x = channel.x[mine[view.first[mine] & ~np.isin(other, suspect.members)]]
        x = x[~np.isnan(x)]
        found = max(found, float(np.median(x)) if len(x) else 0.0)
    return found


def _settle_wrong(settled: Settled, wrong: Mapping[str, Mapping[str, int]]) -> None:
    nodes, pairs = _common(wrong)
    rails: dict[str, set[int]] = {}
    for each in settled.view.matrix.wrong:
        for node in (each.receiver, *([each.sender] if each.sender else [])):
            rails.setdefault(node, set()).update(each.rails)
    members, fine = set(settled.members), set(settled.trusted) | settled.good
    for node in sorted(members & set(nodes)):
        others = sorted(set(wrong[node]))
        witnesses = [other for other in others if other in fine]
        which = sorted(rails.get(node, ()))
        single = len(which) == 1 and settled.view.matrix.rails > 1
        said = f"wrong data in {sum(wrong[node].values())} exchanges with {', '.join(others[:4])}"
        said += f" and {len(others) - 4} more" if len(others) > 4 else ""
        said += f", always on rail {which[0]}" if single else ""
        blame = Blame("data", said, sum(wrong[node].values()), 0, "exchanges", "reseat" if single else "investigate")
        if len(witnesses) >= WITNESSES:
            settled.rejected.setdefault(node, []).append(blame)
        else:
            settled.open.setdefault(node, []).append(_more(blame, "nobody of them is proven, so nobody is blamed"))
    for one, other in pairs:
        count = wrong[one][other]
        for node in sorted({one, other} & members):
            said = f"wrong data in {count} exchanges between {one} and {other} alone: nobody is blamed"
            where = settled.rejected if node in settled.rejected else settled.held
            where.setdefault(node, []).append(Blame("data", said, count, 0, "exchanges"))


def _more(blame: Blame, text: str) -> Blame:
    return Blame(blame.check, f"{blame.reason}; {text}", blame.measured, blame.expected, blame.unit, blame.action)


def _rounds_inside(settled: Settled) -> dict[str, set[int]]:
    """Return by node the rounds that measured it by itself."""
    numbers: dict[str, set[int]] = {node: set() for node in settled.members}
    for result in settled.view.matrix.groups:
        if result.kind == "inside" and result.nodes[0] in numbers:
            numbers[result.nodes[0]].add(result.number)
    return numbers


def _settle_inside(
    settled: Settled, slow_inside: Mapping[str, Sequence[Judged]], numbers: Mapping[str, set[int]]
) -> None:
    wrong: dict[str, int] = {}
    for each in settled.view.matrix.wrong:
        if each.sender is None and each.where == "inside":
            wrong[each.receiver] = wrong.get(each.receiver, 0) + 1
    for node in settled.members:
        bad = slow_inside.get(node, ())
        if node in wrong:
            said = f"wrong data inside the node in {wrong[node]} collectives"
            settled.rejected.setdefault(node, []).append(Blame("data", said, wrong[node], 0, "collectives"))
        if not bad:
            continue
        worst = max(bad, key=lambda each: each.slowdown)
        blame = Blame("group_bandwidth", f"inside the node: {worst.text}", worst.measured, worst.expected, worst.unit)
        rounds = numbers[node]
        twice = len({each.number for each in bad}) > 1
        if len(rounds) < WITNESSES:
            settled.open.setdefault(node, []).append(_more(blame, "not measured again yet"))
        elif twice:
            settled.rejected.setdefault(node, []).append(blame)
        else:
            settled.cleared.add(node)


def _settle_hung(settled: Settled, partners: Sequence[str]) -> None:
    matrix = settled.view.matrix
    fine = settled.good | set(settled.trusted)
    apart = [halt for halt in matrix.halts if halt.started and len(halt.group) == 2]
    for node, why in settled.hung.items():
        if node not in settled.members or node in matrix.unavailable:
            continue
        witnesses = settled.hung_with.get(node, set()) & fine
        asked = any(
            plan.get("kind") == "suspects" and any(node in job for job in plan["groups"])
            for plan in settled.plans.values()
        )
        again = any(node in halt.group and settled.plans[halt.number].get("kind") == "suspects" for halt in apart)
        proven = bool(witnesses & settled.good)
        if again and len(witnesses) >= WITNESSES and proven:
            said = f"hangs or crashes: {why}; again with {', '.join(sorted(witnesses))}"
            settled.rejected.setdefault(node, []).append(Blame("pair_bandwidth", said))
        elif again:
            said = f"hangs or crashes: {why}; too few of those it was with are proven, so nobody is blamed"
            settled.held.setdefault(node, []).append(Blame("pair_bandwidth", said))
        elif asked:
            said = f"hung or crashed: {why}; not again with a trusted node, so nobody is blamed"
            settled.held.setdefault(node, []).append(Blame("pair_bandwidth", said))
        else:
            said = f"hung or crashed: {why}; {NOT_ASKED}"
            settled.open.setdefault(node, []).append(Blame("pair_bandwidth", said))


def _stragglers(settled: Settled) -> None:
    """Reject who is the last of its group far too often where the group's slowest operations are too slow for it."""
    limit = settled.view.settings.straggler
    if limit is None:
        return
    counts: dict[str, list[tuple[float, int]]] = {}
    for group in settled.view.matrix.groups:
        # Of few nodes one is always the last; and somebody has to be where nothing is slow.
        if (
            group.kind in ("inside", MINI_CLUSTER)
            or len(group.nodes) < 4
            or group.p99 / group.seconds <= limit.p99_over_p50
        ):
            continue
        for node, count in group.last.items():
            share = count / max(group.iterations, 1)
            if share > max(limit.last_share, 2 / len(group.nodes)):
                counts.setdefault(node, []).append((share, group.number))
    for node, found in counts.items():
        if node in settled.members and len(found) >= WITNESSES:
            worst = max(share for share, _number in found)
            said = f"the last of its group in up to {worst:.0%} of the iterations of {len(found)} collectives"
            blame = Blame("straggler", said, round(worst, 3), limit.last_share, "share")
            settled.rejected.setdefault(node, []).append(blame)


def _hold_share(settled: Settled) -> None:
    """Hold instead of reject where too many are bad, or the fabric as a whole is."""
    hold = settled.view.settings.hold
    measured = max(1, settled.view.peers)
    bad = {*settled.rejected, *settled.open}
    # Who fell below is counted whether it was slow again or not; pairs and boundaries are held for something else.
    for suspect in settled.suspects:
        if suspect.kind in (NODE, LINK, INTERMITTENT):
            bad |= set(_names(settled, suspect.members)) & set(settled.held)
    if len(bad) >= hold.nodes and len(bad) > hold.share * measured and settled.rejected:
        why = f"{len(bad)} of {measured} nodes are bad, more than {hold.share:.0%}: suspect the fabric or the baseline"
        for node, blames in settled.rejected.items():
            settled.held.setdefault(node, []).extend(_more(blame, why) for blame in blames)
        settled.rejected = {}
    if len(bad) >= hold.nodes and len(bad) > hold.share * measured:
        settled.remarks.append(f"{len(bad)} of {measured} nodes are bad: suspect the fabric or the baseline")
    for said in settled.view.fabric:
        blame = Blame("pair_bandwidth", f"{said}: suspect the fabric, nobody is blamed")
        for node in settled.members:
            settled.held.setdefault(node, []).append(blame)
            for other in settled.rejected.pop(node, []):
                settled.held[node].append(_more(other, "the fabric as a whole is suspect"))


def _slow_groups(settled: Settled) -> None:
    """Hold all members of a part of the topology that is slow together, though each passed in pairs."""
    last = max((group.number for group in settled.groups if group.level == "all"), default=0)
    for group in settled.groups:
        if group.level == "all" or not group.bad or group.number < last:
            continue
        for node in group.nodes:
            if node in settled.members and node not in settled.rejected:
                said = f"{group.text}, although all of them passed in pairs: suspect what they share, nobody is blamed"
                blame = Blame(group.check, said, group.measured, group.expected, group.unit)
                settled.held.setdefault(node, []).append(blame)


def _tried(settled: Settled) -> None:
    """Note which groups of all were planned, and whether their round came to its end."""
    halted = {halt.number for halt in settled.view.matrix.halts}
    for number, plan in settled.plans.items():
        program = plan.get("program") or {}
        for move in program.get("moves", ()):
            if move.get("kind") == "train":
                settled.train_jobs.append(set(plan["groups"][0]))
            if move.get("kind") == "groups" and str(move["name"]).startswith("all:"):
                job = plan["groups"][0]
                settled.tried_rounds.add(number)
                settled.tried.append((frozenset(job[index] for index in move["groups"][0]), number not in halted))


def _eligible(settled: Settled) -> None:
    out = {*settled.rejected, *settled.held, *settled.open, *settled.hung, *settled.view.matrix.unavailable}
    settled.eligible = {node for node in settled.members if node not in out}
