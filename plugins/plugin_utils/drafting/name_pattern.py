"""Names folded into one pattern of the fleet file: what ``node_names.expand`` makes the same names of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.node_names import PatternError, expand

_NUMBER = re.compile(r"([0-9]+)")


def pattern_of(names: Sequence[str]) -> str | None:
    """Return the pattern that stands for these names in this order, None where there is none.

    The names differ in numbers alone: ``leaf-[1-2]-[1-4]`` of eight names, the last number running fastest.
    """
    split = [_NUMBER.split(name) for name in names]
    # Texts and numbers take turns.
    if len({tuple(pieces[::2]) for pieces in split}) != 1:
        return None
    columns = list(zip(*split, strict=True))
    varying = [column for column in columns if len(set(column)) > 1]
    pieces = []
    for column in columns:
        # One number that varies is written name by name; several have to vary independently.
        numbers = column if len(varying) == 1 else tuple(dict.fromkeys(column))
        pieces.append(f"[{_ranges(numbers)}]" if column in varying else column[0])
    pattern = "".join(pieces)
    try:
        return pattern if expand(pattern) == list(names) else None
    except PatternError:
        return None


def _ranges(numbers: Sequence[str]) -> str:
    """Return what stands in a bracket: ``1-4,7``, or ``0-24:8`` for a step."""
    parts = []
    start = 0
    while start < len(numbers):
        end, step = _run(numbers, start)
        low, high = numbers[start], numbers[end]
        parts.append(low if start == end else f"{low}-{high}" if step == 1 else f"{low}-{high}:{step}")
        start = end + 1
    return ",".join(parts)


def _run(numbers: Sequence[str], start: int) -> tuple[int, int]:
    """Return where the range that begins at ``start`` ends, and its step."""
    low = numbers[start]
    step = int(numbers[start + 1]) - int(low) if start + 1 < len(numbers) else 0
    end = start
    while step > 0 and end + 1 < len(numbers) and numbers[end + 1] == _following(low, int(numbers[end]) + step):
        end += 1
    # Two numbers apart are no range: the second may begin one.
    return (end, step) if step == 1 or end > start + 1 else (start, 0)


def _following(low: str, number: int) -> str | None:
    """Return a number as a range from ``low`` writes it, None where the range would have two widths."""
    text = f"{number:0{len(low)}d}"
    padded = len(low) > 1 and low.startswith("0")
    return None if padded and len(text) != len(low) else text
