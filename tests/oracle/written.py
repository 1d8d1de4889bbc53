"""The expected data: a file for each area, a line for each case (``CASE: DIGEST | what it says | inputs DIGEST``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import digest

EXPECTED = Path(__file__).parent / "expected"
MARK = " | "
# What is simulated is the same on every machine only as far as its arithmetic is: where the observations are others,
# what they identify is held, not their numbers.
SIMULATED = ("fleets",)


@dataclass(frozen=True)
class Case:
    """One line of the expected data: ``told`` is short and readable, ``inputs`` what the content was concluded from."""

    name: str
    content: Any
    told: str = ""
    inputs: Any = None


def lines(cases: Sequence[Case]) -> dict[str, str]:
    """Return what is written of each case by its name; raises ValueError for a name that is not one case's alone."""
    found: dict[str, str] = {}
    for case in cases:
        if case.name in found or any(mark in case.name + case.told for mark in (MARK, ": ", "\n")):
            raise ValueError(f"case {case.name!r}: expected a name of its own, one line without {MARK!r} and ': '")
        inputs = [] if case.inputs is None else [f"inputs {digest.sha(case.inputs)}"]
        found[case.name] = MARK.join([digest.sha(case.content), case.told, *inputs]).rstrip(" |")
    return found


def known(area: str) -> dict[str, str]:
    """Return what is written down of an area."""
    text = (EXPECTED / f"{area}.txt").read_text(encoding="utf-8")
    return dict(line.rsplit(": ", 1) for line in text.splitlines())


def write(area: str, cases: Sequence[Case]) -> int:
    """Write an area down and return how many cases it has."""
    found = lines(cases)
    EXPECTED.mkdir(exist_ok=True)
    text = "".join(f"{name}: {line}\n" for name, line in sorted(found.items()))
    (EXPECTED / f"{area}.txt").write_text(text, encoding="utf-8")
    return len(found)


def differences(area: str, expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return a line for each case that is gone, new or another."""
    told = []
    for name in sorted({*expected, *found}):
        if name not in found:
            told.append(f"{name}: gone")
        elif name not in expected:
            told.append(f"{name}: new")
        elif not _same(area, expected[name], found[name]):
            told.append(f"{name}: {found[name]}, expected {expected[name]}")
    return told


def _same(area: str, expected: str, found: str) -> bool:
    if expected == found:
        return True
    old, new = expected.split(MARK), found.split(MARK)
    # Another machine's arithmetic gave other observations.
    return area in SIMULATED and len(old) == len(new) == 3 and old[2] != new[2] and old[1] == new[1]
