"""Rooms (packages of ``plugins``), which of them import which, and what ``arrows.yml`` allows."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
ARROWS = Path(__file__).with_name("arrows.yml")
# Folders with rooms inside; every other folder of plugins is one room.
FLOORS = ("module_utils", "plugin_utils")
PACKAGE = "ansible_collections.muster.cluster.plugins."
# A module named in a text: ``commands.judge_command:main`` of a table of subcommands, ``..host.nvml_program``.
_NAMED = re.compile(r"([a-z_]+(?:\.[a-z_0-9]+)+):[a-z_]+|\.\.([a-z_]+(?:\.[a-z_0-9]+)+)")


@dataclass(frozen=True)
class Room:
    """A line of ``arrows.yml``: what the room holds, which it imports, and which it imports by a computed name."""

    holds: str
    imports: frozenset[str]
    loads: frozenset[str] = frozenset()


# From room and to room, with the places (``FILE:LINE``) that make the arrow.
Arrows = Mapping[tuple[str, str], Sequence[str]]


def allowed(path: Path = ARROWS) -> dict[str, Room]:
    """Return the rooms of ``arrows.yml`` by name."""
    return {
        name: Room(line["holds"], frozenset(line["imports"]), frozenset(line.get("loads", ())))
        for name, line in yaml.safe_load(path.read_text(encoding="utf-8")).items()
    }


def from_the_bottom(rooms: Mapping[str, Room]) -> list[str]:
    """Return the names in the file's order, but every room after those it imports; raises ValueError in a cycle."""
    found: list[str] = []
    while left := [name for name in rooms if name not in found]:
        ready = (name for name in left if not (rooms[name].imports | rooms[name].loads) & {*left})
        following = next(ready, None)
        if following is None:
            raise ValueError(f"a cycle among {', '.join(left)}")
        found.append(following)
    return found


def room_of(path: Path) -> str:
    """Return the room of a file, given relative to ``plugins``."""
    if path.parts[0] not in FLOORS:
        return path.parts[0]
    return "/".join(path.with_suffix("").parts[:2])


def files_of(plugins: Path) -> list[Path]:
    """Return the Python files of ``plugins``, relative to it, in order."""
    return sorted(path.relative_to(plugins) for path in plugins.rglob("*.py"))


def arrows_of(plugins: Path) -> Arrows:
    """Return what the rooms import of each other: relative and absolute imports at any depth, and modules by name."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in files_of(plugins):
        for line, target in _imports(plugins, path):
            if room_of(target) != room_of(path):
                found[room_of(path), room_of(target)].append(f"plugins/{path.as_posix()}:{line}")
    return found


def _imports(plugins: Path, path: Path) -> Iterator[tuple[int, Path]]:
    """Yield line and file of every module of the collection that a file imports."""
    for node in ast.walk(ast.parse((plugins / path).read_bytes(), str(path))):
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            if node.level:
                above = path.parts[: len(path.parts) - node.level]
                yield from ((node.lineno, each) for each in _modules(plugins, [*above, *_parts(node.module)], names))
            elif f"{node.module}.".startswith(PACKAGE):
                parts = _parts(f"{node.module}."[len(PACKAGE) : -1])
                yield from ((node.lineno, each) for each in _modules(plugins, parts, names))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith(PACKAGE):
                    parts = _parts(alias.name[len(PACKAGE) :])
                    yield from ((node.lineno, each) for each in _modules(plugins, parts, []))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and path.parts[0] == FLOORS[0]:
            named = _NAMED.fullmatch(node.value)
            target = Path(FLOORS[0], *(named[1] or named[2]).split(".")).with_suffix(".py") if named else None
            if target and (plugins / target).is_file():
                yield node.lineno, target


def _parts(module: str | None) -> list[str]:
    return module.split(".") if module else []


def _modules(plugins: Path, place: Sequence[str], names: Iterable[str]) -> Iterator[Path]:
    """Yield the files that ``from PLACE import NAMES`` reads; raises ValueError where it reads none."""
    inside = [Path(*place, f"{name}.py") for name in names]
    there = [path for path in inside if (plugins / path).is_file()]
    module = Path(*place[:-1], f"{place[-1]}.py") if place else Path()
    if (plugins / module).is_file():
        there = [module]
    if not there:
        raise ValueError(f"import of {'.'.join(place)}: there is no such module in plugins")
    yield from there


def cycle_in(arrows: Iterable[tuple[str, str]]) -> list[str]:
    """Return the rooms of one cycle, the first one again at the end; nothing where there is none."""
    after: dict[str, list[str]] = defaultdict(list)
    for start, end in sorted(arrows):
        after[start].append(end)
    done: set[str] = set()

    def visit(room: str, way: list[str]) -> list[str]:
        if room in way:
            return [*way[way.index(room) :], room]
        if room in done:
            return []
        found = next((cycle for each in after[room] if (cycle := visit(each, [*way, room]))), [])
        done.add(room)
        return found

    return next((cycle for room in sorted(after) if (cycle := visit(room, []))), [])


def cycles(arrows: Iterable[tuple[str, str]]) -> int:
    """Return how many groups of rooms there are that reach each other in a circle."""
    pairs = set(arrows)
    reach = {room: _reached(room, pairs) for pair in pairs for room in pair}
    circles = {room: frozenset(other for other in reach[room] if room in reach[other]) for room in reach}
    return len({circle for circle in circles.values() if circle})


def _reached(room: str, pairs: set[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    waiting = [room]
    while waiting:
        here = waiting.pop()
        new = {end for start, end in pairs if start == here} - found
        found |= new
        waiting += new
    return found


def faults(plugins: Path, rooms: Mapping[str, Room], file: str = "tests/architecture/arrows.yml") -> list[str]:
    """Return what is wrong with the arrows, each with its place; nothing where all is as ``rooms`` says."""
    used = arrows_of(plugins)
    there = {room_of(path) for path in files_of(plugins)}
    found = [f"{file}: {name} has no line, expected what it holds and imports" for name in sorted(there - {*rooms})]
    found += [f"{file}: {name} has a line, but no file is in it" for name in sorted({*rooms} - there)]
    for (start, end), places in sorted(used.items()):
        room = rooms.get(start)
        if room and end not in room.imports | room.loads:
            found += [f"{place}: {start} imports {end}, which {file} does not allow" for place in places]
    for start, room in rooms.items():
        unused = sorted(end for end in room.imports if (start, end) not in used)
        found += [f"{file}: {start} may import {end}, but no longer does" for end in unused]
    every = {*used, *((start, end) for start, room in rooms.items() for end in room.imports | room.loads)}
    cycle = cycle_in(every)
    if cycle:
        places = [used.get(pair, [file])[0] for pair in pairwise(cycle)]
        found.append(f"{' -> '.join(cycle)} is a cycle, by {', '.join(places)}")
    return found
