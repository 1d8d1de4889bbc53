"""What may be wrong with a simulated fleet: faults as plain values, and the named ones that a seed chooses.

A fault says who has it and what should become of whom. Fleets of faults stand in files too (fleet_file.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

REJECTED, HELD, EITHER, PASSED = "rejected", "held", "rejected_or_held", "passed"
EXPECTED = (REJECTED, HELD, EITHER, PASSED)
ABSENT, ARRIVED = "absent", "arrived"
WALK, INSIDE, GROUPS = "walk", "inside", "groups"
# What is not said in a fault's name is 20 % slow.
OTHER_SLOW, TEN = 0.2, 0.1
HUB_PEERS = 20


@dataclass(frozen=True)
class Slow:
    """Exchanges of ``who`` take 1/(1 - ``by``) as long: with everybody, or with those in ``to`` alone.

    ``when`` is the share of exchanges and operations in which it shows. Empty ``rails``, ``bytes`` (sizes of pairs; a
    group counts as the small one up to 1 MiB) and ``operations`` mean all of them; "inside" has to be named.
    """

    who: tuple[str, ...]
    by: float
    to: tuple[str, ...] = ()
    when: float = 1.0
    rails: tuple[int, ...] = ()
    bytes: tuple[int, ...] = ()
    operations: tuple[str, ...] = ()
    expect: str = REJECTED
    expect_to: str = PASSED


@dataclass(frozen=True)
class Hangs:
    """Each of ``who`` stops for good after so many exchanges; ``where`` it does so, and how it ``shows``.

    Absent: it never reached the permutation. Arrived: both arrived and neither continued.
    """

    who: tuple[str, ...]
    after: int = 0
    where: str = WALK
    shows: str = ABSENT
    expect: str = REJECTED


@dataclass(frozen=True)
class Dead:
    """Slurm loses each of ``who`` after so many exchanges; None: before the first job."""

    who: tuple[str, ...]
    after: int | None = None
    expect: str = HELD


@dataclass(frozen=True)
class WrongData:
    """What ``who`` sends arrives wrong, in a share of its exchanges, on these local rails (empty: all)."""

    who: tuple[str, ...]
    when: float = 0.5
    rails: tuple[int, ...] = ()
    expect: str = REJECTED


@dataclass(frozen=True)
class Clock:
    """The clocks of ``who`` run so many times as fast: 1.1 counts 10 % more."""

    who: tuple[str, ...]
    runs: float
    expect: str = HELD


@dataclass(frozen=True)
class Tails:
    """A share of all exchanges and group operations takes 1.2 to ``up_to`` times as long, whoever they are of."""

    share: float
    up_to: float = 2.0


Fault = Slow | Hangs | Dead | WrongData | Clock | Tails


@dataclass(frozen=True)
class Layout:
    """Who the hosts are and where: ``rack`` and ``pod`` by position, ``effect`` what replaces a named fault's size."""

    nodes: tuple[str, ...]
    rack: Any
    pod: Any
    rails: int
    effect: float | None = None

    def names(self, chosen: Any) -> tuple[str, ...]:
        """Return the names of these positions (numbers or a mask)."""
        chosen = np.asarray(chosen)
        at = np.flatnonzero(chosen) if chosen.dtype == bool else np.sort(chosen)
        return tuple(self.nodes[each] for each in at.tolist())

    def some(self, rng: Any, count: int = 1) -> Any:
        """Return so many positions by chance."""
        return rng.choice(len(self.nodes), size=count, replace=False)

    def slow(self, usual: float) -> float:
        """Return by how much a named fault is slow."""
        return usual if self.effect is None else self.effect


def _one(layout: Layout, rng: Any) -> tuple[tuple[str, ...], int]:
    first = int(layout.some(rng)[0])
    return (layout.nodes[first],), first


def _clean(layout: Layout, rng: Any) -> list[Fault]:
    _one(layout, rng)
    return []


def _slow_nodes(layout: Layout, rng: Any, count: int, by: float) -> list[Fault]:
    # More than a fifth of them: the fabric or the baseline is likelier to be at fault.
    expect = HELD if count > max(1, 0.2 * len(layout.nodes)) else REJECTED
    return [Slow(layout.names(layout.some(rng, count)), layout.slow(by), expect=expect)]


def _one_slow(layout: Layout, rng: Any) -> list[Fault]:
    return _slow_nodes(layout, rng, 1, TEN)


def _five_slow(layout: Layout, rng: Any) -> list[Fault]:
    return _slow_nodes(layout, rng, min(5, len(layout.nodes)), TEN)


def _fifth_slow(layout: Layout, rng: Any) -> list[Fault]:
    return _slow_nodes(layout, rng, round(0.22 * len(layout.nodes)) + 1, OTHER_SLOW)


def _dead(layout: Layout, rng: Any) -> list[Fault]:
    who, _first = _one(layout, rng)
    from_start, after = bool(rng.random() < 0.5), int(rng.integers(0, 40))
    return [Dead(who, None if from_start else after)]


def _hang(layout: Layout, rng: Any) -> list[Fault]:
    who, _first = _one(layout, rng)
    after = int(rng.integers(0, 40))
    # Without another draw, so that what is random after it stays as it was when all hangs were absences.
    variants = ((WALK, ABSENT), (WALK, ARRIVED), (INSIDE, ABSENT), (INSIDE, ARRIVED))
    where, shows = variants[after % 4]
    if where == INSIDE and layout.rails < 2:
        where = WALK
    return [Hangs(who, 0 if where == INSIDE else after, where, shows)]


def _wrong_data(layout: Layout, rng: Any) -> list[Fault]:
    who, _first = _one(layout, rng)
    one_rail = rng.random() < 0.5
    return [WrongData(who, rails=(int(rng.integers(layout.rails)),) if one_rail else ())]


def _one_rail(layout: Layout, rng: Any) -> list[Fault]:
    who, _first = _one(layout, rng)
    return [Slow(who, layout.slow(OTHER_SLOW), rails=(int(rng.integers(layout.rails)),))]


def _small_messages(layout: Layout, rng: Any) -> list[Fault]:
    who, _first = _one(layout, rng)
    return [Slow(who, layout.slow(OTHER_SLOW), bytes=(65536,))]


def _intermittent(layout: Layout, rng: Any) -> list[Fault]:
    who, _first = _one(layout, rng)
    return [Slow(who, layout.slow(OTHER_SLOW), when=0.3)]


def _one_pair(layout: Layout, rng: Any) -> list[Fault]:
    layout.some(rng)
    one, other = sorted(layout.some(rng, 2).tolist())
    (first,), (second,) = layout.names([one]), layout.names([other])
    return [Slow((first,), layout.slow(OTHER_SLOW), to=(second,), expect=HELD, expect_to=HELD)]


def _between(layout: Layout, rng: Any, with_one_other: bool) -> list[Fault]:
    """Return a rack or pod that is slow towards all others, or towards one other; without racks some nodes that
    nothing tells apart.
    """
    _who, first = _one(layout, rng)
    unit = layout.pod if layout.pod.max() > 1 and rng.random() < 0.5 else layout.rack
    outside, declared = unit == unit[first], True
    if outside.all():
        outside, declared = np.arange(len(unit)) < len(unit) // 4, False
    beyond, expect_to = ~outside, PASSED
    if with_one_other and declared:
        beyond, expect_to = unit == unit[rng.choice(np.flatnonzero(beyond))], HELD
    # Of two neither can be told from the other.
    expect_to = HELD if len(np.unique(unit)) == 2 else expect_to
    named = layout.names(outside), layout.slow(OTHER_SLOW), layout.names(beyond)
    return [Slow(*named, expect=HELD, expect_to=expect_to)]


def _slow_boundary(layout: Layout, rng: Any) -> list[Fault]:
    return _between(layout, rng, False)


def _two_racks(layout: Layout, rng: Any) -> list[Fault]:
    return _between(layout, rng, True)


def _third_slow(layout: Layout, rng: Any) -> list[Fault]:
    """Return 30 to 49 % of the hosts, slow by 10 to 15 %: any of them, whole racks, or neighbouring racks or pods."""
    by = layout.slow(round(float(rng.uniform(TEN, 0.15)), 4))
    return [Slow(layout.names(_third(layout, rng, int(rng.integers(3)))), by, expect=HELD)]


def _third(layout: Layout, rng: Any, how: int) -> Any:
    """Return 30 to 49 % of the positions, as whole units where there are units that come to so many."""
    hosts = len(layout.nodes)
    least, most = -(-3 * hosts // 10), max(1, min(49 * hosts // 100, (hosts - 1) // 2))
    wanted = int(rng.integers(min(least, most), most + 1))
    if how:
        units = [layout.rack] if how == 1 else [layout.pod, layout.rack]
        for unit in units:
            sizes = np.bincount(unit)
            begin = int(rng.integers(len(sizes)))
            order = rng.permutation(len(sizes)) if how == 1 else np.roll(np.arange(len(sizes)), -begin)
            chosen: list[int] = []
            for each in order.tolist():
                together = int(sizes[chosen].sum()) + int(sizes[each])
                if together <= most and (how == 1 or len(chosen) == 0 or abs(each - chosen[-1]) in (1, len(sizes) - 1)):
                    chosen.append(each)
                if int(sizes[chosen].sum()) >= wanted:
                    break
            if int(sizes[chosen].sum()) >= least:
                return np.flatnonzero(np.isin(unit, chosen))
    return layout.some(rng, wanted)


def _hubs(layout: Layout, rng: Any, count: int) -> list[Fault]:
    """Return nodes that are each slow to 20 others, in small fleets to a third of them."""
    hosts = len(layout.nodes)
    hubs = layout.some(rng, count).tolist()
    others = np.setdiff1d(np.arange(hosts), hubs)
    peers = max(1, min(HUB_PEERS, round((hosts - 1) / 3)))
    found: list[Fault] = []
    for hub in hubs:
        to = rng.choice(others, size=min(peers, len(others)), replace=False)
        found.append(Slow((layout.nodes[hub],), layout.slow(OTHER_SLOW), to=layout.names(to), expect=EITHER))
    return found


def _hub(layout: Layout, rng: Any) -> list[Fault]:
    return _hubs(layout, rng, 1)


def _two_hubs(layout: Layout, rng: Any) -> list[Fault]:
    return _hubs(layout, rng, 2)


def _heavy_tail(_layout: Layout, _rng: Any) -> list[Fault]:
    return [Tails(0.02)]


def _two_pods(layout: Layout, _rng: Any) -> list[Fault]:
    """Return one of two pods (of two halves where there are not two) that is slow towards the other."""
    two = layout.pod if layout.pod.max() == 1 else (np.arange(len(layout.nodes)) * 2) // len(layout.nodes)
    named = layout.names(two == 0), layout.slow(OTHER_SLOW), layout.names(two == 1)
    return [Slow(*named, expect=HELD, expect_to=HELD)]


def _clock(layout: Layout, rng: Any, runs: float) -> list[Fault]:
    who, _first = _one(layout, rng)
    return [Clock(who, runs)]


def _clock_fast(layout: Layout, rng: Any) -> list[Fault]:
    return _clock(layout, rng, 1.1)


def _clock_slow(layout: Layout, rng: Any) -> list[Fault]:
    return _clock(layout, rng, 0.9)


def _two_populations(layout: Layout, rng: Any) -> list[Fault]:
    return [Slow(layout.names(layout.some(rng, len(layout.nodes) // 2)), layout.slow(0.08), expect=HELD)]


def _one_collective(layout: Layout, rng: Any) -> list[Fault]:
    who, _first = _one(layout, rng)
    return [Slow(who, layout.slow(TEN), operations=("reduce_scatter",), expect=EITHER)]


def _rare(layout: Layout, rng: Any) -> list[Fault]:
    who, _first = _one(layout, rng)
    return [Slow(who, layout.slow(OTHER_SLOW), when=0.05, expect=EITHER)]


def _two_hangs(layout: Layout, rng: Any) -> list[Fault]:
    found: list[Fault] = []
    for each in layout.some(rng, 2).tolist():
        after, shows = int(rng.integers(0, 40)), (ABSENT, ARRIVED)[int(rng.integers(2))]
        found.append(Hangs((layout.nodes[each],), after, shows=shows))
    return found


def _third_rail(layout: Layout, rng: Any) -> list[Fault]:
    """Return 30 to 49 % of the hosts with a slow rail each: all the same, or any."""
    who, same = layout.names(_third(layout, rng, 0)), bool(rng.random() < 0.5)
    rails = [int(rng.integers(layout.rails))] * len(who) if same else rng.integers(layout.rails, size=len(who)).tolist()
    by = layout.slow(OTHER_SLOW)
    return [
        Slow(tuple(node for node, its in zip(who, rails, strict=True) if its == rail), by, rails=(rail,), expect=HELD)
        for rail in sorted(set(rails))
    ]


# By name, in the order in which they came: a seed counts by it.
NAMED: dict[str, Callable[[Layout, Any], list[Fault]]] = {
    "clean": _clean,
    "one_slow_10": _one_slow,
    "five_slow_10": _five_slow,
    "dead": _dead,
    "hang": _hang,
    "wrong_data": _wrong_data,
    "one_rail": _one_rail,
    "one_pair": _one_pair,
    "slow_boundary": _slow_boundary,
    "intermittent_30": _intermittent,
    "small_messages": _small_messages,
    "fifth_slow": _fifth_slow,
    "two_racks": _two_racks,
    "third_slow_10": _third_slow,
    "hub_20": _hub,
    "heavy_tail": _heavy_tail,
    "two_pods": _two_pods,
    "clock_fast": _clock_fast,
    "clock_slow": _clock_slow,
    "two_populations": _two_populations,
    "one_collective_10": _one_collective,
    "rare_5": _rare,
    "two_hubs": _two_hubs,
    "two_hangs": _two_hangs,
    "third_one_rail": _third_rail,
    # As a hang, but with spares in service (see fleet.Spec.usual).
    "hang_spares": _hang,
}


def expectation_by_node(faults: Sequence[Fault]) -> dict[str, str]:
    """Return what should become of each node with which something is wrong, as all faults together say.

    Where one says rejected and another held, either is right.
    """
    found: dict[str, str] = {}

    def say(nodes: Iterable[str], expect: str) -> None:
        for node in nodes if expect != PASSED else ():
            found[node] = expect if found.get(node, expect) == expect else EITHER

    for fault in faults:
        if isinstance(fault, Tails):
            continue
        say(fault.who, fault.expect)
        if isinstance(fault, Slow):
            say(fault.to, fault.expect_to)
    return found
