"""What a step of collectives does: a program of moves, each a set of disjoint groups that do the same at one time.

The control machine writes it, every rank reads the same; positions are those of the job's nodes, in the job's order.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..words.errors import MusterError
from .pairing import partner, rounds_of

INSIDE, PAIRS, GROUPS, TRAIN = "inside", "pairs", "groups", "train"
KINDS = (INSIDE, PAIRS, GROUPS, TRAIN)
SENDRECV = "sendrecv"
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = "all_reduce", "all_gather", "reduce_scatter", "all_to_all"
COLLECTIVES = (SENDRECV, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL)
ELEMENT_BYTES = 4
# Linux takes no argument longer than 128 KiB (MAX_ARG_STRLEN), but many of them.
PART_CHARACTERS = 100_000


class ProgramError(MusterError, ValueError):
    """A program that cannot be walked; the text names the move, what was found and what was expected."""


@dataclass(frozen=True)
class Training:
    """A small sharded transformer: ``layers`` of width ``hidden``."""

    hidden: int
    layers: int


@dataclass(frozen=True)
class Move:
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
        """How many permutations the move has, 1 for what has none."""
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


def read_program(data: Any, nodes: int) -> tuple[Move, ...]:
    """Return the moves of a program for ``nodes`` positions; raises ProgramError."""
    moves = data.get("moves") if isinstance(data, Mapping) else None
    if not isinstance(moves, list) or not moves:
        raise ProgramError(f"program is {str(data)[:80]}, expected a mapping with moves")
    read = tuple(_move(move, nodes) for move in moves)
    names = [move.name for move in read]
    if len(set(names)) != len(names):
        raise ProgramError(f"moves are named {', '.join(names)}, expected each name once")
    return read


def _move(data: Any, nodes: int) -> Move:
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str) or not data["name"]:
        raise ProgramError(f"a move is {str(data)[:80]}, expected a mapping with a name")
    name, kind = data["name"], data.get("kind")
    if kind not in KINDS:
        raise ProgramError(f"move {name}: kind is {kind!r}, expected one of {', '.join(KINDS)}")
    warmup = _whole(data, "warmup", 0) if "warmup" in data else 0
    if kind == TRAIN:
        training = Training(_whole(data, "hidden", 1), _whole(data, "layers", 1))
        steps = _whole(data, "steps", 1)
        return Move(name, kind, TRAIN, (), steps, warmup, _seconds(data), training=training)
    collective = data.get("collective")
    if collective not in COLLECTIVES or (kind == PAIRS) != (collective == SENDRECV):
        raise ProgramError(f"move {name}: collective is {collective!r}, which {kind} cannot do")
    sizes = _sizes(data)
    iterations = _whole(data, "iterations", 1)
    read = Move(
        name,
        kind,
        collective,
        sizes,
        iterations,
        warmup,
        _seconds(data),
        tuple(_list(data, "shifts")) if kind == PAIRS and "shifts" in data else (),
        _permutations(data) if kind == PAIRS and "pairs" in data else (),
        _groups(data) if kind == GROUPS else (),
    )
    _check_positions(read, nodes)
    return read


def _check_positions(move: Move, nodes: int) -> None:
    if move.kind == PAIRS and bool(move.shifts) == bool(move.permutations):
        raise ProgramError(f"move {move.name}: expected either shifts or pairs")
    for shift in move.shifts:
        if not _is_whole(shift) or not 0 <= shift < rounds_of(nodes):
            raise ProgramError(f"move {move.name}: shift {shift!r}, expected less than {rounds_of(nodes)}")
    for sets in (*move.permutations, *((move.groups,) if move.kind == GROUPS else ())):
        used = [position for each in sets for position in each]
        if not used or len(set(used)) != len(used) or not all(_is_whole(each) and 0 <= each < nodes for each in used):
            raise ProgramError(f"move {move.name}: positions {str(sets)[:80]}, expected disjoint ones below {nodes}")


def _permutations(data: Mapping[str, Any]) -> tuple[tuple[tuple[int, int], ...], ...]:
    found = []
    for permutation in _list(data, "pairs"):
        if not isinstance(permutation, list) or not all(isinstance(p, list) and len(p) == 2 for p in permutation):
            raise ProgramError(f"move {data['name']}: permutation {str(permutation)[:80]}, expected pairs of positions")
        found.append(tuple((pair[0], pair[1]) for pair in permutation))
    return tuple(found)


def _groups(data: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    groups = _list(data, "groups")
    if not all(isinstance(group, list) and group for group in groups):
        raise ProgramError(f"move {data['name']}: groups {str(groups)[:80]}, expected lists of positions")
    return tuple(tuple(group) for group in groups)


def _sizes(data: Mapping[str, Any]) -> tuple[int, ...]:
    sizes = _list(data, "sizes")
    if not all(_is_whole(size) and size > 0 and size % ELEMENT_BYTES == 0 for size in sizes) or len(set(sizes)) != len(
        sizes
    ):
        raise ProgramError(f"move {data['name']}: sizes {str(sizes)[:80]}, expected multiples of {ELEMENT_BYTES}, once")
    return tuple(sizes)


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list) or not value:
        raise ProgramError(f"move {data['name']}: {key} is {str(value)[:80]}, expected a list")
    return value


def _whole(data: Mapping[str, Any], key: str, least: int) -> int:
    value = data.get(key)
    if not _is_whole(value) or int(value or 0) < least:
        raise ProgramError(f"move {data['name']}: {key} is {value!r}, expected a whole number of at least {least}")
    return int(value or 0)


def _seconds(data: Mapping[str, Any]) -> float:
    value = data.get("seconds")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 86400:
        raise ProgramError(f"move {data['name']}: seconds is {value!r}, expected a number above 0")
    return float(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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
