"""What nccl-tests printed: its table in the old and the new columns, or its JSON report, and whose measurement it is.

Formats: NVIDIA/nccl-tests src/common.cu and src/util.cu; ``error`` (the largest deviation) became ``#wrong`` (how many
elements) with 2.13, JSON came with 2.17 (no real one is recorded). Lines may bear what srun or mpirun puts before them
(``0:``, ``[1,0]<stdout>:``).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from ..words.errors import MusterError

_PREFIX = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:|\d+:)\s?")
# Old ones name no group, and of the PCI address the bus alone.
_RANK = re.compile(r"#\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]*)\]")
_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)")
_ROW = re.compile(r"\d+\s+\d+\s")
_NAMED = 4
_ALONE = "nccl-tests was built without MPI, or its PMIx does not match srun's"


class NcclTestsError(MusterError, ValueError):
    """Output that is no whole report; says what is missing or cannot be read."""


@dataclass(frozen=True)
class Rank:
    """One process, on which host and device (its number and PCI address)."""

    rank: int
    group: int
    host: str
    device: str


@dataclass(frozen=True)
class Side:
    """Out of place or in place, as printed: times in microseconds, bandwidths in GB/s.

    ``wrong`` is None where nothing was checked; ``p99`` is None where nccl-tests told no single iterations.
    """

    time: Decimal
    algbw: Decimal
    busbw: Decimal
    wrong: int | None
    p99: Decimal | None = None


@dataclass(frozen=True)
class Measurement:
    """One size in bytes, out of place and in place."""

    size: int
    sides: tuple[Side, ...]

    @property
    def ns(self) -> int:
        """Return the longer time in nanoseconds."""
        return round(max(side.time for side in self.sides) * 1000)

    @property
    def ns_p99(self) -> int | None:
        """Return the same of 99 % of the iterations."""
        late = [side.p99 for side in self.sides if side.p99 is not None]
        return round(max(late) * 1000) if late else None

    @property
    def wrong(self) -> int | None:
        """Return the larger number of wrong elements, None unless both sides were checked."""
        found = [side.wrong for side in self.sides if side.wrong is not None]
        return max(found) if len(found) == len(self.sides) else None


@dataclass(frozen=True)
class Report:
    """What was printed: ``count`` reports by these ranks, and a row for each size."""

    count: int
    ranks: tuple[Rank, ...]
    rows: tuple[Measurement, ...]


def parse_nccl_tests(output: str) -> Report:
    """Return what was printed, also where that is several reports; raises NcclTestsError unless it is whole."""
    if output.lstrip().startswith("{"):
        return _json(output)
    lines = [_PREFIX.sub("", line).rstrip() for line in output.splitlines()]
    columns: list[str] = []
    ranks: list[Rank] = []
    rows: list[Measurement] = []
    bounds: list[tuple[int, bool]] = []
    headers = 0
    for line in lines:
        words = line.lstrip("# ").split()
        if line.startswith("#") and words[:2] == ["size", "count"]:
            columns = words
            headers += 1
        elif match := _RANK.match(line):
            ranks.append(Rank(int(match[1]), int(match[2] or 0), match[3], f"{match[4]} [{match[5]}]"))
        elif match := _BOUNDS.search(line):
            bounds.append((int(match[1]), match[2] == "OK"))
        elif columns and _ROW.match(line.lstrip()) and len(line.split()) >= len(columns) - 1:
            rows.append(_row(line, columns))
        elif columns and "..." in line.split():
            raise NcclTestsError(f"rows are left out: {line.strip()[:80]}")
    if not columns:
        raise NcclTestsError("no header of columns")
    if not rows:
        raise NcclTestsError("no rows")
    if not bounds:
        raise NcclTestsError("the report ends before 'Out of bounds values'")
    bad, okay = sum(number for number, _okay in bounds), all(okay for _number, okay in bounds)
    return Report(max(headers, len(bounds)), tuple(ranks), _bounded(rows, bad, okay))


def fault_of(report: Report, hosts: Sequence[str], each: int) -> str:
    """Return why a report is not one of all ranks of these hosts, ``each`` on every one; empty if it is.

    ``hosts`` call themselves so, with or without a domain: nccl-tests leaves it out.
    """
    count = len(hosts) * each
    if report.count != 1:
        alone = report.count == len(report.ranks)
        said = "of one rank each" if alone else f"of {len(report.ranks)} ranks in all"
        return f"{report.count} reports {said}, expected one of {count} ranks" + (f": {_ALONE}" if alone else "")
    numbers = {rank.rank for rank in report.ranks}
    if len(report.ranks) != count or numbers != set(range(count)):
        missing = _few(sorted(set(range(count)) - numbers)) or "none"
        return f"{len(report.ranks)} ranks are named, expected 0 to {count - 1}, each once; missing: {missing}"
    groups = sorted({rank.group for rank in report.ranks})
    if len(groups) > 1:
        return f"ranks of groups {_few(groups)}, expected one group: NCCL_TESTS_SPLIT divides them"
    found = Counter(rank.host for rank in report.ranks)
    wanted = Counter([host.partition(".")[0] for host in hosts] * each)
    if found != wanted:
        differ = sorted(host for host in found | wanted if found[host] != wanted[host])
        return f"ranks by host: {_few(f'{host} {found[host]}, expected {wanted[host]}' for host in differ)}"
    if shared := _twice(f"device {rank.device} of {rank.host}" for rank in report.ranks):
        return f"several ranks on {_few(shared)}, expected one"
    # Where a size is too small to be divided among the ranks nothing moves, and it is told again.
    repeated = _twice(f"{row.size} bytes" for row in report.rows if row.size)
    return f"more than one row of {_few(repeated)}" if repeated else ""


def disagreement(row: Measurement, factor: float) -> str:
    """Return how the printed bandwidths of a row differ from its size and time, empty if they agree.

    ``factor`` is the bus bandwidth over size by time. A number is taken to be as exact as it is printed.
    """
    for side in row.sides:
        half = _half(side.time)
        # Bytes per microsecond are thousandths of GB/s.
        least, most = (row.size / (side.time + part) / 1000 for part in (half, -half))
        for name, printed, part in (("algbw", side.algbw, Decimal(1)), ("busbw", side.busbw, Decimal(factor))):
            if printed + _half(printed) < least * part or printed - _half(printed) > most * part:
                expected = row.size / side.time / 1000 * part
                return f"{name} is {printed} GB/s, expected {expected:.2f} at a time of {side.time} us"
    return ""


def _half(printed: Decimal) -> Decimal:
    """Return half of what the last printed digit counts."""
    exponent = printed.as_tuple().exponent
    return Decimal(5).scaleb(int(exponent) - 1)


def _row(line: str, columns: list[str]) -> Measurement:
    words = line.split()
    sides: list[dict[str, str]] = []
    if len(words) < len(columns):
        # Before 2.13 an all-to-all left the column of its operation empty.
        columns = [name for name in columns if name != "redop"]
    for name, word in zip(columns, words):
        if name == "time":
            sides.append({})
        if sides:
            sides[-1][name] = word
    whole = ("algbw" in side and "busbw" in side and ("#wrong" in side or "error" in side) for side in sides)
    if len(sides) != 2 or not all(whole):
        wanted = "time, algbw, busbw and #wrong out of place and in place"
        raise NcclTestsError(f"columns {' '.join(columns)}, expected {wanted}")
    return _measured(int(words[0]), [_side(side) for side in sides])


def _side(words: Mapping[str, str]) -> Side:
    wrong = words.get("#wrong", words.get("error"))
    if wrong == "N/A":
        wrong = None
    elif "error" in words:
        # A deviation says nothing by itself; the number of those out of bounds stands at the end.
        wrong = "0"
    return _printed(words["time"], words["algbw"], words["busbw"], wrong, words.get("i_p99"))


def _json(text: str) -> Report:
    try:
        # As exact as they are printed.
        data = json.loads(text, parse_float=Decimal)
        ranks = [
            Rank(each["rank"], each["group"], each["hostname"], f"{each['device']} [{each['device_hex']}]")
            for each in data["config"]["devices"]
        ]
        rows = []
        for result in data["results"]:
            sides = []
            for name in ("out_of_place", "in_place"):
                side, single = result[name], result.get(f"{name}_per_iter") or {}
                late = single.get("p99_us")
                sides.append(_printed(side["time"], side["alg_bw"], side["bus_bw"], side["nwrong"], late))
            rows.append(_measured(int(result["size"]), sides))
        bounds = data["out_of_bounds"]
        if not rows:
            raise NcclTestsError("no results")
        # The truth is written as text.
        return Report(1, tuple(ranks), _bounded(rows, int(bounds["count"]), bounds["okay"] == "true"))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as exc:
        if isinstance(exc, NcclTestsError):
            raise
        raise NcclTestsError(f"the JSON report cannot be read: {type(exc).__name__} {exc}") from exc


def _printed(time: Any, algbw: Any, busbw: Any, wrong: Any, late: Any) -> Side:
    return Side(
        _number(time, "time"),
        _number(algbw, "algbw"),
        _number(busbw, "busbw"),
        None if wrong is None else round(_number(wrong, "#wrong")),
        None if late is None else _number(late, "p99"),
    )


def _measured(size: int, sides: Sequence[Side]) -> Measurement:
    least = min(side.time for side in sides)
    if least <= 0:
        raise NcclTestsError(f"a time of {least} us at {size} bytes")
    return Measurement(size, tuple(sides))


def _number(word: Any, name: str) -> Decimal:
    try:
        number = Decimal(str(word))
    except InvalidOperation as exc:
        raise NcclTestsError(f"{name} is {str(word)!r}, expected a number") from exc
    if not number.is_finite():
        raise NcclTestsError(f"{name} is {str(word)!r}, expected a number")
    return number


def _bounded(rows: Sequence[Measurement], count: int, okay: bool) -> tuple[Measurement, ...]:
    """Return the rows, all of them wrong where the report says that some are and no row does."""
    if (count or not okay) and not any(row.wrong for row in rows):
        most = max(1, count)
        return tuple(replace(row, sides=tuple(replace(side, wrong=most) for side in row.sides)) for row in rows)
    return tuple(rows)


def _twice(items: Iterable[str]) -> list[str]:
    """Return what is there more than once."""
    return sorted(item for item, times in Counter(items).items() if times > 1)


def _few(items: Iterable[object]) -> str:
    named = [str(item) for item in items]
    return ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
