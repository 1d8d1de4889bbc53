"""One rank's run of a program: each permutation begins with all together, each exchange is timed and verified."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..words.errors import MusterError
from .collective_data import Pattern, contribution, total_contribution
from .collective_guard import DONE, GATHERING, GATHERING_SPARE_SECONDS, MEETING, OWN, Guard
from .collective_program import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, ELEMENT_BYTES, PAIRS, REDUCE_SCATTER, TRAIN, Phase
from .collective_ranks import Ranks
from .collective_results import COMPUTE, LAST, NS, NS_P99, WRONG, keys_of
from .collective_stalls import GATHERING_SIZE, RankStalls
from .collective_train import train


class ProgramRunError(MusterError):
    """The ranks are not those that the program is for; says what was found and what was expected."""


@dataclass(frozen=True)
class Group:
    """Ranks in ascending order, and what torch knows them by; None stands for all."""

    ranks: tuple[int, ...]
    handle: Any

    def index(self, rank: int) -> int:
        """Return where a rank stands in the group."""
        return self.ranks.index(rank)


@dataclass(frozen=True)
class Exercise:
    """What is filled, how those concerned begin together, what is timed, and how its outcome is checked."""

    sent: Any
    ready: Callable[[], None]
    run: Callable[[], None]
    wrong: Callable[[int], Any]


def worst_of(nanoseconds: Sequence[int]) -> int:
    """Return the 99th percentile, which of fewer than a hundred is the worst."""
    ordered = sorted(nanoseconds)
    return ordered[-(len(ordered) // 100) - 1]


def _times(nanoseconds: Sequence[int]) -> dict[str, int]:
    return {NS: round(statistics.median(nanoseconds)), NS_P99: worst_of(nanoseconds)}


class ProgramRun:
    """This rank among all; ``nodes`` are the job's in its order, ``local`` is this rank's number on its node."""

    def __init__(self, ranks: Ranks, nodes: tuple[str, ...], node: str, local: int, guard: Guard) -> None:
        self.ranks = ranks
        self.nodes = nodes
        self.position = nodes.index(node)
        self.local = local
        self.guard = guard
        self.pattern = Pattern(ranks.torch, ranks.device)
        self.ranks_of: list[list[int]] = []
        self._groups: dict[tuple[Any, ...], Group] = {}
        self._buffers: dict[str, Any] = {}
        self.stalls = RankStalls()
        guard.report["stalls"] = self.stalls.told

    def run(self, phases: Sequence[Phase], connect_seconds: float) -> None:
        """Go through all phases; results gather in the guard's report as they are measured."""
        self.guard.at(phases[0].name, 0, GATHERING, connect_seconds)
        self.guard.report["phase"] = "meeting of all ranks"
        self.ranks_of = self._met()
        for phase in phases:
            self.guard.report["phase"] = f"phase {phase.name}"
            for step in range(phase.steps):
                # All begin together, so that a slow pair costs the others no measurement.
                self.guard.at(phase.name, step, GATHERING, phase.seconds + GATHERING_SPARE_SECONDS)
                self.stalls.note(phase.name, step, GATHERING_SIZE, [self.ranks.waited(self.ranks.barrier)])
                if phase.kind == PAIRS:
                    self._pair(phase, step)
                else:
                    self._gather_group(phase, connect_seconds)
            self._buffers.clear()
        self.guard.at(phases[-1].name, phases[-1].steps - 1, DONE, phases[-1].seconds + GATHERING_SPARE_SECONDS)
        self.ranks.barrier()

    def _met(self) -> list[list[int]]:
        """Return by position the ranks of each node in their local order; raises ProgramRunError."""
        count, total = len(self.nodes), self.ranks.count
        found: list[dict[int, int]] = [{} for _ in self.nodes]
        for rank, (position, local) in enumerate(self.ranks.table([self.position, self.local]).tolist()):
            found[position][local] = rank
        each = total // count
        for position, ranks in enumerate(found):
            if sorted(ranks) != list(range(each)) or each * count != total:
                had = f"local ranks {sorted(ranks)} of {total} on {count} nodes"
                raise ProgramRunError(f"{self.nodes[position]} has {had}, expected as many on each")
        return [[ranks[local] for local in sorted(ranks)] for ranks in found]

    def _pair(self, phase: Phase, step: int) -> None:
        other = phase.partner(step, len(self.nodes), self.position)
        if other is None:
            for _ in phase.sizes:
                self._add(phase, dict.fromkeys(keys_of(phase)))
            return
        self.guard.at(phase.name, step, OWN, phase.seconds)
        peer = self.ranks_of[other][self.local]
        for size in phase.sizes:
            self._measure(phase, step, size, self._exchange(peer, size // ELEMENT_BYTES))

    def _exchange(self, peer: int, count: int) -> Exercise:
        sent, received = self._buffer("sent", count), self._buffer("received", count)
        token, answer = self._buffer("token", 1), self._buffer("answer", 1)
        return Exercise(
            sent,
            # Both of a pair start together: checking the last exchange takes one longer than the other.
            lambda: self.ranks.exchange(peer, token, answer),
            lambda: self.ranks.exchange(peer, sent, received),
            lambda iteration: self.pattern.wrong(received, [contribution(peer)], 0, iteration),
        )

    def _gather_group(self, phase: Phase, connect_seconds: float) -> None:
        self.guard.at(phase.name, 0, MEETING, connect_seconds)
        positions = phase.group_of(len(self.nodes), self.position)
        group = self._group_of(phase, positions)
        if positions is None:
            for _ in phase.sizes:
                self._add(phase, dict.fromkeys(keys_of(phase)))
            return
        self.ranks.barrier(group.handle)
        self.guard.at(phase.name, 0, OWN, phase.seconds)
        if phase.kind == TRAIN:
            seen = train(self.ranks, self.guard, phase, group.handle, group.ranks)
            last = self._last(group, seen.compute)
            compute = round(statistics.median(seen.compute))
            self._add(phase, {**_times(seen.steps), WRONG: seen.wrong, LAST: last, COMPUTE: compute})
            self.guard.report["results"][phase.name]["bytes"] = seen.size
            self.stalls.note(phase.name, 0, seen.size, seen.waited)
            return
        for size in phase.sizes:
            self._measure(phase, 0, size, self._collective(phase.collective, group, size), group)

    def _group_of(self, phase: Phase, positions: Sequence[int] | None) -> Group:
        """Return this rank's group of a phase, the same for all phases that have the same groups.

        Its members alone make it: thousands of others need not hear of it. But torch names a group by its ranks and by
        how many groups each of them is in, and no name may come twice, so that nobody gives one back and who sits out
        makes one of its own.
        """
        grouped = (phase.kind, phase.groups)
        if grouped not in self._groups:
            ranks = [rank for each in positions for rank in self.ranks_of[each]] if positions else [self.ranks.me]
            key = tuple(sorted(ranks))
            whole = len(key) == self.ranks.count
            handle = None if whole else self.ranks.distributed.new_group(list(key), use_local_synchronization=True)
            self._groups[grouped] = Group(key, handle)
        return self._groups[grouped]

    def _collective(self, name: str, group: Group, size: int) -> Exercise:
        """Return the exercise of one size. As nccl-tests counts: what does not divide evenly is left out."""
        ranks, pattern, handle = self.ranks, self.pattern, group.handle
        me, block = group.index(ranks.me), max(1, size // ELEMENT_BYTES // len(group.ranks))
        total = [total_contribution(group.ranks)]
        each = [contribution(rank) for rank in group.ranks]

        def ready() -> None:
            ranks.barrier(handle)

        if name == ALL_REDUCE:
            tensor = self._buffer("sent", size // ELEMENT_BYTES)
            return Exercise(
                tensor,
                ready,
                lambda: ranks.distributed.all_reduce(tensor, group=handle),
                lambda iteration: pattern.wrong(tensor, total, 0, iteration),
            )
        whole = block * len(group.ranks)
        if name == ALL_GATHER:
            sent, received = self._buffer("sent", block), self._buffer("received", whole)
            return Exercise(
                sent,
                ready,
                lambda: ranks.all_gather(received, sent, group=handle),
                lambda iteration: pattern.wrong(received, each, 0, iteration),
            )
        sent = self._buffer("sent", whole)
        if name == REDUCE_SCATTER:
            received = self._buffer("received", block)
            return Exercise(
                sent,
                ready,
                lambda: ranks.reduce_scatter(received, sent, group=handle),
                lambda iteration: pattern.wrong(received, total, me * block, iteration),
            )
        assert name == ALL_TO_ALL
        received = self._buffer("received", whole)
        return Exercise(
            sent,
            ready,
            lambda: ranks.distributed.all_to_all_single(received, sent, group=handle),
            lambda iteration: pattern.wrong(received, each, me * block, iteration),
        )

    def _measure(self, phase: Phase, step: int, size: int, exercise: Exercise, group: Group | None = None) -> None:
        """Run warm-up and iterations of one size, each filled, begun together, timed and checked."""
        times: list[int] = []
        waits: list[int] = []
        wrong = 0
        for iteration in range(-phase.warmup, phase.iterations):
            self.guard.stage(OWN)
            self.pattern.fill(exercise.sent, self.ranks.me, iteration)
            self.ranks.synchronize()
            self.guard.stage(MEETING)
            wait = self.ranks.waited(exercise.ready)
            taken = self.ranks.timed(exercise.run)
            self.guard.stage(OWN)
            wrong += int(exercise.wrong(iteration).item())
            if iteration >= 0:
                waits.append(wait)
                times.append(taken)
        self.stalls.note(phase.name, step, size, waits, times if group is None else ())
        self.guard.stage(MEETING)
        last = {} if group is None else {LAST: self._last(group, times)}
        self._add(phase, {**_times(times), WRONG: wrong, **last})

    def _last(self, group: Group, times: Sequence[int]) -> int:
        """Return in how many iterations this rank was the slowest of its group."""
        slowest = self.ranks.table(times, group.handle, len(group.ranks)).argmax(dim=0)
        return int((slowest == group.index(self.ranks.me)).sum().item())

    def _buffer(self, name: str, count: int) -> Any:
        """Return the beginning of a buffer that grows with the sizes of a phase."""
        held = self._buffers.get(name)
        if held is None or held.numel() < count:
            self._buffers.pop(name, None)
            torch = self.ranks.torch
            held = self._buffers[name] = torch.zeros(count, dtype=torch.float32, device=self.ranks.device)
        return held[:count]

    def _add(self, phase: Phase, numbers: dict[str, int | None]) -> None:
        """Keep one measurement: a number of each kind at the end of the phase's lists."""
        told = self.guard.report["results"].setdefault(phase.name, {})
        for key, number in numbers.items():
            told.setdefault(key, []).append(number)
