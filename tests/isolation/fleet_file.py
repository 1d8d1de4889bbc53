"""Simulated fleets as files: a line of JSON that says how large the fleet is, then one for each fault.

    {"hosts": 32, "rails": 8, "hosts_per_rack": 4, "noise": 0.01}
    {"slow": ["h03"], "by": 0.1, "expect": "rejected"}
    {"slow": ["r001"], "to": ["r002"], "by": 0.2, "expect": "held", "expect_to": "held"}

The format is described in docs/isolation.md. The key that names the fault says who has it: hosts, racks or pods.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from .faults import (
    ABSENT,
    ARRIVED,
    EXPECTED,
    GROUPS,
    HELD,
    INSIDE,
    WALK,
    Clock,
    Dead,
    Fault,
    Hangs,
    Slow,
    Tails,
    WrongData,
)
from .fleet import COLLECTIVES, PAIRS, SIZES, Spec

KINDS: dict[str, type] = {
    "slow": Slow,
    "hangs": Hangs,
    "dead": Dead,
    "wrong": WrongData,
    "clock": Clock,
    "tails": Tails,
}
# The field that stands under the key of its kind.
_FIRST = {"tails": "share"}
_SPEC = {"hosts_per_rack": "rack", "racks_per_pod": "pod"}
OPERATIONS = (PAIRS, *COLLECTIVES, INSIDE)
LARGEST, MOST_RAILS = 4096, 16


class FleetLineError(ValueError):
    """A line of a fleet's file cannot be used: file, line, key, what was found and what was expected."""


@dataclass(frozen=True)
class Wanted:
    """What a value has to be, in words, and whether it is."""

    words: str
    holds: Callable[[Any], bool]


def _number(least: float, most: float, open_ends: bool = False) -> Wanted:
    def holds(value: Any) -> bool:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (least < value < most if open_ends else least <= value <= most)

    return Wanted(
        f"a number {'between' if open_ends else 'from'} {least:g} {'and' if open_ends else 'to'} {most:g}", holds
    )


def _whole(least: int, most: int) -> Wanted:
    return Wanted(
        f"a whole number from {least} to {most}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
    )


def _one_of(*words: Any) -> Wanted:
    return Wanted(f"one of {', '.join(map(str, words))}", lambda value: type(value) in (str, int) and value in words)


def _list_of(one: Wanted) -> Wanted:
    return Wanted(f"a list, of which each is {one.words}", lambda value: _is_list(value) and all(map(one.holds, value)))


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


_SHARE = _number(0, 1)
HEADER = {
    "hosts": _whole(2, LARGEST),
    "rails": _whole(1, MOST_RAILS),
    "hosts_per_rack": _whole(0, LARGEST),
    "racks_per_pod": _whole(0, LARGEST),
    "noise": _number(0, 0.2),
    "floors": _number(0, 1),
    "common": _SHARE,
    "tail": _SHARE,
    "tail_to": _number(1.2, 100),
    "spares": _whole(0, 64),
}
VALUES = {
    "by": _number(0, 1, open_ends=True),
    # What shows in no exchange is no fault.
    "when": Wanted("a number over 0, at most 1", lambda value: _SHARE.holds(value) and value > 0),
    "bytes": _list_of(_one_of(*SIZES)),
    "operations": _list_of(_one_of(*OPERATIONS)),
    "after": _whole(0, 10**6),
    "where": _one_of(WALK, INSIDE, GROUPS),
    "shows": _one_of(ABSENT, ARRIVED),
    "runs": _number(0, 10, open_ends=True),
    "tails": _SHARE,
    "up_to": _number(1.2, 100),
    "expect": _one_of(*EXPECTED),
    "expect_to": _one_of(*EXPECTED),
}
# Whom Slurm lost cannot be judged; it may be gone before the first job.
_OF_DEAD = {
    "after": Wanted("a whole number from 0 on, or null", lambda value: value is None or VALUES["after"].holds(value)),
    "expect": _one_of(HELD),
}


@dataclass(frozen=True)
class _Line:
    """A line of a file, for what is wrong with it."""

    file: Path
    number: int

    def fault(self, key: str, found: Any, expected: str) -> FleetLineError:
        text = json.dumps(found, ensure_ascii=False)
        text = text if len(text) <= 60 else f"{text[:57]}..."
        return FleetLineError(f"{self.file}, line {self.number}: {key}: found {text}, expected {expected}")

    def once(self, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        """Return an object; raises FleetLineError if a key stands there twice."""
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise self.fault(key, value, "the key once")
            found[key] = value
        return found

    def check(self, key: str, value: Any, wanted: Wanted) -> Any:
        if not wanted.holds(value):
            raise self.fault(key, value, wanted.words)
        return value


def read_fleet(file: Path) -> tuple[Spec, list[Fault]]:
    """Return a file's fleet and its faults; raises FleetLineError and OSError."""
    spec: Spec | None = None
    faults: list[Fault] = []
    units: dict[str, list[str]] = {}
    for number, text in enumerate(file.read_bytes().splitlines(), 1):
        if not text.strip():
            continue
        line = _Line(file, number)
        try:
            data = json.loads(text.decode(), object_pairs_hook=line.once)
        except FleetLineError:
            raise
        except (ValueError, RecursionError) as exc:
            raise FleetLineError(f"{file}, line {number}: not JSON ({exc}), expected an object") from exc
        if not isinstance(data, dict):
            raise line.fault("line", data, "an object")
        if spec is None:
            spec = _spec_of(line, data)
            units = _units_of(spec)
        else:
            faults.append(_fault_of(line, data, spec, units))
    if spec is None:
        raise FleetLineError(f"{file}, line 1: hosts: found nothing, expected {HEADER['hosts'].words}")
    return spec, faults


def _spec_of(line: _Line, data: Mapping[str, Any]) -> Spec:
    if "hosts" not in data:
        raise line.fault("hosts", None, HEADER["hosts"].words)
    for key, value in data.items():
        if key not in HEADER:
            raise line.fault(key, value, f"one of {', '.join(HEADER)}")
        line.check(key, value, HEADER[key])
    named = {_SPEC.get(key, key): value for key, value in data.items()}
    return Spec(**{"fault": line.file.stem, "noise": 0.01, **named})


def _units_of(spec: Spec) -> dict[str, list[str]]:
    """Return the hosts under test by their own name, and by those of racks and pods."""
    found: dict[str, list[str]] = {}
    places = spec.places()
    for node in spec.layout().nodes:
        for name in (node, places[node]["rack"], places[node]["pod"]):
            if name is not None:
                found.setdefault(name, []).append(node)
    return found


def _fault_of(line: _Line, data: Mapping[str, Any], spec: Spec, units: Mapping[str, list[str]]) -> Fault:
    kinds = [kind for kind in KINDS if kind in data]
    if len(kinds) != 1:
        raise line.fault("kind", sorted(data), f"exactly one of {', '.join(KINDS)}")
    kind, made = kinds[0], KINDS[kinds[0]]
    first = _FIRST.get(kind, "who")
    known = {field.name: field for field in fields(made)}
    given: dict[str, Any] = {}
    for key, value in data.items():
        name = first if key == kind else key
        if name not in known or key == first:
            others = [kind, *(each for each in known if each != first)]
            raise line.fault(key, value, f"one of {', '.join(others)}")
        if name in ("who", "to"):
            given[name] = _hosts(line, key, value, units)
        elif key == "rails":
            given[name] = line.check(key, value, _list_of(_whole(0, spec.rails - 1)))
        else:
            wanted = _OF_DEAD.get(key) if kind == "dead" else None
            given[name] = line.check(key, value, wanted or VALUES[key])
        given[name] = tuple(given[name]) if isinstance(given[name], list) else given[name]
    for name, field in known.items():
        if field.default is MISSING and name not in given:
            raise line.fault(name, None, VALUES[name].words)
    if given.get("to") and len({*given["who"], *given["to"]}) < 2:
        raise line.fault("to", data["to"], f"somebody else than {kind} names")
    fault: Fault = made(**given)
    return fault


def _hosts(line: _Line, key: str, value: Any, units: Mapping[str, list[str]]) -> tuple[str, ...]:
    if not _is_list(value):
        raise line.fault(key, value, "a list of hosts, racks or pods")
    unknown = next((each for each in value if not isinstance(each, str) or each not in units), None)
    if unknown is not None:
        names = sorted(units)
        raise line.fault(key, unknown, f"the name of a host, rack or pod: {names[0]} to {names[-1]}")
    return tuple(dict.fromkeys(node for each in value for node in units[each]))


def written_fleet(spec: Spec, faults: Sequence[Fault]) -> str:
    """Return a fleet as the text of such a file; hosts that make up whole racks and pods stand as these."""
    names = {"rack": "hosts_per_rack", "pod": "racks_per_pod"}
    header: dict[str, Any] = {}
    for field in fields(Spec):
        key, value = names.get(field.name, field.name), getattr(spec, field.name)
        if key in HEADER and (field.default is MISSING or value != field.default or key == "rails"):
            header[key] = value
    lines = [header]
    units = _units_of(spec)
    for fault in faults:
        kind = next(kind for kind, made in KINDS.items() if isinstance(fault, made))
        line: dict[str, Any] = {}
        for field in fields(fault):
            value = getattr(fault, field.name)
            if field.name == _FIRST.get(kind, "who"):
                line[kind] = _units(value, units) if field.name == "who" else value
            elif field.name == "to" and value:
                line["to"] = _units(value, units)
            elif value != field.default or field.name == "expect":
                line[field.name] = value
        lines.append(line)
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def _units(hosts: Sequence[str], units: Mapping[str, list[str]]) -> list[str]:
    """Return names for these hosts, the largest units of which all belong to them first."""
    left, found = set(hosts), []
    for name, members in sorted(units.items(), key=lambda each: (-len(each[1]), each[0])):
        if left.issuperset(members):
            found.append(name)
            left.difference_update(members)
    return found
