"""What the finished rounds saw, as arrays: every exchange of two nodes by rail and size, every group's operations.

What cannot be read is never taken for a measurement: a node of which a row is unreadable or missing is named with
why, so that nothing passes by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from ansible_collections.muster.cluster.plugins.module_utils.collectives.pairing import partner, rounds_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import PHASE_PREFIX
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.medians import median_across

# By round, what it was to do ({"kind", "groups", "program"}) and what one of its jobs showed.
Seen = Sequence[tuple[int, Mapping[str, Any], Mapping[str, Any]]]
# Whether what a phase of this name of this round showed of pairs is to be read.
Chosen = Callable[[Mapping[str, Any], str], bool]
ABSENT, ARRIVED = "absent", "arrived"
INSIDE = "inside"
# Of the slower side nanoseconds by (row, rail), median and p99, and by row how much longer the first side took (log).
_Slower = tuple[Any, Any, Any]
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


class GroupResult(NamedTuple):
    """One group's operation at one size: seconds of its slowest rank (median and 99 % of its iterations).

    ``ratios`` are the p99 over p50 of the worst rank of each node; ``last`` says in how many iterations a node was the
    slowest.
    """

    number: int
    phase: str
    kind: str
    collective: str
    size_bytes: int
    nodes: tuple[str, ...]
    seconds: float
    p99: float
    ratios: tuple[float, ...]
    last: Mapping[str, int]
    iterations: int

    @property
    def p99_over_p50(self) -> dict[str, float]:
        """Return by node the worst of its ranks."""
        return dict(zip(self.nodes, self.ratios, strict=True))


@dataclass(frozen=True)
class Halt:
    """A job that did not come to its end: who is to be asked first and why, whom they were to meet, how far it came.

    Of those to be asked ``inside`` are who stood still by themselves, in a phase without other nodes.
    """

    number: int
    group: tuple[str, ...]
    started: bool
    error: str
    suspects: Mapping[str, str]
    unavailable: Mapping[str, str]
    phase: str = ""
    step: int = 0
    partners: Mapping[str, str] = field(default_factory=dict)
    inside: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Exchanges:
    """Exchanges of two of ``count`` nodes, a row each: ``gb`` is GB/s by (row, size, rail), NaN if not measured.

    ``one`` and ``other`` are the nodes, the lower first, ``number`` is the round, ``step`` the permutation, numbered on
    over the phases of a job. Of the two sides the slower counts. ``p99`` are its seconds and ``ratio`` its p99 over p50
    by (row, size), medians over the rails. ``lead`` is the logarithm of the seconds that ``one`` told over those that
    ``other`` did, by (row, size), sums over the rails. Of what was not measured at any size ``unmeasured`` are the two
    nodes, and no row.
    """

    count: int
    one: Any
    other: Any
    number: Any
    step: Any
    gb: Any
    p99: Any
    ratio: Any
    lead: Any
    unmeasured: tuple[Any, Any]

    @cached_property
    def known(self) -> Any:
        """Return by row whether it was measured at every size."""
        return ~np.isnan(self.gb.transpose(1, 2, 0).min(axis=(0, 1)))

    @cached_property
    def pairs(self) -> Any:
        """Return by row one number for its two nodes."""
        return self.one * np.int64(self.count) + self.other

    @cached_property
    def _met(self) -> tuple[Any, Any]:
        both = np.concatenate([self.one, self.other])
        # Numbers of 16 bits are sorted by their digits, in a fiftieth of the time.
        order = np.argsort(both.astype(np.int16) if self.count < 2**15 else both, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(both, minlength=self.count))])
        return order % max(1, len(self.one)), start

    def rows_of(self, node: int) -> Any:
        """Return which rows a node took part in."""
        rows, start = self._met
        return rows[start[node] : start[node + 1]]

    def of_nodes(self, rows: Any) -> Any:
        """Return by node in how many of these rows (a mask, or their numbers) it took part."""
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        one, other = (np.bincount(each.take(rows), minlength=self.count) for each in (self.one, self.other))
        return one + other

    def touching(self, nodes: Iterable[int]) -> Any:
        """Return by row whether one of the nodes took part."""
        chosen = np.zeros(self.count, dtype=bool)
        chosen[list(nodes)] = True
        return chosen[self.one] | chosen[self.other]

    def without(self, rows: Any) -> Exchanges:
        """Return all but these (a mask), which measured nothing."""
        columns: list[Any] = [self.one, self.other, self.number, self.step, self.gb, self.p99, self.ratio, self.lead]
        columns = [each[~rows] for each in columns]
        sides = zip(self.unmeasured, (self.one[rows], self.other[rows]), strict=True)
        columns.append(tuple(np.concatenate(each) for each in sides))
        return Exchanges(self.count, *columns)

    def across(self, members: Sequence[int], beyond: Sequence[int] = ()) -> Any:
        """Return the rows between the members and those beyond, or everybody else."""
        inside, outside = (np.zeros(self.count, dtype=bool) for _each in range(2))
        inside[list(members)] = True
        outside[list(beyond)] = True
        if not beyond:
            outside = ~inside
        rows = np.concatenate([self.rows_of(node) for node in members])
        return rows[outside[self.one[rows]] | outside[self.other[rows]]]


@dataclass(frozen=True)
class Matrix:
    """What rounds showed of ``nodes``: exchanges of pairs at ``sizes`` over so many ``rails``, and everything else.

    ``unreadable`` says by node what could not be read of it.
    """

    nodes: tuple[str, ...]
    sizes: tuple[int, ...]
    rails: int
    exchanges: Exchanges
    wrong: list[Wrong]
    groups: list[GroupResult]
    halts: list[Halt]
    unreadable: dict[str, str]
    unavailable: dict[str, str]

    def broken(self, number: int, node: str) -> str:
        """Return why a node's job of a round counts for nobody: it failed, and nothing tells whose doing that was."""
        for halt in self.halts:
            if halt.number == number and node in halt.group and halt.started:
                return "" if halt.suspects or halt.unavailable else halt.error
        return ""

    @cached_property
    def index(self) -> dict[str, int]:
        """Return the position of each node."""
        return {node: index for index, node in enumerate(self.nodes)}


def phases_of(plan: Mapping[str, Any], group: Sequence[str]) -> list[Any]:
    """Return the phases that a job of a round runs: all of its program, but those that are for other ``jobs`` of it."""
    program = plan.get("program")
    phases = _list(program.get("moves")) if isinstance(program, Mapping) else []
    if not any(isinstance(phase, Mapping) and "jobs" in phase for phase in phases):
        return phases
    jobs = [list(job) for job in plan["groups"]]
    number = jobs.index(list(group)) if list(group) in jobs else -1
    return [phase for phase in phases if number in phase.get("jobs", (number,))]


def permutation_pairs(count: int, shifts: Sequence[int]) -> tuple[Any, Any, Any]:
    """Return which permutation, and which two positions of ``count``, every pair of these shifts is: three arrays.

    The circle method of module_utils/collectives/pairing.py, for all positions at once.
    """
    last = count - 1 if count % 2 == 0 else count
    turns = np.asarray(shifts, dtype=np.int64)[:, None]
    index = np.arange(count, dtype=np.int64)[None, :]
    other = (2 * turns - index) % last
    other = np.where(other == index, last, other)
    other = np.where(index == last, turns, other)
    step, one = np.nonzero((index < other) & (other < count))
    return step, one, other[step, one]


@dataclass
class JobReading:
    """What one job of a round showed; ``rows`` are the columns of its exchanges, one tuple for each of its phases.

    The last column is the name of the phase.
    """

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    wrong: list[Wrong] = field(default_factory=list)
    groups: list[GroupResult] = field(default_factory=list)
    halts: list[Halt] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)

    def note_unreadable(self, nodes: Iterable[str], why: str) -> None:
        """Note for nodes of which something cannot be read what that was, the first time."""
        for node in nodes:
            self.unreadable.setdefault(node, why)


class Readings:
    """Finished rounds as arrays: each observation is read once, however often the campaign comes back to it.

    ``sizes`` and ``rails`` are what the class has pairs measured by. Without ``spread`` nothing is made of the 99 % of
    exchanges: ``p99`` and ``ratio`` are NaN.
    """

    def __init__(self, nodes: Iterable[str], sizes: Sequence[int], rails: int, spread: bool = True) -> None:
        self.nodes = tuple(dict.fromkeys(nodes))
        self.sizes, self.rails, self.spread = tuple(sizes), rails, spread
        self._index = {node: index for index, node in enumerate(self.nodes)}
        # An observation is told by itself, not by its value: as long as it is kept here nothing else has its id.
        self._read: dict[tuple[int, int], tuple[Any, JobReading]] = {}

    def of(self, number: int, plan: Mapping[str, Any], item: Mapping[str, Any]) -> JobReading:
        """Return what a job of a round showed."""
        key = (number, id(item))
        if key not in self._read:
            reader = _Reader(self._index, self.sizes, self.rails, self.spread)
            reader.read(number, plan, item)
            self._read[key] = item, reader.found
        return self._read[key][1]

    def matrix(self, seen: Seen, chosen: Chosen | None = None) -> Matrix:
        """Return everything that these rounds showed; of pairs only what phases showed that are ``chosen``, if any."""
        found = [self.of(*each) for each in seen]
        unreadable: dict[str, str] = {}
        unavailable: dict[str, str] = {}
        for each in found:
            for node, why in each.unreadable.items():
                unreadable.setdefault(node, why)
            unavailable.update(each.unavailable)
        return Matrix(
            self.nodes,
            self.sizes,
            self.rails,
            self.exchanges(seen, chosen),
            [wrong for each in found for wrong in each.wrong],
            [group for each in found for group in each.groups],
            [halt for each in found for halt in each.halts],
            unreadable,
            unavailable,
        )

    def exchanges(self, seen: Seen, chosen: Chosen | None = None) -> Exchanges:
        """Return the exchanges of pairs in these rounds, or in those of their phases that are chosen."""
        shape = (0, len(self.sizes))
        none = (*(np.zeros(0, np.int64),) * 4, np.zeros((*shape, self.rails)), *(np.zeros(shape),) * 3)
        parts = [
            rows for each in seen for rows in self.of(*each).rows if chosen is None or chosen(each[1], rows[-1])
        ] or [(*none, none[:2])]
        columns: list[Any] = list(parts[0][:8])
        if len(parts) > 1:
            columns = [np.concatenate([part[column] for part in parts]) for column in range(8)]
        columns.append(tuple(np.concatenate([part[8][side] for part in parts]) for side in range(2)))
        return Exchanges(len(self.nodes), *columns)


def matrix_of(nodes: Iterable[str], seen: Seen, sizes: Sequence[int], rails: int, spread: bool = True) -> Matrix:
    """Return what the rounds saw of these nodes, as Readings reads them."""
    return Readings(nodes, sizes, rails, spread).matrix(seen)


class _Reader:
    """Reads one observation."""

    def __init__(self, index: Mapping[str, int], sizes: tuple[int, ...], rails: int, spread: bool) -> None:
        self.index, self.sizes, self.rails, self.spread = index, sizes, rails, spread
        self.found = JobReading()

    def read(self, number: int, plan: Mapping[str, Any], item: Mapping[str, Any]) -> None:
        found = self.found
        group = tuple(str(node) for node in _list(item.get("group")))
        where = f"round {number}"
        if not group or any(node not in self.index for node in group) or len(set(group)) != len(group):
            for job in _list(plan.get("groups")):
                found.note_unreadable([str(node) for node in _list(job)], f"{where}: an observation of unknown nodes")
            return
        gone = item.get("unavailable") or {}
        if not isinstance(gone, Mapping):
            found.note_unreadable(group, f"{where}: unavailable is {type(gone).__name__}, expected a mapping")
            gone = {}
        found.unavailable.update({str(node): str(why) for node, why in gone.items() if node in group})
        phases = phases_of(plan, group)
        results: dict[tuple[str, int, int], Mapping[str, Any]] = {}
        known = {str(phase.get("name")) for phase in phases if isinstance(phase, Mapping)}
        for result in _list(item.get("results")):
            try:
                key = (str(result["move"]), int(result["step"]), int(result["bytes"]))
            except (KeyError, TypeError, ValueError):
                found.note_unreadable(group, f"{where}: a result without move, step or bytes")
                continue
            if key[0] not in known or key in results:
                found.note_unreadable(group, f"{where}: a result of {key[0]!r} that was not asked for, or twice")
                continue
            results[key] = result
        finished = item.get("ok") is True and item.get("started") is True
        if item.get("started") is not True:
            # What did not start measured nothing, whatever it says.
            results = {}
        if finished and not phases:
            found.note_unreadable(group, f"{where}: no program")
        before = 0
        for phase in phases:
            job = _Job(number, phase, group, results, finished, before)
            if phase["kind"] == "pairs":
                self._pairs(job)
                before += _steps(phase)
            else:
                self._groups(job)
        if not finished:
            found.halts.append(_halt(number, item, group, phases))

    def _groups(self, job: _Job) -> None:
        phase, group = job.phase, job.group
        members = _members(phase, len(group))
        used = {group[index] for rows in members for index in rows}
        named = {key[2] for key in job.results if key[0] == phase["name"]}
        for size in phase.get("sizes") or sorted(named) or [0]:
            result = job.results.get((phase["name"], 0, size))
            if result is not None:
                self._grouped(job, members, used, result)
            elif job.finished:
                self.found.note_unreadable(used, f"round {job.number}: {phase['name']} has no result at {size} B")

    def _grouped(self, job: _Job, members: Sequence[Sequence[int]], used: set[str], result: Mapping[str, Any]) -> None:
        phase, group = job.phase, job.group
        where = f"round {job.number}: {phase['name']}"
        took = np.array([node in used for node in group])
        middle, slowest = self._times(result, group, took, job.finished, where)
        self._wrong(job.number, result, group, {}, phase["name"])
        last = result.get("last") or {}
        if not isinstance(last, Mapping) or not all(isinstance(count, int) for count in last.values()):
            self.found.note_unreadable(group, f"{where}: last is not a mapping of numbers")
            last = {}
        with np.errstate(invalid="ignore"):
            ratios = (slowest / middle).max(axis=1)
        seconds, p99 = middle.max(axis=1) / 1e9, slowest.max(axis=1) / 1e9
        unknown = set(np.flatnonzero(np.isnan(seconds + p99)).tolist())
        members = [rows for rows in members if rows and unknown.isdisjoint(rows)]
        if not members:
            return
        name = str(phase["name"])
        kind = MINI_CLUSTER if name.startswith(PHASE_PREFIX) else str(phase["kind"])
        about = job.number, name, kind, str(phase.get("collective", "")), int(result["bytes"])
        iterations = int(phase.get("iterations") or 1)
        # A group takes as long as the slowest node in it.
        order = np.array([index for rows in members for index in rows])
        starts = np.cumsum([0, *(len(rows) for rows in members[:-1])])
        seconds, p99 = (np.maximum.reduceat(each[order], starts).tolist() for each in (seconds, p99))
        by_node = ratios[order].tolist()
        for rows, first, median, most in zip(members, starts.tolist(), seconds, p99, strict=True):
            nodes = tuple([group[index] for index in rows])
            its = {node: int(last[node]) for node in nodes if node in last} if last else {}
            worst = tuple(by_node[first : first + len(rows)])
            self.found.groups.append(GroupResult(*about, nodes, median, most, worst, its, iterations))

    def _pairs(self, job: _Job) -> None:
        phase, group = job.phase, job.group
        step, one, other, steps = phase_pairs(phase, len(group))
        if not steps:
            return
        met = np.full((steps, len(group)), -1)
        met[step, one], met[step, other] = other, one
        asked = [size for size in phase["sizes"] if size in self.sizes]
        sides = step * len(group) + one, step * len(group) + other
        slower = self._slower(job, asked, met, sides)
        if not slower:
            slower = self._result_by_result(job, asked, met, sides)
        mapping = np.array([self.index[node] for node in group])
        least, most = np.minimum(mapping[one], mapping[other]), np.maximum(mapping[one], mapping[other])
        # By size, rail and row in memory: what is judged is one rail at one size over all rows.
        gb = np.full((len(self.sizes), self.rails, len(one)), np.nan, dtype=np.float32)
        p99 = ratio = np.full((len(one), len(self.sizes)), np.nan)
        if self.spread:
            p99, ratio = (np.full(p99.shape, np.nan, dtype=np.float32) for _each in range(2))
        lead = np.full((len(one), len(self.sizes)), np.nan, dtype=np.float32)
        turned = np.where(least == mapping[one], np.float32(1), np.float32(-1))
        for size in asked:
            column, (ns, ns_p99, first) = self.sizes.index(size), slower[size]
            np.divide(np.float32(size), ns.T, out=gb[column])
            lead[:, column] = first * turned
            if ns_p99 is not None:
                p99[:, column] = median_across(ns_p99.T) / 1e9
                ratio[:, column] = median_across((ns_p99 / ns).T)
        nothing = np.isnan(gb[:, 0]).all(axis=0)
        number, step = np.full(len(least), job.number), step + job.before
        columns: list[Any] = [least, most, number, step, gb.transpose(2, 0, 1), p99, ratio, lead]
        unmeasured = least[nothing], most[nothing]
        if nothing.any():
            columns = [each[~nothing] for each in columns]
            columns[4] = np.ascontiguousarray(gb[:, :, ~nothing]).transpose(2, 0, 1)
        self.found.rows.append((*columns, unmeasured, str(phase["name"])))

    def _slower(self, job: _Job, sizes: Sequence[int], met: Any, sides: tuple[Any, Any]) -> dict[int, _Slower]:
        """Return by size the slower side; nothing if any is amiss.

        Neither is done before the other has sent it everything.
        """
        found: dict[int, _Slower] = {}
        for size in sizes:
            blocks = []
            for key in ("ns", "ns_p99"):
                block = self._block(job, (size, key), met.shape)
                if block is None or not _is_sound(block, sides, met, job.finished):
                    return {}
                blocks.append(block)
            found[size] = self._slower_of(blocks[0], blocks[1], sides)
        if any(result.get("wrong") != {} for result in job.results.values()):
            for at in range(len(met)):
                for size in sizes:
                    self._wrong_of_pairs(job, at, size, met[at])
        return found

    def _block(self, job: _Job, what: tuple[int, str], shape: tuple[int, int]) -> Any:
        """Return one size's median or p99 by (permutation, node, rail), None where any of it has another form."""
        size, key = what
        block = np.empty((*shape, self.rails), dtype=np.float32)
        for at, here in enumerate(block):
            result = job.results.get((job.phase["name"], at, size))
            if result is None and not job.finished:
                here[:] = np.nan
                continue
            values = None if result is None else result.get(key)
            if not isinstance(values, np.ndarray):
                values, bad = _rows(values, len(job.group), self.rails)
                values = None if bad else values
            if values is None or values.shape != here.shape:
                return None
            here[:] = values
        return block

    def _result_by_result(
        self, job: _Job, sizes: Sequence[int], met: Any, sides: tuple[Any, Any]
    ) -> dict[int, _Slower]:
        """Return the same, NaN for what cannot be read, and note of whom that is."""
        blocks = {size: np.full((2, *met.shape, self.rails), np.nan, np.float32) for size in sizes}
        for at in range(len(met)):
            took = met[at] >= 0
            for size in sizes:
                result = job.results.get((job.phase["name"], at, size))
                where = f"round {job.number}: {job.phase['name']}, permutation {at}"
                if result is None:
                    if job.finished:
                        absent = [node for node, there in zip(job.group, took.tolist(), strict=True) if there]
                        self.found.note_unreadable(absent, f"{where} has no result at {size} B")
                    continue
                blocks[size][:, at] = self._times(result, job.group, took, job.finished, where)
                self._wrong_of_pairs(job, at, size, met[at])
        return {size: self._slower_of(both[0], both[1], sides) for size, both in blocks.items()}

    def _slower_of(self, ns: Any, ns_p99: Any, sides: tuple[Any, Any]) -> _Slower:
        """Return what the slower side told; of p99, which is asked for the spread of times alone, None otherwise."""
        one, other = (ns.reshape(-1, self.rails).take(side, axis=0) for side in sides)
        longest = None
        if self.spread:
            longest = np.maximum(*(ns_p99.reshape(-1, self.rails).take(side, axis=0) for side in sides))
        # A sum over a few columns takes a tenth of the time that the rails of each row take.
        return np.maximum(one, other), longest, np.log(sum(one.T) / sum(other.T))

    def _wrong_of_pairs(self, job: _Job, at: int, size: int, met: Any) -> None:
        result = job.results.get((job.phase["name"], at, size))
        if result is None or result.get("wrong") == {}:
            return
        partners = {job.group[index]: job.group[met[index]] for index in np.flatnonzero(met >= 0).tolist()}
        self._wrong(job.number, result, job.group, partners, f"{job.phase['name']}, permutation {at}")

    def _times(
        self, result: Mapping[str, Any], group: tuple[str, ...], took: Any, finished: bool, where: str
    ) -> tuple[Any, Any]:
        """Return the nanoseconds by (node, rail), median and p99, NaN where there are none."""
        both = []
        for key in ("ns", "ns_p99"):
            values, bad = _rows(result.get(key), len(group), self.rails)
            if values is None:
                self.found.note_unreadable(group, f"{where}: {key} has not {len(group)} rows of {self.rails} numbers")
                nothing = np.full((len(group), self.rails), np.nan)
                return nothing, nothing
            for index in bad:
                self.found.note_unreadable([group[index]], f"{where}: {key} of it is not {self.rails} times above 0")
            if finished and not bad:
                for lacking in np.flatnonzero(np.isnan(values[:, 0]) & took).tolist():
                    self.found.note_unreadable([group[lacking]], f"{where}: {key} has nothing of it")
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
            said = f"round {number}: {where}: wrong is {wrong!r:.80}, expected who received wrong data"
            self.found.note_unreadable(group, said)
            return
        for node, rails in wrong.items():
            ranks = tuple(rank for rank in _list(rails) if isinstance(rank, int))
            self.found.wrong.append(Wrong(number, str(node), partners.get(node), ranks, where))


@dataclass(frozen=True)
class _Job:
    """A phase of one job, and all results of that job by phase, permutation and size; ``finished``: it ended well.

    ``before`` are the permutations of the job's earlier phases.
    """

    number: int
    phase: Mapping[str, Any]
    group: tuple[str, ...]
    results: Mapping[tuple[str, int, int], Mapping[str, Any]]
    finished: bool
    before: int


def _is_sound(block: Any, sides: tuple[Any, Any], met: Any, finished: bool) -> bool:
    """Return whether all that took part have their times, or may have none, and who sat out has none or sound ones."""
    if block.min() > 0 and block.max() < np.inf:
        return True
    one, other = (block.reshape(-1, block.shape[2]).take(side, axis=0) for side in sides)
    measured = np.minimum(one, other).min(initial=1) > 0 and np.maximum(one, other).max(initial=0) < np.inf
    # What a job that stopped early did not come to is empty.
    partly = not finished and _sound_or_empty(one) and _sound_or_empty(other)
    return bool((measured or partly) and _sound_or_empty(block[met < 0]))


def _sound_or_empty(rows: Any) -> bool:
    with np.errstate(invalid="ignore"):
        sound = ((rows > 0) & (rows < np.inf)).all(axis=1)
    return bool((sound | np.isnan(rows).all(axis=1)).all())


def phase_pairs(phase: Mapping[str, Any], count: int) -> tuple[Any, Any, Any, int]:
    """Return which permutation and which two positions every pair of a phase is, and how many permutations it has."""
    if "shifts" in phase:
        # A job of fewer positions than the program was made for runs what it can.
        shifts = [int(shift) for shift in phase["shifts"]]
        if count < 2 or any(not 0 <= shift < rounds_of(count) for shift in shifts):
            return (*(np.zeros(0, np.int64),) * 3, 0)
        return (*permutation_pairs(count, shifts), len(shifts))
    columns = np.array([pair for pairs in phase["pairs"] for pair in pairs], dtype=np.int64).reshape(-1, 2).T
    step = np.repeat(np.arange(len(phase["pairs"])), [len(pairs) for pairs in phase["pairs"]])
    there = columns.max(axis=0, initial=0) < count
    return step[there], columns[0][there], columns[1][there], len(phase["pairs"])


def pairs_of_phases(phases: Sequence[Mapping[str, Any]], count: int) -> tuple[Any, Any, Any, dict[str, int]]:
    """Return the same of all phases of pairs, permutations numbered on, and by phase how many are before it."""
    columns, first, before = [(np.zeros(0, np.int64),) * 3], {}, 0
    for phase in phases:
        first[str(phase["name"])] = before
        if phase["kind"] == "pairs":
            step, one, other, _steps_of_it = phase_pairs(phase, count)
            columns.append((step + before, one, other))
            before += _steps(phase)
    step, one, other = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return step, one, other, first


def _steps(phase: Mapping[str, Any]) -> int:
    return len(phase["shifts"] if "shifts" in phase else phase["pairs"]) if phase["kind"] == "pairs" else 1


def _members(phase: Mapping[str, Any], count: int) -> list[list[int]]:
    """Return the positions of those that a phase has together."""
    if phase["kind"] == INSIDE:
        return [[index] for index in range(count)]
    if phase["kind"] == "groups":
        return [[index for index in nodes if index < count] for nodes in phase["groups"]]
    return [list(range(count))]


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


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _halt(number: int, item: Mapping[str, Any], group: tuple[str, ...], phases: Sequence[Mapping[str, Any]]) -> Halt:
    """Return why the job ended early, and whom that speaks against.

    A node that never reached a permutation kept its partner waiting. If both arrived and neither continued, it may be
    either. Who stands still inside itself, where no other node takes part, does so by its own doing if others went on.
    Who waits for a node that is still busy with an earlier permutation is merely waiting. Whoever was silent beside a
    node that Slurm lost, or with everybody else, may have been ended with it: that speaks against nobody.
    """
    started = item.get("started") is True
    error = str(item.get("error") or "did not come to its end")[:300]
    gone = item.get("unavailable")
    unavailable = {str(node): str(why) for node, why in gone.items()} if isinstance(gone, Mapping) else {}
    if not started:
        return Halt(number, group, False, error, {}, unavailable)
    silent = {node: "it reported nothing" for node in _list(item.get("missing")) if node in group}
    ended = set(silent) - set(unavailable) if unavailable or len(silent) == len(group) else set()
    suspects = {node: why for node, why in silent.items() if node not in ended}
    order = {str(phase["name"]): index for index, phase in enumerate(phases)}
    stands: dict[str, tuple[int, int, str]] = {}
    reached = item.get("reached")
    for node, place in reached.items() if isinstance(reached, Mapping) else ():
        ok = isinstance(place, (list, tuple)) and len(place) == 3 and place[0] in order and isinstance(place[1], int)
        ok = ok and 0 <= place[1] < _steps(phases[order[place[0]]])
        if node in group and ok and place[2] in (ABSENT, ARRIVED):
            stands[node] = (order[place[0]], place[1], place[2])
    alone = _alone(group, phases, stands, silent) - ended
    suspects.update({node: f"it did not come out of {phases[stands[node][0]]['name']}" for node in sorted(alone)})
    for node, stand in stands.items():
        if stand[2] == ABSENT and node not in ended:
            suspects.setdefault(node, f"it never reached {phases[stand[0]]['name']} {stand[1]}")
    first = min((stand[:2] for stand in stands.values()), default=(0, 0))
    meets = _pair_map(phases, group, stands)
    for node, other in _both_arrived(phases, meets, stands, suspects, _crowd(group)).items():
        suspects[node] = f"it and {other} both arrived and neither continued"
    suspects = suspects or _failed(item, group)
    phase = str(phases[first[0]]["name"]) if phases else ""
    # Who waits in a later permutation, for one that is not through with an earlier one, tells nothing of it.
    here = {node: stand[:2] for node, stand in stands.items()}
    met = {other: node for node, other in meets.items() if other in suspects and here.get(other) == here[node]}
    met |= _met_in_groups(phases, stands, suspects.keys() - met.keys())
    return Halt(number, group, True, error, suspects, unavailable, phase, first[1], met, frozenset(alone))


def _alone(
    group: tuple[str, ...],
    phases: Sequence[Mapping[str, Any]],
    stands: Mapping[str, tuple[int, int, str]],
    silent: Iterable[str],
) -> set[str]:
    """Return who stands still inside itself; nobody where no other node went on: all of them were given the same."""
    found = {node for node, stand in stands.items() if phases[stand[0]]["kind"] == INSIDE}
    return set() if len(group) > 1 and found.union(silent).issuperset(group) else found


def _both_arrived(
    phases: Sequence[Mapping[str, Any]],
    meets: Mapping[str, str],
    stands: Mapping[str, tuple[int, int, str]],
    suspects: Mapping[str, str],
    crowd: int,
) -> dict[str, str]:
    """Return by node whom it met, of two that arrived and did not continue though neither is suspected.

    In groups of two it is nobody where somebody is, or where more than a ``crowd`` stand still at once.
    """
    found = {
        node: other
        for node, other in meets.items()
        if stands[node][2] == ARRIVED
        and stands.get(other) == stands[node]
        and suspects.keys().isdisjoint((node, other))
    }
    in_groups = {node for node in found if phases[stands[node][0]]["kind"] != "pairs"}
    if suspects or len(in_groups) > crowd:
        found = {node: other for node, other in found.items() if node not in in_groups}
    return found


def _met_in_groups(
    phases: Sequence[Mapping[str, Any]], stands: Mapping[str, tuple[int, int, str]], nodes: Iterable[str]
) -> dict[str, str]:
    """Return one of those that wait for each of these nodes in a group or a training step."""
    found = {}
    for node in nodes:
        phase, step, _how = stands.get(node, (0, 0, ""))
        waiting = [other for other, stand in stands.items() if stand == (phase, step, ARRIVED) and other != node]
        if node in stands and waiting and phases[phase]["kind"] not in ("pairs", INSIDE):
            found[node] = waiting[0]
    return found


def _failed(item: Mapping[str, Any], group: tuple[str, ...]) -> dict[str, str]:
    """Return whose ranks told an error; one that most of them have is what all were given, not who has it."""
    failed = [rank for rank in _list(item.get("ranks")) if isinstance(rank, Mapping) and rank.get("error")]
    names = {str(rank.get("node")): str(rank["error"])[:200] for rank in failed if rank.get("node") in group}
    return names if len(names) <= _crowd(group) else {}


def _crowd(group: Sequence[str]) -> int:
    """Return of how many nodes it may be the doing of each; of more it is what all were given."""
    return max(2, len(group) // 5)


def _pair_map(
    phases: Sequence[Mapping[str, Any]], group: tuple[str, ...], stands: Mapping[str, tuple[int, int, str]]
) -> dict[str, str]:
    """Return with whom each node was to exchange data where it stands, in a pair or a group of two."""
    found: dict[str, str] = {}
    explicit: dict[tuple[int, int], dict[int, int]] = {}
    for index, node in enumerate(group):
        place = stands[node][:2] if node in stands else None
        if place is None or phases[place[0]]["kind"] not in ("pairs", "groups"):
            continue
        phase = phases[place[0]]
        if "shifts" not in phase:
            if place not in explicit:
                groups = phase["pairs"][place[1]] if "pairs" in phase else phase["groups"]
                met = [(int(each[0]), int(each[1])) for each in groups if len(each) == 2]
                explicit[place] = {**dict(met), **{other: one for one, other in met}}
            other = explicit[place].get(index)
        else:
            other = partner(len(group), phase["shifts"][place[1]], index)
        if other is not None:
            found[node] = group[other]
    return found
