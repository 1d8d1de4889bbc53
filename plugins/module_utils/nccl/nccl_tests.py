"""What nccl-tests printed: its table in the old and the new columns, or its JSON report.

Formats: NVIDIA/nccl-tests src/common.cu and src/util.cu; ``error`` (the largest deviation) became ``#wrong`` (how many
elements) with 2.13, JSON came with 2.17. Lines may bear what srun or mpirun puts before them (``0:``,
``[1,0]<stdout>:``).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..words.errors import MusterError

_PREFIX = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:|\d+:)\s?")
_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)")
_ROW = re.compile(r"\d+\s+\d+\s")


class NcclTestsError(MusterError, ValueError):
    """Output that is no whole report; says what is missing or cannot be read."""


@dataclass(frozen=True)
class Measurement:
    """One size: of out of place and in place the longer time, in nanoseconds, and the larger number of wrong elements.

    ``wrong`` is None where nothing was checked; ``ns_p99`` is None where nccl-tests told no single iterations.
    """

    size: int
    ns: int
    wrong: int | None
    ns_p99: int | None = None


def parse_nccl_tests(output: str) -> dict[int, Measurement]:
    """Return what was measured by size in bytes; raises NcclTestsError unless the report is whole."""
    begin = output.find("{")
    if output.lstrip().startswith("{"):
        return _json(output[begin:])
    lines = [_PREFIX.sub("", line).rstrip() for line in output.splitlines()]
    columns: list[str] = []
    found: dict[int, Measurement] = {}
    bounds: tuple[int, str] | None = None
    for line in lines:
        words = line.lstrip("# ").split()
        if line.startswith("#") and words[:2] == ["size", "count"]:
            columns = words
        elif match := _BOUNDS.search(line):
            bounds = (int(match[1]), match[2])
        elif columns and _ROW.match(line.lstrip()) and len(line.split()) >= len(columns):
            row = _row(line, columns)
            found[row.size] = row
        elif columns and "..." in line.split():
            raise NcclTestsError(f"rows are left out: {line.strip()[:80]}")
    if not columns:
        raise NcclTestsError("no header of columns")
    if not found:
        raise NcclTestsError("no rows")
    if bounds is None:
        raise NcclTestsError("the report ends before 'Out of bounds values'")
    return _bounded(found, bounds[0], bounds[1] == "OK")


def _row(line: str, columns: list[str]) -> Measurement:
    words = line.split()[: len(columns)]
    times, checks, late = [], [], []
    for name, word in zip(columns, words):
        if name in ("time", "cputime"):
            times.append(_number(word, name))
        elif name == "#wrong":
            checks.append(None if word == "N/A" else round(_number(word, name)))
        elif name == "error":
            # A deviation says nothing by itself; the number of those out of bounds stands at the end.
            checks.append(None if word == "N/A" else 0)
        elif name == "i_p99":
            late.append(_number(word, name))
    if len(times) != 2 or len(checks) != 2:
        raise NcclTestsError(f"columns {' '.join(columns)}, expected time and #wrong out of place and in place")
    wrong = None if None in checks else max(each for each in checks if each is not None)
    if min(times) <= 0:
        raise NcclTestsError(f"a time of {min(times):g} us: {line.strip()[:80]}")
    return Measurement(int(words[0]), round(max(times) * 1000), wrong, round(max(late) * 1000) if late else None)


def _number(word: str, name: str) -> float:
    try:
        number = float(word)
    except ValueError as exc:
        raise NcclTestsError(f"{name} is {word!r}, expected a number") from exc
    if not math.isfinite(number):
        raise NcclTestsError(f"{name} is {word!r}, expected a number")
    return number


def _json(text: str) -> dict[int, Measurement]:
    try:
        data = json.loads(text)
        found = {}
        for result in data["results"]:
            sides = [result[side] for side in ("out_of_place", "in_place") if result.get(side) is not None]
            late = [result.get(f"{side}_per_iter") for side in ("out_of_place", "in_place")]
            times = [_number(str(side.get("time", side.get("cpu_time"))), "time") for side in sides]
            checks = [side["nwrong"] for side in sides]
            wrong = (
                None if None in checks or not checks else max(round(_number(str(each), "nwrong")) for each in checks)
            )
            p99 = [_number(str(each["p99_us"]), "p99_us") for each in late if isinstance(each, Mapping)]
            if not times or min(times) <= 0:
                raise NcclTestsError(f"no time at {result['size']} bytes")
            size = int(result["size"])
            found[size] = Measurement(size, round(max(times) * 1000), wrong, round(max(p99) * 1000) if p99 else None)
        bounds: Any = data["out_of_bounds"]
        if not found:
            raise NcclTestsError("no results")
        return _bounded(found, int(bounds["count"]), bounds["okay"] is True)
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        if isinstance(exc, NcclTestsError):
            raise
        raise NcclTestsError(f"the JSON report cannot be read: {type(exc).__name__} {exc}") from exc


def _bounded(found: dict[int, Measurement], count: int, okay: bool) -> dict[int, Measurement]:
    """Return the rows, all of them wrong where the report says that some are and no row does."""
    if (count or not okay) and not any(row.wrong for row in found.values()):
        most = max(1, count)
        return {size: Measurement(size, row.ns, most, row.ns_p99) for size, row in found.items()}
    return found
