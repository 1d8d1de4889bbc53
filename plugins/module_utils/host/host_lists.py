"""Slurm's host lists: folded, as in ``gpu-[01-02,04]``, and expanded to names again.

The patterns in which a fleet file declares names are another language: ``plugin_utils/fleet/node_names.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..words.errors import MusterError


class HostListError(MusterError, ValueError):
    """A text that is no host list; says which part cannot be read."""


def natural(name: str) -> list[Any]:
    """Return a sort key by which n2 comes before n10."""
    return [int(part) if index % 2 else part for index, part in enumerate(re.split(r"(\d+)", name))]


def in_order(names: Iterable[str]) -> list[str]:
    """Return the names sorted naturally."""
    return sorted(names, key=natural)


def fold(names: Iterable[str]) -> str:
    """Return a Slurm host list in the given order: ``gpu-01 gpu-02 gpu-04`` gives ``gpu-[01-02,04]``.

    Addresses fold by their last number: ``10.0.0.9 10.0.0.10`` gives ``10.0.0.[9-10]``. Slurm takes brackets at the end
    of a name only (slurm.conf(5), NodeName), so that a name with a suffix stays as it is.
    """
    groups: list[tuple[str, list[list[str]]]] = []
    for name in names:
        match = re.fullmatch(r"(.*?)(\d+)", name)
        if not match or ":" in name:
            groups.append((name, []))
            continue
        prefix, number = match.groups()
        if not groups or groups[-1][0] != prefix or not groups[-1][1]:
            groups.append((prefix, []))
        runs = groups[-1][1]
        # Slurm writes every number of a range as wide as its first.
        if runs and number == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][0])):
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join(_group(prefix, runs) for prefix, runs in groups)


def expand(text: str) -> list[str]:
    """Return the names in a Slurm host list; none for ``(null)``. Raises HostListError."""
    if text in ("", "(null)"):
        return []
    names: list[str] = []
    rest = text
    while rest:
        match = re.match(r"([^\[\],]*)(?:\[([\d,-]+)\])?(?:,|$)", rest)
        if not match or not match.group(0).strip(","):
            raise HostListError(f"host list {text[:200]!r}: cannot read {rest[:80]!r}")
        prefix, ranges = match.groups()
        names += [prefix + number for number in _numbers(ranges)] if ranges else [prefix]
        rest = rest[match.end() :]
    return names


def batches(names: Sequence[str], limit_bytes: int) -> Iterator[list[str]]:
    """Yield the names in naturally sorted parts, whose folded lists have at most ``limit_bytes`` each.

    A name that is longer than the limit is a part of its own.
    """
    waiting = [in_order(names)]
    while waiting:
        part = waiting.pop()
        if len(part) > 1 and len(fold(part)) > limit_bytes:
            middle = len(part) // 2
            waiting += [part[middle:], part[:middle]]
        elif part:
            yield part


def _group(prefix: str, runs: Sequence[Sequence[str]]) -> str:
    if not runs:
        return prefix
    ranges = ",".join("-".join(run) for run in runs)
    return f"{prefix}{ranges}" if len(runs) == 1 and len(runs[0]) == 1 else f"{prefix}[{ranges}]"


def _numbers(ranges: str) -> list[str]:
    numbers = []
    for each in ranges.split(","):
        first, dash, last = each.partition("-")
        if not first or (dash and not last):
            raise HostListError(f"host list: range {each!r}, expected number or number-number")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return numbers
