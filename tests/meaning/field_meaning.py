"""What one field of a tool's output means: where it stands, which of its values are sick, which are only odd."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS

from tests.fuzz.sick import healthy

# What may follow. Nothing sick passes; nothing that is only odd fails.
HEALTHY = frozenset({PASS})
SICK = frozenset({FAIL})
NOT_PASS = frozenset({FAIL, INCOMPLETE})
NOT_FAIL = frozenset({PASS, INCOMPLETE})
UNTOLD = frozenset({INCOMPLETE})
ANY = frozenset({PASS, INCOMPLETE, FAIL})


@dataclass(frozen=True)
class Case:
    """``checks`` are asked about ``text`` in place of what ``probe`` printed; their worst verdict must be allowed."""

    name: str
    probe: str
    checks: tuple[str, ...]
    text: str
    allowed: frozenset[str]
    variant: str = ""


@dataclass(frozen=True)
class Field:
    """One value that ``checks`` judge. ``at`` is a regular expression whose group 1 is the value, once for each part.

    ``sick`` are values that say that the part is sick: FAIL. ``wrong`` cannot be, or can be read in two ways: no PASS.
    ``good`` are other values of a healthy part, up to the boundary: PASS. ``odd`` are a healthy value written in
    another way: no FAIL. ``owed`` says whether the class is owed an answer: without one no PASS.
    """

    probe: str
    checks: tuple[str, ...]
    at: str
    sick: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    good: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    owed: bool = True
    variant: str = ""
    # Takes the field out of the output; group 0 goes. Without it only the value itself is taken out.
    whole: str = ""
    # A tool that says here that it could not reach the part has told of a fault, whatever it is.
    device: bool = False
    # Bare JSON values cannot hold words without quotes.
    json: bool = False
    # A name or a version, or one of a few words of the kernel's: it is what it must be or it is another one.
    word: bool = False
    # What the output does not list is not there: without the line, or without a value, the part may be called missing.
    listed: bool = False
    # What may follow where the line is gone, if not what follows where nothing was told.
    lost: frozenset[str] | None = None

    @property
    def name(self) -> str:
        """Return how a case names the field."""
        return f"{self.probe} {self.at[:60]!r}"

    def text(self) -> str:
        """Return the healthy output that has the field."""
        return healthy(self.probe, self.variant)

    def places(self) -> list[tuple[int, int]]:
        """Return where the value stands: on the first part, the one in the middle and the last one.

        Raises ValueError where the healthy output has none.
        """
        spans = [match.span(1) for match in re.finditer(self.at, self.text(), re.MULTILINE)]
        if not spans:
            raise ValueError(f"{self.at!r} is not in the healthy output of {self.probe}")
        return sorted({spans[0], spans[len(spans) // 2], spans[-1]})


@dataclass(frozen=True)
class Parts:
    """The parts that an output lists, each the text that ``part`` matches, and the checks that are owed all of them.

    ``twice`` says whether the same part listed twice is a contradiction; a log may say a thing twice.
    """

    probe: str
    checks: tuple[str, ...]
    part: str
    twice: bool = True
    variant: str = ""

    def text(self) -> str:
        """Return the healthy output that has the parts."""
        return healthy(self.probe, self.variant)

    def places(self) -> list[tuple[int, int]]:
        """Return the first part, the one in the middle and the last one; raises ValueError where there is none."""
        spans = [match.span() for match in re.finditer(self.part, self.text(), re.MULTILINE)]
        if not spans:
            raise ValueError(f"{self.part!r} is not in the healthy output of {self.probe}")
        return sorted({spans[0], spans[len(spans) // 2], spans[-1]})


@dataclass(frozen=True)
class Told:
    """A healthy output with ``old`` replaced by ``new`` once, what that means, and which verdicts may follow."""

    probe: str
    checks: tuple[str, ...]
    why: str
    old: str
    new: str
    allowed: frozenset[str]
    variant: str = ""

    def text(self) -> str:
        """Return the output; raises ValueError where the healthy one has no such text."""
        text, times = re.subn(self.old, self.new, healthy(self.probe, self.variant), count=1, flags=re.MULTILINE)
        if not times:
            raise ValueError(f"{self.old!r} is not in the healthy output of {self.probe}")
        return text
