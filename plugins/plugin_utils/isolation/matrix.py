"""What the finished rounds saw, as arrays: every exchange of two nodes by rail and size, every group's operations.

What cannot be read is never taken for a measurement: a node of which a row is garbled or missing is named with why, so
that nothing passes by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.module_utils.pairing import partner, rounds_of
from ansible_collections.muster.cluster.plugins.plugin_utils.latency import MOVE_PREFIX

# By round, what it was to do ({"kind", "groups", "program"}) and what one of its jobs showed.
Seen = Sequence[tuple[int, Mapping[str, Any], Mapping[str, Any]]]
ABSENT, ARRIVED = "absent", "arrived"
# The kind of what groups as large as those that serve one model showed, which their latency profile alone judges.
MINI_CLUSTER = "mini_cluster"


@dataclass(frozen=True)
class Wrong:
    """Wrong data: who received it, from whom (None in a group), on which local ranks, in which round."""

    number: int
    receiver: str
    sender: str | None
    rails: tuple[int, ...]
    where: str


@dataclass(frozen=True)
class GroupResult:
    """One group's operation at one size: seconds of its slowest rank (median and 99 % of its iterations).

    ``p99_over_p50`` is by node the worst of its ranks; ``last`` says in how many iterations a node was the slowest.
    """

    number: int
    move: str
    kind: str
    collective: str
    size_bytes: int
    nodes: tuple[str, ...]
    seconds: float
    p99: float
    p99_over_p50: Mapping[str, float]
    last: Mapping[str, int]
    iterations: int


@dataclass(frozen=True)
class Halt:
    """A job that did not come to its end: who is to be asked first and why, whom they were to meet, how far it came."""

    number: int
    group: tuple[str, ...]
    started: bool
    error: str
    suspects: Mapping[str, str]
    unavailable: Mapping[str, str]
    move: str = ""
    step: int = 0
    partners: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Matrix:
    """All exchanges of pairs, a row each: ``gb`` is GB/s by (row, size, rail), of the slower side; NaN if not measured.

    ``one`` and ``other`` are indices of ``nodes``, ``number`` is the round, ``step`` the permutation, ``p99`` the
    seconds and ``ratio`` the p99 over p50 of the worse side by (row, size), medians over the rails. ``garbled`` says by
    node what could not be read of it, ``planned`` how many exchanges each was to make.
    """

    nodes: tuple[str, ...]
    sizes: tuple[int, ...]
    rails: int
    one: Any
    other: Any
    number: Any
    step: Any
    gb: Any
    p99: Any
    ratio: Any
    wrong: list[Wrong]
    groups: list[GroupResult]
    halts: list[Halt]
    garbled: dict[str, str]
    unavailable: dict[str, str]

    def broken(self, number: int, node: str) -> str:
        """Return why a node's job of a round counts for nobody: it failed, and nothing tells whose doing that was."""
        for halt in self.halts:
            if halt.number == number and node in halt.group and halt.started:
                return "" if halt.suspects or halt.unavailable else halt.error
        return ""

    def index(self) -> dict[str, int]:
        """Return the position of each node."""
        return {node: index for index, node in enumerate(self.nodes)}


def permutation_pairs(count: int, shifts: Sequence[int]) -> tuple[Any, Any, Any]:
    """Return which permutation, and which two positions of ``count``, every pair of these shifts is: three arrays.

    The circle method of module_utils/pairing.py, for all positions at once.
    """
    last = count - 1 if count % 2 == 0 else count
    turns = np.asarray(shifts, dtype=np.int64)[:, None]
    index = np.arange(count, dtype=np.int64)[None, :]
    other = (2 * turns - index) % last
    other = np.where(other == index, last, other)
    other = np.where(index == last, turns, other)
    step, one = np.nonzero((index < other) & (other < count))
    return step, one, other[step, one]


def matrix_of(nodes: Iterable[str], seen: Seen, sizes: Sequence[int], rails: int, spread: bool = True) -> Matrix:
    """Return what the rounds saw of these nodes; ``sizes`` and ``rails`` are what the class has pairs measured by.

    Without ``spread`` nothing is made of the 99 % of exchanges: ``p99`` and ``ratio`` are NaN.
    """
    names = tuple(dict.fromkeys(nodes))
    reader = _Reader(names, tuple(sizes), rails, spread)
    for number, plan, item in seen:
        reader.read(number, plan, item)
    return reader.matrix()


class _Reader:
    def __init__(self, nodes: tuple[str, ...], sizes: tuple[int, ...], rails: int, spread: bool) -> None:
        self.nodes, self.sizes, self.rails, self.spread = nodes, sizes, rails, spread
        self.index = {node: index for index, node in enumerate(nodes)}
        self.rows: list[tuple[Any, ...]] = []
        self.wrong: list[Wrong] = []
        self.groups: list[GroupResult] = []
        self.halts: list[Halt] = []
        self.garbled: dict[str, str] = {}
        self.unavailable: dict[str, str] = {}

    def matrix(self) -> Matrix:
        shape = (0, len(self.sizes))
        none = (*(np.zeros(0, np.int64),) * 4, np.zeros((*shape, self.rails)), np.zeros(shape), np.zeros(shape))
        parts = self.rows or [none]
        columns = [np.concatenate([part[column] for part in parts]) for column in range(7)]
        one, other, number, step, gb, p99, ratio = columns
        return Matrix(
            self.nodes,
            self.sizes,
            self.rails,
            one,
            other,
            number,
            step,
            gb,
            p99,
            ratio,
            self.wrong,
            self.groups,
            self.halts,
            self.garbled,
            self.unavailable,
        )

    def read(self, number: int, plan: Mapping[str, Any], item: Mapping[str, Any]) -> None:
        group = tuple(str(node) for node in _list(item.get("group")))
        where = f"round {number}"
        if not group or any(node not in self.index for node in group) or len(set(group)) != len(group):
            for job in _list(plan.get("groups")):
                self._garble([str(node) for node in _list(job)], f"{where}: an observation of unknown nodes")
            return
        gone = item.get("unavailable") or {}
        if not isinstance(gone, Mapping):
            self._garble(group, f"{where}: unavailable is {type(gone).__name__}, expected a mapping")
            gone = {}
        self.unavailable.update({str(node): str(why) for node, why in gone.items() if node in group})
        program = plan.get("program")
        moves = _list(program.get("moves")) if isinstance(program, Mapping) else []
        results: dict[tuple[str, int, int], Mapping[str, Any]] = {}
        known = {str(move.get("name")) for move in moves if isinstance(move, Mapping)}
        for result in _list(item.get("results")):
            try:
                key = (str(result["move"]), int(result["step"]), int(result["bytes"]))
            except (KeyError, TypeError, ValueError):
                self._garble(group, f"{where}: a result without move, step or bytes")
                continue
            if key[0] not in known or key in results:
                self._garble(group, f"{where}: a result of {key[0]!r} that was not asked for, or twice")
                continue
            results[key] = result
        finished = item.get("ok") is True and item.get("started") is True
        if item.get("started") is not True:
            # What did not start measured nothing, whatever it says.
            results = {}
        if finished and not moves:
            self._garble(group, f"{where}: no program")
        for move in moves:
            self._move(number, move, group, results, finished)
        if not finished:
            self.halts.append(_halt(number, item, group, moves))

    def _garble(self, nodes: Iterable[str], why: str) -> None:
        for node in nodes:
            self.garbled.setdefault(node, why)

    def _move(
        self,
        number: int,
        move: Mapping[str, Any],
        group: tuple[str, ...],
        results: Mapping[tuple[str, int, int], Mapping[str, Any]],
        finished: bool,
    ) -> None:
        if move["kind"] == "pairs":
            self._pairs(number, move, group, results, finished)
            return
        members = _members(move, group)
        used = {node for nodes in members for node in nodes}
        for size in move.get("sizes") or sorted({key[2] for key in results if key[0] == move["name"]}) or [0]:
            result = results.get((move["name"], 0, size))
            if result is None:
                if finished:
                    self._garble(used, f"round {number}: {move['name']} has no result at {size} B")
                continue
            self._grouped(number, move, group, result, finished)

    def _grouped(
        self,
        number: int,
        move: Mapping[str, Any],
        group: tuple[str, ...],
        result: Mapping[str, Any],
        finished: bool,
    ) -> None:
        where = f"round {number}: {move['name']}"
        members = _members(move, group)
        used = {node for nodes in members for node in nodes}
        took = np.array([node in used for node in group])
        middle, slowest = self._times(result, group, took, finished, where)
        self._wrong(number, result, group, {}, move["name"])
        last = result.get("last") or {}
        if not isinstance(last, Mapping) or not all(isinstance(count, int) for count in last.values()):
            self._garble(group, f"{where}: last is not a mapping of numbers")
            last = {}
        position = {node: index for index, node in enumerate(group)}
        for nodes in members:
            rows = [position[node] for node in nodes]
            if np.isnan(middle[rows]).any() or np.isnan(slowest[rows]).any():
                continue
            ratio = (slowest[rows] / middle[rows]).max(axis=1)
            self.groups.append(
                GroupResult(
                    number,
                    str(move["name"]),
                    MINI_CLUSTER if str(move["name"]).startswith(MOVE_PREFIX) else str(move["kind"]),
                    str(move.get("collective", "")),
                    int(result["bytes"]),
                    tuple(nodes),
                    float(middle[rows].max()) / 1e9,
                    float(slowest[rows].max()) / 1e9,
                    dict(zip(nodes, ratio.tolist(), strict=True)),
                    {node: int(last[node]) for node in nodes if node in last},
                    int(move.get("iterations") or 1),
                )
            )

    def _pairs(
        self,
        number: int,
        move: Mapping[str, Any],
        group: tuple[str, ...],
        results: Mapping[tuple[str, int, int], Mapping[str, Any]],
        finished: bool,
    ) -> None:
        step, one, other, steps = _pairs_of(move, len(group))
        if not steps:
            return
        times = np.full((2, steps, len(self.sizes), len(group), self.rails), np.nan, dtype=np.float32)
        took = np.zeros((steps, len(group)), dtype=bool)
        took[step, one] = took[step, other] = True
        met = np.full((steps, len(group)), -1)
        met[step, one], met[step, other] = other, one
        wanted = [size for size in move["sizes"] if size in self.sizes]
        for at in range(steps):
            for size in wanted:
                result = results.get((move["name"], at, size))
                where = f"round {number}: {move['name']}, permutation {at}"
                if result is None:
                    if finished:
                        absent = [node for index, node in enumerate(group) if took[at, index]]
                        self._garble(absent, f"{where} has no result at {size} B")
                    continue
                column = self.sizes.index(size)
                times[0, at, column], times[1, at, column] = self._times(result, group, took[at], finished, where)
                if result.get("wrong") != {}:
                    partners = {group[index]: group[met[at, index]] for index in np.flatnonzero(took[at])}
                    self._wrong(number, result, group, partners, f"{move['name']}, permutation {at}")
        mapping = np.array([self.index[node] for node in group])
        # The slower side counts: neither is done before the other has sent it everything.
        slower = np.maximum(times[:, step, :, one], times[:, step, :, other])  # (pair, ns or p99, size, rail)
        gb = np.asarray(self.sizes, dtype=np.float32)[None, :, None] / slower[:, 0]
        least, most = np.minimum(mapping[one], mapping[other]), np.maximum(mapping[one], mapping[other])
        p99 = ratio = np.full(gb.shape[:2], np.nan)
        if self.spread:
            p99 = _middle(slower[:, 1]) / 1e9
            ratio = _middle(slower[:, 1] / slower[:, 0])
        self.rows.append((least, most, np.full(len(least), number), step, gb, p99, ratio))

    def _times(
        self, result: Mapping[str, Any], group: tuple[str, ...], took: Any, finished: bool, where: str
    ) -> tuple[Any, Any]:
        """Return the nanoseconds by (node, rail), median and p99, NaN where there are none."""
        both = []
        for key in ("ns", "ns_p99"):
            values, bad = _rows(result.get(key), len(group), self.rails)
            if values is None:
                self._garble(group, f"{where}: {key} has not {len(group)} rows of {self.rails} numbers")
                nothing = np.full((len(group), self.rails), np.nan)
                return nothing, nothing
            for index in bad:
                self._garble([group[index]], f"{where}: {key} of it is not {self.rails} times above 0")
            if finished and not bad:
                for lacking in np.flatnonzero(np.isnan(values[:, 0]) & took).tolist():
                    self._garble([group[lacking]], f"{where}: {key} has nothing of it")
            both.append(values)
        return both[0], both[1]

    def _wrong(
        self,
        number: int,
        result: Mapping[str, Any],
        group: tuple[str, ...],
        partners: Mapping[str, str],
        where: str,
    ) -> None:
        wrong = result.get("wrong")
        if not isinstance(wrong, Mapping) or any(node not in group for node in wrong):
            self._garble(group, f"round {number}: {where}: wrong is {wrong!r:.80}, expected who received wrong data")
            return
        for node, rails in wrong.items():
            ranks = tuple(rank for rank in _list(rails) if isinstance(rank, int))
            self.wrong.append(Wrong(number, str(node), partners.get(node), ranks, where))


def _pairs_of(move: Mapping[str, Any], count: int) -> tuple[Any, Any, Any, int]:
    if "shifts" in move:
        # A job of fewer positions than the program was made for walks what it can.
        shifts = [int(shift) for shift in move["shifts"]]
        if count < 2 or any(not 0 <= shift < rounds_of(count) for shift in shifts):
            return (*(np.zeros(0, np.int64),) * 3, 0)
        return (*permutation_pairs(count, shifts), len(shifts))
    flat = [
        (at, one, other) for at, pairs in enumerate(move["pairs"]) for one, other in pairs if max(one, other) < count
    ]
    columns = np.array(flat, dtype=np.int64).reshape(-1, 3).T
    return columns[0], columns[1], columns[2], len(move["pairs"])


def _steps(move: Mapping[str, Any]) -> int:
    return len(move["shifts"] if "shifts" in move else move["pairs"]) if move["kind"] == "pairs" else 1


def _members(move: Mapping[str, Any], group: tuple[str, ...]) -> list[list[str]]:
    if move["kind"] == "inside":
        return [[node] for node in group]
    if move["kind"] == "groups":
        return [[group[index] for index in nodes if index < len(group)] for nodes in move["groups"]]
    return [list(group)]


def _rows(data: Any, count: int, rails: int) -> tuple[Any, list[int]]:
    """Return the rows as floats, NaN for null, and which of them are no times; None where there are not so many."""
    values: Any
    if isinstance(data, np.ndarray):
        if data.shape != (count, rails):
            return None, []
        if data.min() > 0 and data.max() < np.inf:
            return data, []
        values, empty = data, np.isnan(data).all(axis=1)
    else:
        if not isinstance(data, list) or len(data) != count:
            return None, []
        nothing = [np.nan] * rails
        listed = [nothing if row is None else row for row in data]
        try:
            values = np.array(listed)
        except ValueError:
            values = np.zeros(0)
        truth = any(isinstance(row, list) and row and isinstance(row[0], bool) for row in data)
        if truth or values.shape != (count, rails) or values.dtype.kind not in "iuf":
            return _row_by_row(data, rails)
        empty = np.array([row is None for row in data])
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~((np.isfinite(values) & (values > 0)).all(axis=1) | empty)).tolist()
    if bad:
        values = values.astype(np.float64)
        values[bad] = np.nan
    return values, bad


def _row_by_row(data: Sequence[Any], rails: int) -> tuple[Any, list[int]]:
    """Return the same of rows that are not all alike."""
    values = np.full((len(data), rails), np.nan)
    bad = []
    for index, row in enumerate(data):
        if isinstance(row, list) and len(row) == rails and all(_number(value) for value in row):
            values[index] = row
        elif row is not None:
            bad.append(index)
    return values, bad


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 and value < float("inf")


def _middle(values: Any) -> Any:
    """Return the median over the last axis; NaN where any is."""
    return values[..., 0] if values.shape[-1] == 1 else np.median(values, axis=-1)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _halt(number: int, item: Mapping[str, Any], group: tuple[str, ...], moves: Sequence[Mapping[str, Any]]) -> Halt:
    """Return why the job ended early, and whom that speaks against.

    Who never came to a permutation kept its partner waiting. Where both came and neither went on, either may be it.
    Who waits for a node that is still busy with an earlier permutation is merely waiting.
    """
    started = item.get("started") is True
    error = str(item.get("error") or "did not come to its end")[:300]
    gone = item.get("unavailable")
    unavailable = {str(node): str(why) for node, why in gone.items()} if isinstance(gone, Mapping) else {}
    if not started:
        return Halt(number, group, False, error, {}, unavailable)
    suspects: dict[str, str] = {}
    for node in _list(item.get("missing")):
        if node in group:
            suspects[node] = "it reported nothing"
    order = {str(move["name"]): index for index, move in enumerate(moves)}
    stands: dict[str, tuple[int, int, str]] = {}
    reached = item.get("reached")
    for node, place in reached.items() if isinstance(reached, Mapping) else ():
        ok = isinstance(place, (list, tuple)) and len(place) == 3 and place[0] in order and isinstance(place[1], int)
        ok = ok and 0 <= place[1] < _steps(moves[order[place[0]]])
        if node in group and ok and place[2] in (ABSENT, ARRIVED):
            stands[node] = (order[place[0]], place[1], place[2])
    for node, stand in stands.items():
        if stand[2] == ABSENT:
            suspects.setdefault(node, f"it never came to {moves[stand[0]]['name']} {stand[1]}")
    first = min((stand[:2] for stand in stands.values()), default=(0, 0))
    waited: dict[str, str] = {}
    meets = _pair_map(moves, group, stands)
    for node, stand in stands.items():
        other = meets.get(node)
        if other is None or stand[2] != ARRIVED:
            continue
        if stands.get(other) == stand and not {node, other} & set(suspects):
            waited[node] = other
    for node, other in waited.items():
        suspects[node] = f"it and {other} both came and neither went on"
    suspects = suspects or _failed(item, group)
    move = str(moves[first[0]]["name"]) if moves else ""
    met = {other: node for node, other in meets.items() if other in suspects}
    return Halt(number, group, True, error, suspects, unavailable, move, first[1], met)


def _failed(item: Mapping[str, Any], group: tuple[str, ...]) -> dict[str, str]:
    """Return whose ranks told an error; one that most of them have is what all were given, not who has it."""
    failed = [rank for rank in _list(item.get("ranks")) if isinstance(rank, Mapping) and rank.get("error")]
    names = {str(rank.get("node")): str(rank["error"])[:200] for rank in failed if rank.get("node") in group}
    return names if len(names) <= max(2, len(group) // 5) else {}


def _pair_map(
    moves: Sequence[Mapping[str, Any]], group: tuple[str, ...], stands: Mapping[str, tuple[int, int, str]]
) -> dict[str, str]:
    """Return with whom each node was to exchange data where it stands."""
    found: dict[str, str] = {}
    explicit: dict[tuple[int, int], dict[int, int]] = {}
    for index, node in enumerate(group):
        place = stands[node][:2] if node in stands else None
        if place is None or moves[place[0]]["kind"] != "pairs":
            continue
        move = moves[place[0]]
        if "pairs" in move:
            if place not in explicit:
                met = [(int(one), int(other)) for one, other in move["pairs"][place[1]]]
                explicit[place] = {**dict(met), **{other: one for one, other in met}}
            other = explicit[place].get(index)
        else:
            other = partner(len(group), move["shifts"][place[1]], index)
        if other is not None:
            found[node] = group[other]
    return found
