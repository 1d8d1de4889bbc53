"""What ranks measured, phase by phase: one rank's answer is checked against the program, all together become results.

A rank tells each phase's numbers in the program's order, step by step and size by size within a step, with nothing
where it sat out. What it had not come to when a step ended early is missing at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .collective_program import PAIRS, TRAIN, Phase

# What a rank tells of each measurement: its own time, how many elements came out wrong, and in how many iterations it
# was the slowest of its group.
NS, NS_P99, WRONG, LAST, COMPUTE = "ns", "ns_p99", "wrong", "last", "compute_ns"


def cells(phase: Phase) -> int:
    """Return how many measurements a phase has."""
    return phase.steps * (len(phase.sizes) or 1)


def keys_of(phase: Phase) -> tuple[str, ...]:
    """Return what ranks tell of each of a phase's measurements."""
    return (NS, NS_P99, WRONG, *(() if phase.kind == PAIRS else (LAST,)), *((COMPUTE,) if phase.kind == TRAIN else ()))


class Results:
    """The measurements of all ranks of one job; ``group`` are its nodes."""

    def __init__(self, group: Sequence[str], phases: Sequence[Phase], ranks_per_node: int) -> None:
        self.group = list(group)
        self.phases = {phase.name: phase for phase in phases}
        self.ranks_per_node = ranks_per_node
        self.position = {node: position for position, node in enumerate(group)}
        nodes = len(self.group)
        self._part = {phase.name: [phase.taking_part(step, nodes) for step in range(phase.steps)] for phase in phases}
        self._bytes: dict[str, int] = {}
        # By phase, kind of number and cell: for each node its ranks' numbers.
        self._told: dict[str, dict[str, list[list[list[int | None] | None]]]] = {
            phase.name: {key: [[None] * nodes for _ in range(cells(phase))] for key in keys_of(phase)}
            for phase in phases
        }

    def take(self, node: str, local: int, data: Any, ended_early: bool) -> str:
        """Keep one rank's measurements; return the first thing that is wrong with them, empty if nothing is."""
        if not isinstance(data, Mapping):
            return f"results that are {type(data).__name__}, expected a mapping"
        unknown = sorted(set(map(str, data)) - set(self.phases))
        if unknown:
            return f"results of {', '.join(unknown)[:80]}, which nobody asked for"
        for name, phase in self.phases.items():
            if name not in data and not ended_early:
                return f"no results of {name}"
            fault = self._take(self.position[node], local, phase, data[name], ended_early) if name in data else ""
            if fault:
                return f"{name}: {fault}"
        return ""

    def _take(self, position: int, local: int, phase: Phase, data: Any, ended_early: bool) -> str:
        keys, count = keys_of(phase), cells(phase)
        if not isinstance(data, Mapping) or not all(isinstance(data.get(key), list) for key in keys):
            return f"unreadable measurements {str(data)[:80]}"
        # A rank that was ended in the middle of writing one down has it in some lists and not in others.
        told = min(len(data[key]) for key in keys)
        most = max(len(data[key]) for key in keys)
        if most > count or (told < count and not ended_early):
            return f"{told} measurements, expected {count}"
        if phase.kind == TRAIN and told:
            size = data.get("bytes")
            if not isinstance(size, int) or self._bytes.setdefault(phase.name, size) != size:
                return f"gradients of {size!r} bytes, expected {self._bytes.get(phase.name, 'a number')}"
        part, sizes = self._part[phase.name], len(phase.sizes) or 1
        for cell in range(told):
            values = {key: data[key][cell] for key in keys}
            takes_part = position in part[cell // sizes]
            fault = _fault(phase, values) if takes_part else "" if set(values.values()) == {None} else "took no part"
            if fault:
                return f"measurement {cell}: {fault}"
            for key, value in values.items() if takes_part else ():
                row = self._told[phase.name][key][cell]
                held = row[position]
                if held is None:
                    held = row[position] = [None] * self.ranks_per_node
                held[local] = value
        return ""

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield what was measured, as it is kept; a node counts where all of its ranks have finished."""
        for name, phase in self.phases.items():
            told = self._told[name]
            for cell in range(cells(phase)):
                step, size = divmod(cell, len(phase.sizes) or 1)
                times = [_whole(values) for values in told[NS][cell]]
                if not any(times):
                    continue
                result: dict[str, Any] = {
                    "move": name,
                    "step": step,
                    "bytes": phase.sizes[size] if phase.sizes else self._bytes[name],
                    NS: times,
                    NS_P99: [_whole(values) for values in told[NS_P99][cell]],
                    WRONG: {
                        node: [local for local, count in enumerate(values) if count]
                        for node, values in zip(self.group, told[WRONG][cell])
                        if values and any(values)
                    },
                }
                if LAST in told:
                    late = {node: sum(each or 0 for each in values or ()) for node, values in self._named(name, cell)}
                    result[LAST] = {node: count for node, count in late.items() if count}
                if COMPUTE in told:
                    result[COMPUTE] = [_whole(values) for values in told[COMPUTE][cell]]
                yield result

    def _named(self, name: str, cell: int) -> Iterator[tuple[str, list[int | None] | None]]:
        return zip(self.group, self._told[name][LAST][cell])


def _fault(phase: Phase, values: Mapping[str, Any]) -> str:
    """Return what is wrong with one measurement of a node that took part, empty if nothing is."""
    for key, value in values.items():
        if not _is_count(value, 0 if key in (WRONG, LAST) else 1):
            return f"unreadable {key} {str(value)[:40]}"
    if values[NS_P99] < values[NS]:
        return f"the worst iteration took {values[NS_P99]} ns, less than the median of {values[NS]} ns"
    if values.get(LAST, 0) > phase.iterations:
        return f"the slowest in {values[LAST]} of {phase.iterations} iterations"
    return ""


def _whole(values: list[int | None] | None) -> list[int | None] | None:
    return values if values is not None and None not in values else None


def _is_count(value: Any, least: int) -> bool:
    # Nothing takes a day, and a number beyond what a database holds is no measurement.
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**53
