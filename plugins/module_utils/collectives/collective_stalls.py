"""Time that collectives lost between what is timed and in it: what each rank saw, and what all together say of it.

A rank that waits at the beginning of an iteration may wait for a network, or for others that are busy. Of those who
begin together the last one waits for nobody: what every one of them waited was lost on the way. An exchange of two that
took longer than others of its kind did so whichever of the two saw it. What groups take is judged as it is timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from .collective_program import GROUPS, INSIDE, PAIRS, Phase

# Less than this is not told: on a busy host any wait takes as much.
LEAST_NS = 10_000_000
# Of each kind a rank tells the longest, so many in a phase; of two nodes, or a group, so many are kept.
MOST_TOLD, MOST_KEPT = 256, 64
WAITED, LATE = "waited", "late"
# The size that stands for the meeting of all ranks before each permutation or group.
GATHERING_SIZE = 0

# Step, size in bytes, iteration.
Meeting = tuple[int, int, int]
# By position of the node and local rank: nanoseconds.
Seen = dict[tuple[int, int], int]


class RankStalls:
    """What one rank saw. ``told`` is its part of the answer: by phase and kind lists of step, bytes, iteration, ns."""

    def __init__(self) -> None:
        self.told: dict[str, dict[str, list[list[int]]]] = {}

    def note(self, phase: str, step: int, size: int, waited: Sequence[int], taken: Sequence[int] = ()) -> None:
        """Take the nanoseconds of each iteration: how long it waited for all to begin, and how long it took then."""
        usual = round(statistics.median(taken)) if taken else 0
        for kind, values in ((WAITED, waited), (LATE, [each - usual for each in taken])):
            for iteration, value in enumerate(values):
                if value >= LEAST_NS:
                    kept = self.told.setdefault(phase, {}).setdefault(kind, [])
                    kept.append([step, size, iteration, value])
                    if len(kept) > MOST_TOLD:
                        kept.remove(min(kept, key=lambda each: each[3]))


class Stalls:
    """What the ranks of one job saw, told together; there are ``each`` on a node."""

    def __init__(self, group: Sequence[str], phases: Sequence[Phase], each: int) -> None:
        self.group = list(group)
        self.meets = {phase.name: _Meets(phase, len(group), each) for phase in phases}
        self.position = {node: position for position, node in enumerate(group)}
        self._seen: dict[tuple[str, str], dict[Meeting, Seen]] = {}

    def take(self, node: str, local: int, told: Any) -> str:
        """Keep what one rank saw; return what is wrong with it, empty if nothing is."""
        if not isinstance(told, Mapping) or not all(isinstance(kinds, Mapping) for kinds in told.values()):
            return f"unreadable stalls {str(told)[:80]}"
        for name, kinds in told.items():
            for kind, entries in kinds.items():
                if name not in self.meets or kind not in (WAITED, LATE) or not isinstance(entries, list):
                    return f"stalls of {name!r:.40}, {kind!r:.40} that nobody asked for"
                for entry in entries[:MOST_TOLD]:
                    if not isinstance(entry, list) or len(entry) != 4 or not all(map(_is_count, entry)):
                        return f"an unreadable stall {str(entry)[:80]}"
                    step, size, iteration, lost = entry
                    seen = self._seen.setdefault((name, kind), {}).setdefault((step, size, iteration), {})
                    seen[self.position[node], local] = lost
        return ""

    def all(self) -> list[dict[str, Any]]:
        """Return by phase, and by the nodes that met, how often they did, and what was lost then, the longest first."""
        found: dict[tuple[str, tuple[int, ...]], dict[Meeting, int]] = {}
        for (name, kind), meetings in sorted(self._seen.items()):
            for meeting, seen in sorted(meetings.items()):
                for nodes, lost in self.meets[name].lost(kind, meeting, seen):
                    kept = found.setdefault((name, nodes), {})
                    kept[meeting] = max(lost, kept.get(meeting, 0))
        return [
            {
                "move": name,
                "nodes": [self.group[position] for position in nodes],
                "meetings": self.meets[name].count(nodes),
                "lost_ns": sorted(lost.values(), reverse=True)[:MOST_KEPT],
            }
            for (name, nodes), lost in found.items()
        ]


class _Meets:
    """Who meets whom in a phase, by the positions of the job's nodes."""

    def __init__(self, phase: Phase, nodes: int, each: int) -> None:
        self.phase, self.each = phase, each
        self.everybody = tuple(range(nodes))

    def lost(self, kind: str, meeting: Meeting, seen: Seen) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield what was lost in a meeting by the ranks that met in it, and on which nodes these are."""
        step, size, _iteration = meeting
        if size != GATHERING_SIZE and self.phase.kind == PAIRS:
            for (position, local), own in seen.items():
                other = self._partner(step, position)
                theirs = 0 if other is None else seen.get((other, local), 0)
                lost = max(own, theirs) if kind == LATE else min(own, theirs)
                if other is not None and lost:
                    yield (min(position, other), max(position, other)), lost
        elif kind == WAITED:
            waited: dict[tuple[int, ...], list[int]] = {}
            for (position, _local), own in seen.items():
                waited.setdefault(self.everybody if size == GATHERING_SIZE else self._group(position), []).append(own)
            for nodes, values in waited.items():
                if len(values) == len(nodes) * self.each:
                    yield nodes, min(values)

    def count(self, nodes: tuple[int, ...]) -> int:
        """Return how often these nodes meet in the phase."""
        each, gathered = self.phase.iterations * max(1, len(self.phase.sizes)), self.phase.steps
        if self.phase.kind == PAIRS:
            steps = range(self.phase.steps) if len(nodes) == 2 else ()
            each *= sum(self._partner(step, nodes[0]) == nodes[1] for step in steps)
        return each + (gathered if nodes == self.everybody else 0)

    def _partner(self, step: int, position: int) -> int | None:
        if step >= self.phase.steps:
            return None
        if self.phase.shifts:
            return self.phase.partner(step, len(self.everybody), position)
        return self._partners[step].get(position)

    @cached_property
    def _partners(self) -> list[dict[int, int]]:
        return [{**dict(pairs), **{other: one for one, other in pairs}} for pairs in self.phase.permutations]

    def _group(self, position: int) -> tuple[int, ...]:
        if self.phase.kind == INSIDE:
            return (position,)
        return self._groups.get(position, ()) if self.phase.kind == GROUPS else self.everybody

    @cached_property
    def _groups(self) -> dict[int, tuple[int, ...]]:
        return {position: group for group in self.phase.groups for position in group}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
