"""Names by pattern: ``gpu-[0001-3072]`` stands for 3,072 names.

This is the language in which a fleet declares names: several brackets, steps, one width. Slurm's host lists are another
one (``module_utils/host/host_lists.py``).
"""

from __future__ import annotations

import itertools
import re

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError

# The largest fleet in sight is 12,500 nodes; a slip such as [1-99999999] must not fill the memory.
NAMES_LIMIT = 100_000
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


class PatternError(MusterError, ValueError):
    """A pattern that names nothing; ``expected`` says what would."""

    def __init__(self, found: str, expected: str) -> None:
        self.found, self.expected = found, expected
        super().__init__(f"found {found}, expected {expected}")


def expand(pattern: str) -> list[str]:
    """Return the names that a pattern stands for, in order; the last bracket runs fastest.

    A bracket holds numbers and ranges: ``[01-04]``, ``[1,3,7-9]``, ``[0-24:8]`` (0, 8, 16, 24: switches count ports by
    their lanes). The lower end gives the width: ``[08-10]`` is 08, 09, 10. Raises PatternError.
    """
    pieces = _BRACKETS.split(pattern)
    literals, ranges = pieces[::2], pieces[1::2]
    if any("[" in literal or "]" in literal for literal in literals):
        raise PatternError(f'"{pattern}"', "brackets in pairs, such as gpu-[01-16]")
    choices = [_numbers(text, pattern) for text in ranges]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > NAMES_LIMIT:
        raise PatternError(f'"{pattern}" ({total} names)', f"at most {NAMES_LIMIT} names")
    return [
        "".join(itertools.chain.from_iterable(itertools.zip_longest(literals, combination, fillvalue="")))
        for combination in itertools.product(*choices)
    ]


def _numbers(text: str, pattern: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise PatternError(f'"[{text}]" in "{pattern}"', "numbers and ranges, such as [01-16] or [1,3,7-9]")
        low, high, step = match.group(1), match.group(2) or match.group(1), int(match.group(3) or 1)
        if int(low) > int(high):
            raise PatternError(f'"[{text}]" in "{pattern}"', f"the lower end first, [{high}-{low}]")
        if len(low) > 1 and low.startswith("0") and len(low) != len(high):
            raise PatternError(f'"[{text}]" in "{pattern}"', "both ends of one width, such as [0001-3072]")
        if int(high) - int(low) >= NAMES_LIMIT:
            raise PatternError(f'"[{text}]" in "{pattern}"', f"at most {NAMES_LIMIT} names")
        if step < 1 or (int(high) - int(low)) % step:
            raise PatternError(f'"[{text}]" in "{pattern}"', "a step of at least 1 that leads to the upper end")
        numbers += [f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1, step)]
    return numbers
