"""nccl-tests' reports as people save them: wrong data, crashes, runs that measured nothing, speed against a class.

Formats: those of module_utils/nccl/nccl_tests.py, which reads a whole report; what is told here of one that is cut or
doubled is only what it proves by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_tests import (
    Measurement,
    NcclTestsError,
    Report,
    disagreement,
    parse_nccl_tests,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.nccl_debug_log import log_faults
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import (
    UNHELD,
    fault,
    sound,
    unread,
)

NAME = "nccl-tests"
_CHECK = "nccl_tests"

_MARKS = re.compile(
    r"#\s*nThread \d+ nGpus \d+|#\s*Out of bounds values :|#\s*Avg bus bandwidth\s+:|Test (?:NCCL|CUDA) failure "
    r"|#\s+size\s+count\b.*\btime\s+algbw\s+busbw"
)
_ROW = re.compile(
    r"^(?:\[\d+,\d+\]<stdout>: ?|\d+: ?)?\s*\d+\s+\d+\s+(?:u?int\d+|float|double|half|bfloat16|fp8\w*|f8e\w+|char)\b"
    r"(?:\s+\w+)?(?:\s+-?\d+)?((?:\s+(?:[\d.]+(?:e[+-]?\d+)?|N/A)){8})\s*$",
    re.MULTILINE,
)
_JSON = re.compile(r'\A\s*\{.*"out_of_bounds"', re.DOTALL)
_DIED = re.compile(r"Test (?:NCCL|CUDA) failure \S+ '?(.*?)'?$", re.MULTILINE)
# What each caller of the failed one adds (common.h, TESTCHECK).
_STACK = re.compile(r"^.*\.\. \S+ pid \d+: Test failure \S+.*$", re.MULTILINE)
_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)")
_ALL_REDUCE = "all_reduce"
_NAMES = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoall|sendrecv|broadcast|reduce|scatter|gather)_perf\b"
)
_CALLED = {"alltoall": "all_to_all"}


def recognises(text: str) -> bool:
    """Return whether nccl-tests printed this: its notes, its table, or rows of it."""
    return bool(_MARKS.search(text) or _JSON.search(text) or len(_ROW.findall(text)) > 1)


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return what the report says of data, of failures beside it, and of speed where a class has a floor."""
    found = [*log_faults(text), *_failures(text)]
    try:
        report = parse_nccl_tests(text)
    except NcclTestsError as exc:
        return [*found, unread(_CHECK, "data", str(exc))]
    if reason := _invalid(report):
        return [*found, unread(_CHECK, "data", reason)]
    if bad := [row for row in report.rows if row.wrong]:
        # The table's own rows and last line were counted before; a JSON report has neither.
        reason = f"wrong elements at {len(bad)} sizes: data was corrupted on its way"
        found = found or [fault(_CHECK, "data", reason, len(bad), 0)]
    elif any(row.wrong is None for row in report.rows) and not found:
        found.append(unread(_CHECK, "data", "data was not checked: fast, but nobody knows whether it was right"))
    elif not found:
        found.append(sound(_CHECK, "data", f"0 wrong at {len(report.rows)} sizes"))
    return [*found, _speed(text, report, expect)]


def _failures(text: str) -> Iterator[Finding]:
    died = list(dict.fromkeys(_DIED.findall(text)))
    if died:
        yield fault(_CHECK, "run", f"nccl-tests ended with an error: {died[0][:160]}")
    elif stack := _STACK.search(text):
        yield fault(_CHECK, "run", f"nccl-tests ended with an error: {stack[0].strip()[:160]}")
    bad = sum(int(count) for count, _ in _BOUNDS.findall(text))
    if bad or any(okay == "FAILED" for _, okay in _BOUNDS.findall(text)):
        yield fault(_CHECK, "data", f"{bad} values out of bounds: data was corrupted on its way", bad, 0)
        return
    # In the columns since 2.13 "#wrong" counts; the older "error" is a deviation, which the last line judges.
    if re.search(r"busbw\s+#wrong", text):
        counts = [words.split() for words in _ROW.findall(text)]
        wrong = [row for row in counts if any(row[at] not in ("0", "N/A") for at in (3, 7))]
        if wrong:
            yield fault(
                _CHECK, "data", f"wrong elements at {len(wrong)} sizes: data was corrupted on its way", len(wrong), 0
            )


def _invalid(report: Report) -> str:
    """Return why the report measures nothing."""
    if report.count != 1:
        return f"{report.count} reports in one: which rows are whose is not told"
    moved = [row for row in report.rows if row.size]
    if not moved or all(side.busbw == 0 for row in moved for side in row.sides):
        return "bus bandwidth is 0: ranks ran alone, nothing went between GPUs"
    if len({rank.rank for rank in report.ranks}) != len(report.ranks):
        return "ranks are named twice: several runs of their own"
    for row in moved:
        # No bus bandwidth is more than twice the other (doc/PERFORMANCE.md); small ones have one digit.
        for factor in {float(side.busbw / side.algbw) for side in row.sides if side.algbw >= 1}:
            if factor > 2.05:
                return f"busbw is {factor:.3g} times algbw at {row.size} bytes, expected at most twice"
        if told := disagreement(_without_busbw(row), 0):
            return told
    return ""


def _without_busbw(row: Measurement) -> Measurement:
    """Return the row with a bus bandwidth that agrees with any: its factor depends on what is not told."""
    sides = tuple(type(side)(side.time, side.algbw, side.busbw * 0, side.wrong, side.p99) for side in row.sides)
    return Measurement(row.size, sides)


def _speed(text: str, report: Report, expect: Expectations | None) -> Finding:
    """Return how the largest size lies to the class' floor for as many nodes as are named."""
    largest = max(report.rows, key=lambda row: row.size)
    busbw = float(min(side.busbw for side in largest.sides))
    named = _NAMES.search(text)
    nodes = len({rank.host for rank in report.ranks})
    if expect is None or not (named and nodes):
        return Finding(_CHECK, "speed", "incomplete", busbw, None, "GB/s", UNHELD)
    name = _CALLED.get(named[1], named[1])
    floors = [each for each in expect.collective.floors if each.collective == name and each.nodes_min <= nodes]
    floors = [each for each in floors if each.size_bytes in {row.size for row in report.rows}]
    if not floors:
        return Finding(_CHECK, "speed", "incomplete", busbw, None, "GB/s", f"no floor for {name} on {nodes} nodes")
    floor = max(floors, key=lambda each: (each.nodes_min, each.size_bytes))
    row = next(row for row in report.rows if row.size == floor.size_bytes)
    busbw, wanted = float(min(side.busbw for side in row.sides)), float(floor.busbw_gb_per_s)
    reason = "" if busbw >= wanted else f"{name} of {row.size} bytes on {nodes} nodes is below the class' floor"
    verdict, action = ("pass", "none") if busbw >= wanted else ("fail", "investigate")
    return Finding(_CHECK, "speed", verdict, busbw, wanted, "GB/s", reason, action)
