"""The table of programs that Muster starts (tools.yml): who has them, and what argument vectors Muster gives them.

A pattern is a line of words: fixed ones, which the program must know; ``{value}``, which stands for what a host or a
fleet file gives, and may be several words where it is a word of its own; ``[words]``, which are there or not.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest
import yaml

FILE = Path(__file__).with_name("tools.yml")
# Muster's own programs: no system has them.
OWN = frozenset({"muster", "slurmctld-state"})
# What no program knows as an option or word of its own.
NONSENSE = "--muster-nonsense"
_VALUE = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[([^]]+)\]")


@dataclass(frozen=True)
class Value:
    """What a placeholder stands for: ``given`` to the real program, and every text that ``matches`` from Muster."""

    given: str
    matches: str


@dataclass(frozen=True)
class Form:
    """A pattern with its optional words decided; ``words`` begin with the program's name."""

    words: tuple[str, ...]
    values: Mapping[str, Value]

    @property
    def given(self) -> list[str]:
        """The argument vector for the real program."""
        return [each for word in self.words for each in self._given(word)]

    @property
    def garbled(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each fixed word behind the program's name, and the argument vector with nonsense in its place."""
        for at, word in enumerate(self.words):
            if at and _VALUE.sub("", word):
                words = [*self.words[:at], NONSENSE, *self.words[at + 1 :]]
                yield word, [each for some in words for each in self._given(some)]

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """What an argument vector of this form looks like, with a NUL before each word."""
        return re.compile("".join(map(self._matches, self.words)), re.DOTALL)

    def _given(self, word: str) -> list[str]:
        text = _VALUE.sub(lambda found: self.values[found[1]].given, word)
        return shlex.split(text) if _VALUE.fullmatch(word) else [text]

    def _matches(self, word: str) -> str:
        parts = _VALUE.split(word)
        text = "".join(
            f"(?:{self.values[part].matches})" if at % 2 else re.escape(part) for at, part in enumerate(parts)
        )
        return f"\0{text}" if self._given(word) else f"(?:\0{text})?"


@dataclass(frozen=True)
class Tool:
    """One program: its package by system ("" where it has none there), its patterns, and how it says no.

    ``elsewhere`` are patterns that other tests give to real programs, and which tests. ``refused`` is searched in what
    the program prints; it must be found for nonsense. ``unread`` are fixed words at which the program does not look
    before it gives up on a machine without the hardware: of them nothing is proven. With a word of ``endless`` it does
    not end by itself. With ``cluster`` it is asked in a running Slurm, by ``user``, and has to succeed, or to say what
    is ``excused``. ``unverified`` says why no real program could be asked, else "".
    """

    name: str
    patterns: tuple[str, ...]
    forms: tuple[Form, ...]
    elsewhere: Mapping[str, str]
    elsewhere_forms: tuple[Form, ...]
    packages: Mapping[str, str]
    refused: str
    unread: tuple[str, ...]
    endless: tuple[str, ...]
    unverified: str
    user: str
    cluster: bool
    excused: str

    def covers(self, argv: Sequence[str]) -> bool:
        """Whether an argument vector, whose first word may be a path, has one of the forms."""
        text = "".join(f"\0{word}" for word in (self.name, *argv[1:]))
        return any(form.expression.fullmatch(text) for form in (*self.forms, *self.elsewhere_forms))


def forms_of(pattern: str, values: Mapping[str, Value]) -> list[Form]:
    """Return a pattern's forms: with and without each of its optional parts."""
    parts = _OPTIONAL.split(pattern)
    choices = [(part, "") if at % 2 else (part,) for at, part in enumerate(parts)]
    lines = dict.fromkeys(" ".join(chosen) for chosen in itertools.product(*choices))
    return [Form(tuple(shlex.split(line)), values) for line in lines]


@cache
def read() -> dict[str, Tool]:
    """Return the table's tools by name."""
    table = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    values = {name: Value(*map(str, pair)) for name, pair in table["values"].items()}
    systems = list(table["systems"])
    tools = {}
    for name, row in table["tools"].items():
        package = row.get("package", "")
        packages = dict.fromkeys(systems, package) if isinstance(package, str) else package
        patterns = tuple(row["argv"])
        elsewhere = {pattern: each["with"] for each in row.get("elsewhere", ()) for pattern in each["argv"]}
        tools[name] = Tool(
            name=name,
            patterns=patterns,
            forms=tuple(form for pattern in patterns for form in forms_of(pattern, values)),
            elsewhere=elsewhere,
            elsewhere_forms=tuple(form for pattern in elsewhere for form in forms_of(pattern, values)),
            packages={system: packages.get(system, "") for system in systems},
            refused=row.get("refused", table["refused"]),
            unread=tuple(row.get("unread", ())),
            endless=tuple(row.get("endless", ())),
            unverified=row.get("unverified", ""),
            user=row.get("user", "root"),
            cluster=row.get("cluster", False),
            excused=row.get("excused", "nothing"),
        )
    return tools


def refuse_unknown(argv: Sequence[str]) -> None:
    """Fail a test in which Muster starts a program in a way that the table does not have."""
    name = re.sub(r"^python[0-9.]*$", "python3", str(argv[0]).rsplit("/", 1)[-1])
    if name in OWN:
        return
    tool = read().get(name)
    # Not an assertion: Muster survives every exception of a tool.
    if tool is None:
        pytest.fail(f"{name} is not in {FILE.name}: no real one was ever asked what it makes of {shown(argv)}")
    elif not tool.covers(argv):
        pytest.fail(f"{FILE.name} has no pattern of {name} for {shown(argv)}")


def shown(argv: Sequence[str]) -> str:
    """Return an argument vector as a line, long words cut."""
    return " ".join(word if len(word) <= 60 else f"{word[:57]}..." for word in map(str, argv))
