"""What recorded rounds of acceptance measured, as arrays: pairs by size and rail, groups by collective, node by node.

A view of isolation/matrix.py, which reads the observations for judging, at all sizes and without a hardware class.
What it cannot read is named and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import GroupResult, Matrix, matrix_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import StoredRound

SENDRECV = "sendrecv"
TRAIN = "train"
# Of fewer nodes than this one slow one would pull the median down: they are held against the fastest instead.
FEW_NODES = 8
# So many things that could not be read are named one by one.
NOTES_AT_MOST = 12
_NAMED = 4

Array = Any


@dataclass(frozen=True)
class Pairs:
    """Exchanges of one size, one line for each pair and permutation.

    ``one`` and ``other``: (p,) positions in ``Measured.nodes``. ``ns``: (p, rails) nanoseconds of the slower end,
    ``p99``: (p,) the same of 99 % of the iterations, the median over the rails; NaN where an end did not finish.
    """

    size: int
    one: Array
    other: Array
    ns: Array
    p99: Array


@dataclass(frozen=True)
class Group:
    """One collective that a whole group finished: ``ns`` and ``p99`` are its slowest rank's, in nanoseconds.

    ``size`` is in bytes, 0 for a training step; ``ranks`` is of the whole group.
    """

    round: int
    collective: str
    nodes: tuple[str, ...]
    ranks: int
    size: int
    ns: float
    p99: float


@dataclass(frozen=True)
class Spread:
    """How one node's iterations compare: ``typical`` and ``tail`` are its slowest rank's p50 and p99.

    Both as a part of what is usual in the same measurement (``usual``), and what is usual of all of the node's own:
    those in pairs and by itself where there are any, as in a group everybody waits for the slowest.
    ``last`` of ``iterations`` is how often it was the slowest of its group; 0 of 0 where nobody counted.
    """

    node: str
    typical: float
    tail: float
    last: int
    iterations: int


@dataclass(frozen=True)
class Measured:
    """What some rounds measured; ``notes`` is what could not be read of them."""

    nodes: tuple[str, ...] = ()
    pairs: tuple[Pairs, ...] = ()
    groups: tuple[Group, ...] = ()
    spread: tuple[Spread, ...] = ()
    # Nodes that received wrong data, with their local ranks.
    wrong: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def few(self) -> bool:
        """Return whether the fastest stands for what is usual, the nodes being too few for a median."""
        return len(self.nodes) < FEW_NODES

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to draw."""
        return not self.pairs and not self.groups


def measured(rounds: Iterable[StoredRound]) -> Measured:
    """Return what the finished rounds with a program measured; never raises for what a round holds."""
    reading = _Reading()
    for stored in rounds:
        if stored.finished is None or not has_program(stored):
            continue
        for index, item in enumerate(stored.observations or ()):
            try:
                reading.job(stored, item)
            except (TypeError, ValueError, KeyError, IndexError, AttributeError) as exc:
                told = f"lacks {exc}" if isinstance(exc, KeyError) else f"{type(exc).__name__}: {exc}"
                reading.notes.append(f"round {stored.number}, job {index + 1}: {told}"[:300])
    return reading.finished()


def usual(values: Array, few: bool) -> float:
    """Return which of some times is as it should be: the median, of few nodes the shortest; NaN are left out."""
    return float(numpy.nanmin(values) if few else numpy.nanmedian(values))


def has_program(stored: StoredRound) -> bool:
    """Return whether a round ran a program; those of other stages have none."""
    return isinstance(stored.plan, Mapping) and bool(stored.plan.get("program"))


class _Reading:
    """What has been read so far."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.pairs: dict[int, list[tuple[Array, Array, Array, Array]]] = {}
        self.groups: list[Group] = []
        # Of measurements with changing partners or none, and of groups, in which everybody waits for the slowest.
        self.own: list[tuple[Array, Array, Array]] = []
        self.shared: list[tuple[Array, Array, Array]] = []
        self.last: dict[str, list[int]] = {}
        self.wrong: dict[str, set[int]] = {}
        self.notes: list[str] = []

    def job(self, stored: StoredRound, item: Any) -> None:
        """Take one job's observation in; raises what an unreadable one makes Python raise."""
        if not isinstance(item, Mapping):
            raise TypeError(f"{type(item).__name__}, expected a mapping")
        names = [str(node) for node in item["group"]]
        sizes = _pair_sizes(stored.plan)
        matrix = matrix_of(names, [(stored.number, stored.plan, item)], sizes, _ranks(item))
        at = numpy.array([self.index.setdefault(node, len(self.index)) for node in matrix.nodes], dtype=numpy.int64)
        self._take_pairs(matrix, at)
        self._take_groups(matrix)
        for wrong in matrix.wrong:
            self.wrong.setdefault(wrong.receiver, set()).update(wrong.rails)
        reasons: dict[str, list[str]] = {}
        for node, why in matrix.unreadable.items():
            reasons.setdefault(why, []).append(node)
        for why, nodes in reasons.items():
            more = f" and {len(nodes) - _NAMED} more nodes" if len(nodes) > _NAMED else ""
            self.notes.append(f"{why} ({', '.join(nodes[:_NAMED])}{more})"[:300])

    def _take_pairs(self, matrix: Matrix, at: Array) -> None:
        one, other = at[matrix.exchanges.one], at[matrix.exchanges.other]
        for column, size in enumerate(matrix.sizes):
            known = numpy.isfinite(matrix.exchanges.gb[:, column]).any(axis=1)
            if not known.any():
                continue
            ns, p99 = size / matrix.exchanges.gb[known, column], matrix.exchanges.p99[known, column] * 1e9
            self.pairs.setdefault(size, []).append((one[known], other[known], ns, p99))
            slowest = ns.max(axis=1)
            few = len(matrix.nodes) < FEW_NODES
            # A permutation of few nodes has too few pairs to be held against each other.
            step = numpy.zeros(len(slowest)) if few else matrix.exchanges.step[known]
            typical = numpy.full(len(slowest), numpy.nan)
            for each in numpy.unique(step):
                mine = step == each
                typical[mine] = slowest[mine] / usual(slowest[mine], few)
            tail = typical * matrix.exchanges.ratio[known, column]
            self.own += [(one[known], typical, tail), (other[known], typical, tail)]

    def _take_groups(self, matrix: Matrix) -> None:
        same: dict[tuple[str, int], list[GroupResult]] = {}
        for found in matrix.groups:
            collective = TRAIN if found.kind == TRAIN else found.collective
            size = 0 if found.kind == TRAIN else found.size_bytes
            ranks = len(found.nodes) * matrix.rails
            times = found.seconds * 1e9, found.p99 * 1e9
            self.groups.append(Group(found.number, collective, found.nodes, ranks, size, *times))
            same.setdefault((found.phase, found.size_bytes), []).append(found)
            if found.kind == "inside":
                continue
            for node in found.nodes:
                counted = self.last.setdefault(node, [0, 0])
                counted[0] += found.last.get(node, 0)
                counted[1] += found.iterations if found.last else 0
        for alike in same.values():
            middle = usual(numpy.array([found.seconds for found in alike]), len(matrix.nodes) < FEW_NODES)
            rows = [
                (self.index[node], found.seconds / middle, found.seconds / middle * ratio)
                for found in alike
                for node, ratio in found.p99_over_p50.items()
            ]
            at, typical, tail = (numpy.array(column) for column in zip(*rows, strict=True))
            (self.own if alike[0].kind == "inside" else self.shared).append((at, typical, tail))

    def finished(self) -> Measured:
        """Return all of it."""
        nodes = tuple(self.index)
        by_size = []
        for size, found in sorted(self.pairs.items()):
            rails = {part[2].shape[1] for part in found}
            if len(rails) > 1:
                self.notes.append(f"{size} B: {sorted(rails)} ranks on a node, expected the same everywhere")
            parts = [part for part in found if part[2].shape[1] == max(rails)]
            by_size.append(Pairs(size, *(numpy.concatenate(column) for column in zip(*parts, strict=True))))
        notes = self.notes
        if len(notes) > NOTES_AT_MOST:
            notes = [*notes[:NOTES_AT_MOST], f"and {len(notes) - NOTES_AT_MOST} more places that cannot be read"]
        wrong = {node: tuple(sorted(ranks)) for node, ranks in sorted(self.wrong.items())}
        return Measured(nodes, tuple(by_size), tuple(self.groups), self._spread(nodes), wrong, tuple(notes))

    def _spread(self, nodes: Sequence[str]) -> tuple[Spread, ...]:
        ratios = self.own or self.shared
        if not ratios:
            return ()
        node, typical, tail = (numpy.concatenate(column) for column in zip(*ratios, strict=True))
        known = numpy.isfinite(typical) & numpy.isfinite(tail)
        node, typical, tail = node[known], typical[known], tail[known]
        order = numpy.argsort(node, kind="stable")
        node, typical, tail = node[order], typical[order], tail[order]
        starts = numpy.flatnonzero(numpy.diff(node, prepend=-1))
        found = []
        few = len(nodes) < FEW_NODES
        for start, end in zip(starts, [*starts[1:], len(node)], strict=True):
            name = nodes[int(node[start])]
            last, iterations = self.last.get(name, (0, 0))
            mine = usual(typical[start:end], few), usual(tail[start:end], few)
            found.append(Spread(name, *mine, last, iterations))
        return tuple(found)


def _pair_sizes(plan: Mapping[str, Any]) -> list[int]:
    """Return the sizes at which a program has pairs measured."""
    phases = plan["program"]["moves"]
    return sorted({int(size) for phase in phases if phase["kind"] == "pairs" for size in phase["sizes"]})


def _ranks(item: Mapping[str, Any]) -> int:
    """Return how many ranks a node has, by the first that has times; 1 where none has."""
    for result in item.get("results") or ():
        rows = result.get("ns") if isinstance(result, Mapping) else None
        if isinstance(rows, numpy.ndarray):
            return int(rows.shape[1])
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, list) and row:
                return len(row)
    return 1
