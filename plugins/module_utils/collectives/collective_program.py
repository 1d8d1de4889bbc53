"""What a step of collectives does: a program of phases, each a set of disjoint groups that do the same at one time.

The control machine writes it, every rank reads the same; positions are those of the job's nodes, in the job's order.
"""

from __future__ import annotations

# ruff: noqa: UP045 -- hints are read at run time, by Python 3.9 too
import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Optional, TypeVar

from ..words.errors import MusterError
from ..words.reader import Count, Positive, ReadError, Rule, Text, one_of, read
from .pairing import partner, rounds_of

INSIDE, PAIRS, GROUPS, TRAIN = "inside", "pairs", "groups", "train"
KINDS = (INSIDE, PAIRS, GROUPS, TRAIN)
SENDRECV = "sendrecv"
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = "all_reduce", "all_gather", "reduce_scatter", "all_to_all"
COLLECTIVES = (SENDRECV, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL)
ELEMENT_BYTES = 4
# Linux takes no argument longer than 128 KiB (MAX_ARG_STRLEN), but many of them.
PART_CHARACTERS = 100_000


T = TypeVar("T")


class ProgramError(MusterError, ValueError):
    """A program that cannot be run; the text names the phase, what was found and what was expected."""


@dataclass(frozen=True)
class Training:
    """A small sharded transformer: ``layers`` of width ``hidden``."""

    hidden: int
    layers: int


@dataclass(frozen=True)
class Phase:
    """One part of a program. ``sizes`` in bytes as nccl-tests counts them; ``seconds`` bounds one permutation or group.

    ``permutations`` by step are disjoint pairs of positions, ``shifts`` those of the circle method instead;
    ``groups`` are disjoint lists of positions.
    """

    name: str
    kind: str
    collective: str
    sizes: tuple[int, ...]
    iterations: int
    warmup: int
    seconds: float
    shifts: tuple[int, ...] = ()
    permutations: tuple[tuple[tuple[int, int], ...], ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    training: Training | None = None

    @property
    def steps(self) -> int:
        """How many permutations the phase has, 1 for what has none."""
        return len(self.shifts) or len(self.permutations) if self.kind == PAIRS else 1

    def partner(self, step: int, nodes: int, position: int) -> int | None:
        """Return whom a position meets in a step, None where it sits out."""
        if self.shifts:
            return partner(nodes, self.shifts[step], position)
        for one, other in self.permutations[step]:
            if position in (one, other):
                return other if position == one else one
        return None

    def group_of(self, nodes: int, position: int) -> tuple[int, ...] | None:
        """Return the positions of the group in which a position takes part, None where it sits out."""
        if self.kind == INSIDE:
            return (position,)
        if self.kind == TRAIN:
            return tuple(range(nodes))
        return next((group for group in self.groups if position in group), None)

    def taking_part(self, step: int, nodes: int) -> frozenset[int]:
        """Return the positions that owe a measurement of a step."""
        if self.kind == PAIRS:
            if self.shifts:
                # Of an odd number the one whose position is the shift has nobody to meet.
                return frozenset(range(nodes)) - ({self.shifts[step]} if nodes % 2 else set())
            return frozenset(position for pair in self.permutations[step] for position in pair)
        if self.kind == GROUPS:
            return frozenset(position for group in self.groups for position in group)
        return frozenset(range(nodes))


_Size = Annotated[
    int, Rule(f"a multiple of {ELEMENT_BYTES} above 0", lambda size: size > 0 and size % ELEMENT_BYTES == 0)
]
_Some = Rule("a list with something in it", bool, of_value=True)
_Sizes = Annotated[
    tuple[_Size, ...], _Some, Rule("each size once", lambda sizes: len(set(sizes)) == len(sizes), of_value=True)
]
_Seconds = Annotated[float, Rule("{} above 0 and below a day", lambda value: bool(0 < value < 86400))]
_Pairs = Annotated[tuple[tuple[tuple[Count, Count], ...], ...], _Some]
_Groups = Annotated[tuple[Annotated[tuple[Count, ...], _Some], ...], _Some]


@dataclass(frozen=True)
class _Declared:
    """A phase as it is written; each kind has keys of its own."""

    name: Text
    kind: Annotated[str, Rule(one_of(KINDS), KINDS.__contains__)]
    seconds: _Seconds
    warmup: Count = 0
    # Of the kind pairs, either.
    shifts: Optional[Annotated[tuple[Count, ...], _Some]] = None
    pairs: Optional[_Pairs] = None


@dataclass(frozen=True)
class _Measured:
    """What phases have that measure a collective."""

    collective: Annotated[str, Rule(one_of(COLLECTIVES), COLLECTIVES.__contains__)]
    sizes: _Sizes
    iterations: Positive


@dataclass(frozen=True)
class _Grouped:
    groups: _Groups


@dataclass(frozen=True)
class _Trained:
    hidden: Positive
    layers: Positive
    steps: Positive


@dataclass(frozen=True)
class _Program:
    # Its key in a program.
    moves: Annotated[tuple[Any, ...], _Some]


def bus_factor(collective: str, ranks: int) -> float:
    """Return what bus bandwidth is of size over time, as nccl-tests defines it (its doc/PERFORMANCE.md)."""
    return {SENDRECV: 1.0, ALL_REDUCE: 2 * (ranks - 1) / ranks}.get(collective, (ranks - 1) / ranks)


def read_program(data: Any, nodes: int) -> tuple[Phase, ...]:
    """Return the phases of a program for ``nodes`` positions; raises ProgramError."""
    program = _read(_Program, data, "program")
    read_phases = tuple(_phase(phase, f"program.moves[{index}]", nodes) for index, phase in enumerate(program.moves))
    names = [phase.name for phase in read_phases]
    if len(set(names)) != len(names):
        raise ProgramError(f"phases are named {', '.join(names)}, expected each name once")
    return read_phases


def _read(kind: type[T], data: Any, where: str) -> T:
    try:
        return read(kind, data, where, extra=True)
    except ReadError as exc:
        raise ProgramError(str(exc)) from exc


def _phase(data: Any, where: str, nodes: int) -> Phase:
    declared = _read(_Declared, data, where)
    name, kind, warmup, seconds = declared.name, declared.kind, declared.warmup, declared.seconds
    where = f"phase {name}"
    if kind == TRAIN:
        train = _read(_Trained, data, where)
        training = Training(train.hidden, train.layers)
        return Phase(name, kind, TRAIN, (), train.steps, warmup, seconds, training=training)
    measured = _read(_Measured, data, where)
    if (kind == PAIRS) != (measured.collective == SENDRECV):
        raise ProgramError(f"phase {name}: collective is {measured.collective!r}, which {kind} cannot do")
    read_phase = Phase(
        name,
        kind,
        measured.collective,
        measured.sizes,
        measured.iterations,
        warmup,
        seconds,
        (declared.shifts or ()) if kind == PAIRS else (),
        (declared.pairs or ()) if kind == PAIRS else (),
        _read(_Grouped, data, where).groups if kind == GROUPS else (),
    )
    _check_positions(read_phase, nodes)
    return read_phase


def _check_positions(phase: Phase, nodes: int) -> None:
    if phase.kind == PAIRS and bool(phase.shifts) == bool(phase.permutations):
        raise ProgramError(f"phase {phase.name}: expected either shifts or pairs")
    for shift in phase.shifts:
        if shift >= rounds_of(nodes):
            raise ProgramError(f"phase {phase.name}: shift {shift!r}, expected less than {rounds_of(nodes)}")
    for sets in (*phase.permutations, *((phase.groups,) if phase.kind == GROUPS else ())):
        used = [position for each in sets for position in each]
        if not used or len(set(used)) != len(used) or max(used) >= nodes:
            raise ProgramError(f"phase {phase.name}: positions {str(sets)[:80]}, expected disjoint ones below {nodes}")


def pack_spec(spec: Mapping[str, Any]) -> list[str]:
    """Return the spec as arguments that a command line takes, in order; ``unpack_spec`` reads them back.

    Names and addresses of thousands of nodes, and the program over them, shrink to a few kilobytes.
    """
    text = json.dumps(spec, sort_keys=True, separators=(",", ":")).encode()
    packed = base64.urlsafe_b64encode(zlib.compress(text, 9)).decode("ascii")
    return [packed[at : at + PART_CHARACTERS] for at in range(0, len(packed), PART_CHARACTERS)]


def unpack_spec(parts: Sequence[str]) -> dict[str, Any]:
    """Return the spec in the arguments; raises ProgramError."""
    try:
        spec = json.loads(zlib.decompress(base64.urlsafe_b64decode("".join(parts).encode())))
    except (binascii.Error, zlib.error, ValueError) as exc:
        raise ProgramError(f"the spec cannot be unpacked: {exc}") from exc
    if not isinstance(spec, dict):
        raise ProgramError(f"the spec is {type(spec).__name__}, expected a mapping")
    return spec
