"""How groups of nodes did together, and each node by itself: against limits of the class, the baseline, like groups.

What a group missed once is measured again before it holds anybody. The same collective at the same size missed in two
rounds is a fault; two different ones are not. All together run a dozen operations: where one in fifty is late for no
fault, every fifth round misses one, and one campaign in twenty misses some in two rounds, but one in two hundred the
same twice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.confirmation import confirmed
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.channels import LEAST_SPREAD, MAD_SIGMA
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_programs import TWOS
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import (
    UNIT,
    Settings,
    bus_bandwidth,
    size_text,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import (
    INSIDE,
    Exchanges,
    GroupResult,
    Matrix,
)

# An outlier by the modified z-score (numbers.md section 9) lies 3.5 deviations out, of normal noise. The slowest of
# many ranks strays farther: of 8 it passes 3.5 once in 600 times, 5 once in 20,000.
OUTLIER = 5.0
# What the fastest eighth of like groups reach is usual, not what most do: with every third node slow most groups of two
# have one. A single one may be fast by chance. Near the fast is who is slower by less than these margins: twice the
# margin has to be found, and noise of 3 % of each rank lies within.
FAST_SHARE, LEAST_FAST, NEAR_MARGINS = 0.125, 2, 1.5
# GB/s that no hardware of today reaches by far: a GPU takes in up to 1.8 TB/s by its NVLinks (sixth generation), and
# bus bandwidth counts up to twice that. It is the limit of classes that tell no NVLink.
BEYOND_HARDWARE = 20_000.0
# Nodes of a class are alike inside. Near pairs may well be faster than far ones, but not so many times.
INSIDE_BEYOND, PAIR_BEYOND = 3.0, 10.0

Operation = tuple[str, str, int]


class Part(NamedTuple):
    """One collective at one size, judged; ``slowdown`` is by what part it is worse than ``expected``.

    Without ``expected`` there is nothing to judge it by. ``by`` says what does. ``likes``: there were enough groups
    like it to tell.
    """

    check: str
    collective: str
    size_bytes: int
    value: float
    limit: float | None
    by: str
    slowdown: float
    bad: bool
    likes: bool = False

    @property
    def operation(self) -> Operation:
        """Return what is measured again where it was missed."""
        return self.check, self.collective, self.size_bytes

    @property
    def measured(self) -> float:
        return float(f"{self.value:.4g}")

    @property
    def expected(self) -> float | None:
        if self.check == "group_latency" or not self.limit:
            return self.limit
        return float(f"{self.limit:.4g}")

    @property
    def unit(self) -> str:
        return "us" if self.check == "group_latency" else UNIT

    @property
    def text(self) -> str:
        """Return in words what was measured, and what it is judged by."""
        what = f"{self.collective.replace('_', '-')} of {size_text(self.size_bytes)}"
        if self.check == "group_latency":
            return f"{what} took {self.value:.4g} us (99 %), at most {self.limit:g} by the class"
        told = f"{what} reached {self.value:.3g} {UNIT}"
        return told if self.limit is None else f"{told}, {self.limit:.3g} by {self.by}"


@dataclass(frozen=True)
class Judged:
    """One group in one round; ``whole``: everything that was asked of it is there, and its job ended well.

    ``missed`` says, by what it missed in this round or before, in how many rounds; ``open`` is what it missed last.
    ``last``: no later round measured it again.
    """

    number: int
    level: str
    nodes: tuple[str, ...]
    parts: tuple[Part, ...]
    whole: bool
    missed: Mapping[Operation, int] = field(default_factory=dict)
    open: frozenset[Operation] = frozenset()
    last: bool = True

    @property
    def bad(self) -> bool:
        """Return whether it is bad for certain: the same in two rounds."""
        return any(confirmed(times) for times in self.missed.values())

    @property
    def doubtful(self) -> bool:
        """Return whether it is to be measured again: it missed something, and not twice."""
        return not self.bad and bool(self.open)

    def worst(self, check: str = "") -> Part | None:
        """Return the part that is worst against what it is judged by, of one check or of all."""
        parts = [part for part in self.parts if part.check == check or not check]
        return max(parts, key=lambda part: (part.bad, part.expected is not None, part.slowdown), default=None)

    @property
    def judged(self) -> bool:
        """Return whether there was anything to judge it by."""
        return any(part.expected is not None for part in self.parts)

    @property
    def check(self) -> str:
        return worst.check if (worst := self.worst()) else "group_bandwidth"

    @property
    def text(self) -> str:
        return f"{len(self.nodes)} nodes together: {worst.text}" if (worst := self.worst()) else "nothing measured"

    @property
    def measured(self) -> float | None:
        return worst.measured if (worst := self.worst()) else None

    @property
    def expected(self) -> float | None:
        return worst.expected if (worst := self.worst()) else None

    @property
    def unit(self) -> str:
        return worst.unit if (worst := self.worst()) else ""

    @property
    def slowdown(self) -> float:
        return worst.slowdown if (worst := self.worst()) else 0.0


def possible(matrix: Matrix, settings: Settings, swept: bool = False) -> Matrix:
    """Return the matrix without what was faster than can be, whose nodes cannot be read.

    Nothing is faster than what carries its data. Of a whole sweep (``swept``) no node is so inside than several times
    the one in the middle, and no pair than several times the best quarter: the slower side counts, so both told it.
    """
    most, what = settings.most_gb_per_s, "which NVLinks and PCIe do not carry"
    if most is None:
        most, what = BEYOND_HARDWARE, "which no hardware carries"
    groups, unreadable = [], dict(matrix.unreadable)
    usual = _usual_inside(matrix, settings) if swept else {}
    for group in matrix.groups:
        speed = _bandwidth(group, settings) if group.collective else 0.0
        limit, said = most, what
        if group.kind == INSIDE and (likely := INSIDE_BEYOND * usual.get(_operation(group), most)) < most:
            limit, said = likely, f"more than {INSIDE_BEYOND:g} times what nodes reach"
        if speed <= limit:
            groups.append(group)
            continue
        where = f"round {group.number}: {group.phase} of {size_text(group.size_bytes)}"
        for node in group.nodes:
            unreadable.setdefault(node, f"{where} reached {speed:.4g} {UNIT}, {said} ({limit:.4g} at most)")
    exchanges, told = _possible_pairs(matrix.exchanges, most, what, settings, swept)
    for at, why in told.items():
        unreadable.setdefault(matrix.nodes[at], why)
    return replace(matrix, groups=groups, unreadable=unreadable, exchanges=exchanges)


def _possible_pairs(
    exchanges: Exchanges, most: float, what: str, settings: Settings, swept: bool
) -> tuple[Exchanges, dict[int, str]]:
    """Return the exchanges that were not faster than can be, and by node of the others why it cannot be read."""
    impossible = np.zeros(len(exchanges.one), dtype=bool)
    told: dict[int, str] = {}
    # Of few, and where NVLink joins racks, most pairs can be slower than the sound or the near ones by more than that.
    compared = swept and not settings.nvlink_racks
    compared = compared and int((exchanges.of_nodes(exchanges.known) > 0).sum()) >= settings.cohort.peers
    for at, size in enumerate(settings.pairs.sizes_bytes):
        speeds = exchanges.gb[:, at].T
        if speeds.max(initial=0) <= min(most, PAIR_BEYOND * speeds.min(initial=most)):
            # As nearly always.
            continue
        known = speeds[~np.isnan(speeds)]
        limit, said = most, what
        if compared and len(known):
            # With half of all nodes slow a quarter of all pairs is fast, and of bad nodes no more meet each other.
            best = 3 * len(known) // 4
            known.partition(best)
            if (likely := PAIR_BEYOND * float(known[best])) < most:
                limit, said = likely, f"more than {PAIR_BEYOND:g} times what pairs reach"
        beyond = np.zeros_like(impossible)
        for speed in speeds:
            beyond |= speed > limit
        for row in np.flatnonzero(beyond).tolist():
            speed = float(np.nanmax(exchanges.gb[row, at]))
            why = f"a pair reached {speed:.4g} {UNIT} at {size_text(size)}, {said} ({limit:.4g} at most)"
            for node in (int(exchanges.one[row]), int(exchanges.other[row])):
                told.setdefault(node, f"round {exchanges.number[row]}: {why}")
        impossible |= beyond
    return exchanges.without(impossible) if told else exchanges, told


def _usual_inside(matrix: Matrix, settings: Settings) -> dict[tuple[str, int], float]:
    """Return by operation what the node in the middle reached inside, each by its best."""
    best: dict[tuple[str, int], dict[str, float]] = {}
    for group in matrix.groups:
        if group.kind == INSIDE and group.collective:
            its = best.setdefault(_operation(group), {})
            its[group.nodes[0]] = max(its.get(group.nodes[0], 0.0), _bandwidth(group, settings))
    return {what: float(np.median(list(its.values()))) for what, its in best.items()}


def _operation(group: GroupResult) -> tuple[str, int]:
    return group.collective, group.size_bytes


def judged_groups(matrix: Matrix, settings: Settings, kind: str) -> list[Judged]:
    """Return how every group (``groups``) or node by itself (``inside``) did, in the order of rounds and levels."""
    found: dict[tuple[int, str, tuple[str, ...]], list[tuple[GroupResult, float, tuple[Any, ...]]]] = {}
    alike: dict[tuple[Any, ...], list[tuple[float, tuple[str, ...]]]] = {}
    places = {node: _place(settings, node) for node in matrix.nodes}
    for result in matrix.groups:
        if result.kind != kind or not result.collective:
            continue
        speed, like = _bandwidth(result, settings), _like(result, places)
        found.setdefault((*like[:2], result.nodes), []).append((result, speed, like))
        alike.setdefault(like, []).append((speed, result.nodes))
    limits: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    judged = []
    # By node the round of its first slow group of two: later ones with it are no likes of others.
    slow: dict[str, int] = {}
    owed = len(settings.groups.collectives) * len(settings.groups.sizes_bytes)
    for (number, level, nodes), results in found.items():
        parts = []
        for result, speed, like in results:
            if like not in limits:
                what = result.collective, len(nodes), result.size_bytes
                speeds = _likes(alike[like], slow, number)
                if level == TWOS and len(speeds) < settings.cohort.peers:
                    # Of few that are measured later, those of an earlier round tell.
                    before = (other for other in alike if other[0] < number and other[1:] == like[1:])
                    speeds = next((_likes(alike[other], slow, other[0]) for other in before), [])
                if level == TWOS and len(speeds) < settings.cohort.peers:
                    # Too few lie as far apart: who lies farther apart in this round is no faster.
                    others = (
                        other for other in alike if other[:5] == like[:5] and _as_far(other[5], like[5], settings)
                    )
                    speeds = [speed for other in others for speed in _likes(alike[other], slow, number)]
                usual = _usual(speeds, settings) if len(speeds) >= settings.cohort.peers else None
                limits[like] = *_limits(what, usual, len(speeds), settings), settings.ceiling(*what), usual is not None
            parts += _parts(result, speed, *limits[like])
        whole = level != "all" or len({(each.collective, each.size_bytes) for each, *_of in results}) == owed
        whole = whole and not matrix.broken(number, nodes[0])
        judged.append(Judged(number, level, nodes, tuple(parts), whole))
        if level == TWOS and any(part.bad for part in parts):
            for node in nodes:
                slow.setdefault(node, number)
    return judged if kind == INSIDE else _over_rounds(judged)


def _likes(alike: Sequence[tuple[float, tuple[str, ...]]], slow: Mapping[str, int], number: int) -> list[float]:
    if not slow:
        return [speed for speed, _nodes in alike]
    return [speed for speed, nodes in alike if all(slow.get(node, number) >= number for node in nodes)]


def _over_rounds(judged: Sequence[Judged]) -> list[Judged]:
    """Return the groups with what each missed so far."""
    found = list(judged)
    # By level and node its latest group.
    latest: dict[tuple[str, str], int] = {}
    for at, group in enumerate(judged):
        missed = frozenset(part.operation for part in group.parts if part.bad)
        if group.level == TWOS:
            # These tell about nodes, by all groups that each is in (see groups_of_two.py).
            found[at] = replace(group, missed=Counter(missed), open=missed) if missed else group
            continue
        was = _same_group(found, [latest.get((group.level, node)) for node in group.nodes])
        latest.update({(group.level, node): at for node in group.nodes})
        if was is None:
            found[at] = replace(group, missed=Counter(missed), open=missed) if missed else group
            continue
        earlier = found[was]
        found[was] = replace(earlier, last=False)
        if group.level != "all" and not earlier.missed and earlier.whole:
            # It is there so that others have likes.
            missed = frozenset()
        met = {part.operation for part in group.parts if not part.bad} if group.whole else set()
        # What it missed with somebody who is no longer in it may be that one's doing.
        before = earlier.missed if set(earlier.nodes) <= set(group.nodes) else {}
        found[at] = replace(group, missed=Counter(before) + Counter(missed), open=(earlier.open - met) | missed)
    return found


def _same_group(found: Sequence[Judged], before: Sequence[int | None]) -> int | None:
    """Return which earlier group this one is, though some may have left it or come back, by the latest of each node."""
    known = Counter(each for each in before if each is not None)
    most = max(known, key=lambda each: known[each], default=None)
    return most if most is not None and 2 * known[most] > min(len(before), len(found[most].nodes)) else None


def _like(result: GroupResult, places: Mapping[str, tuple[Any, Any]]) -> tuple[Any, ...]:
    """Return what groups have in common that are held against each other; of two nodes also how far apart they are."""
    level, apart = result.phase.partition(":")[0], ""
    if level == TWOS:
        (rack, pod), (its_rack, its_pod) = (places[node] for node in result.nodes)
        apart = "rack" if rack and rack == its_rack else "pod" if pod and pod == its_pod else ""
    return result.number, level, result.collective, result.size_bytes, len(result.nodes), apart


def _as_far(other: str, one: str, settings: Settings) -> bool:
    """Return whether two that lie so far apart are no faster than two that lie as ``one`` tells: without NVLink all."""
    order = ("rack", "pod", "")
    return not settings.nvlink_racks or order.index(other) >= order.index(one)


def _place(settings: Settings, node: str) -> tuple[Any, Any]:
    place = settings.places.get(node) or {}
    return place.get("rack"), place.get("pod")


def _bandwidth(result: GroupResult, settings: Settings) -> float:
    ranks = len(result.nodes) * settings.ranks_per_node
    return bus_bandwidth(result.collective, ranks, result.size_bytes, result.seconds)


def _usual(speeds: Sequence[float], settings: Settings) -> float:
    """Return the least that a group may reach whose likes reached these: the fast ones tell, and who is near them."""
    ordered, margin = np.sort(speeds), settings.cohort.margin
    fast = ordered[-max(LEAST_FAST, math.ceil(FAST_SHARE * len(ordered)))]
    near = ordered[ordered > fast * (1 - NEAR_MARGINS * margin)]
    middle = float(np.median(near))
    spread = max(MAD_SIGMA * float(np.median(np.abs(near - middle))), LEAST_SPREAD * middle)
    return min(middle * (1 - margin), middle - OUTLIER * spread)


def _parts(result: GroupResult, speed: float, *limits: Any) -> list[Part]:
    """Return the judged parts of a result; ``limits`` are the least speed, by what, the ceiling, and if likes tell."""
    expected, by, ceiling, likes = limits
    less = 0.0 if expected is None else 1 - speed / expected
    about = result.collective, result.size_bytes
    parts = [Part("group_bandwidth", *about, speed, expected, by, less, less > 0, likes)]
    if ceiling is not None:
        took = result.p99 * 1e6
        parts.append(Part("group_latency", *about, took, ceiling, "", took / ceiling - 1, took > ceiling, likes))
    return parts


def _limits(
    like: tuple[str, int, int], usual: float | None, alike: int, settings: Settings
) -> tuple[float | None, str]:
    """Return the least speed of groups of one collective, number of nodes and size, and by what."""
    limits = []
    floor = settings.floor(*like)
    if floor is not None:
        limits.append((floor, "the class' floor"))
    adopted = settings.baseline.get(like)
    if adopted is not None:
        limits.append((adopted * (1 - settings.cohort.margin), "the adopted baseline"))
    if usual is not None:
        limits.append((usual, f"{alike} groups like it"))
    return max(limits, default=(None, ""))
