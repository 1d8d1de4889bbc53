"""Does every GPU copy to and from the host, and from every other GPU, as fast as the class asks and as its neighbours?

A slow pair of GPUs is laid to the GPU that most slow pairs have in common; where two GPUs share their only slow pair,
either may be the cause, and both are named.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..judging.known_bad import known_pass
from ..stress.nvbandwidth import Bandwidths, Matrix
from ..words.expectations import BandwidthFloor, Expectations, gpu_subjects, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, VERDICTS, Finding

Pair = tuple[int, int]

NAME = "gpu_bandwidth"
RULES = 3
PROBES: tuple[str, ...] = ("nvbandwidth",)
HOST = "host"
UNIT = "GB/s"
# Square matrices: a row and a column for each GPU.
_BETWEEN_GPUS = "device_to_device"
# A number so far over the floor was not measured: no class' link is that much faster than what it must reach.
_IMPLAUSIBLE = 10
# The median of two says nothing about which of them is wrong.
_MIN_FOR_SPREAD = 3


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts, and the host for wrong data; none where the class has no nvbandwidth."""
    parts = gpu_subjects(expect)
    return [*parts.values(), HOST] if parts and expect.nvbandwidth is not None else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for each GPU, its worst test case, and one for the host."""
    run: Bandwidths = values["nvbandwidth"]
    declared = gpu_subjects(expect)
    whole = "data arrive as sent"
    if run.corrupt:
        # No address is printed, and the fault can lie in either GPU, the switches, or how they are partitioned.
        hardware = "CUDA_ERROR" in run.corrupt
        what = "a fault of the hardware" if hardware else "wrong data"
        why = f"nvbandwidth found {what} {'in' if hardware else 'after'} a copy: {run.corrupt}"
        host = Finding(NAME, HOST, FAIL, what, whole, "", why, "investigate")
        rest = f"nvbandwidth stopped at {what} ({run.corrupt})"
        return [
            host,
            *(Finding(NAME, part, INCOMPLETE, reason=rest, action="investigate") for part in declared.values()),
        ]
    floors = stated(expect.nvbandwidth).floors
    lacking = [floor.testcase for floor in floors if floor.testcase not in run.matrices]
    # A test case that nobody asked for and that failed is a failure all the same; one that was waived cannot run here.
    lacking += [name for name, why in run.troubles.items() if name not in lacking and not why.startswith("Waived")]
    if lacking or not floors:
        why = "; ".join(f"{name}: {run.troubles.get(name, 'not reported')}" for name in lacking) or "no test case asked"
        host = Finding(NAME, HOST, INCOMPLETE, None, whole, "", why, "investigate")
    elif why := known_pass("nvbandwidth", run.version, "data"):
        host = Finding(NAME, HOST, INCOMPLETE, None, whole, "", why, "investigate")
    else:
        host = Finding(NAME, HOST, PASS, whole, whole)
    given = [_judged(floor, run, declared, stated(expect.nvbandwidth).spread_percent) for floor in floors]
    return [host, *(_worst([findings[part] for findings in given]) for part in declared.values() if given)]


def _worst(findings: Sequence[Finding]) -> Finding:
    worst = min(findings, key=lambda finding: VERDICTS.index(finding.verdict))
    if worst.verdict != PASS:
        return worst
    return replace(worst, reason=", ".join(f"{finding.reason} {finding.measured} {UNIT}" for finding in findings))


def _judged(
    floor: BandwidthFloor, run: Bandwidths, declared: Mapping[str, str], spread_percent: float
) -> dict[str, Finding]:
    """Return the finding of one test case on each part."""
    name, count = floor.testcase, len(run.addresses)
    matrix = run.matrices.get(name)

    def incomplete(why: str) -> dict[str, Finding]:
        return {
            part: Finding(NAME, part, INCOMPLETE, None, floor.gb_per_s, UNIT, f"{name}: {why}", "investigate")
            for part in declared.values()
        }

    if matrix is None:
        return incomplete(run.troubles.get(name, "not reported"))
    if not count:
        return incomplete("which GPU is which is not known")
    between = name.startswith(_BETWEEN_GPUS)
    if len(matrix) != (count if between else 1) or any(len(row) != count for row in matrix):
        return incomplete(
            f"a matrix of {len(matrix)} x {max((len(row) for row in matrix), default=0)} for {count} GPUs"
        )
    best = _best(matrix, between)
    if floor.gb_per_s is None and len(best) < _MIN_FOR_SPREAD:
        return incomplete("no class floor is known, and too few GPUs were measured to compare them")
    usual = statistics.median(best) if best else 0.0
    least = usual * (1 - spread_percent / 100) if floor.gb_per_s is None else floor.gb_per_s
    bar, passed = "below the class floor", name
    if floor.gb_per_s is None:
        bar, passed = (
            f"over {spread_percent:g} % below the {usual:g} {UNIT} that is usual here",
            f"{name}, no class floor,",
        )
    matrix = tuple(tuple(_plausible(value, least) for value in row) for row in matrix)
    measured, slow = _between(matrix, least) if between else _to_host(matrix[0], least)
    known = [value for value in measured if value is not None]
    middle = statistics.median(known) if len(known) >= _MIN_FOR_SPREAD else 0.0
    findings = incomplete("no number was measured")
    for address, part in declared.items():
        gpu = run.addresses.index(address) if address in run.addresses else None
        value = None if gpu is None else measured[gpu]
        if gpu is None:
            findings[part] = replace(findings[part], reason=f"{name}: nvbandwidth used no GPU at {address}")
        elif gpu in slow:
            # All of them slow is the host's configuration; one of them its own link.
            action = "reseat" if not between and len(slow) < count else "investigate"
            pairs = _slow_pairs(matrix, least, gpu, run.addresses) if between else ""
            why = f"{name}: {bar}{pairs}, as are {len(slow)} of {count} GPUs"
            findings[part] = Finding(NAME, part, FAIL, value, least, UNIT, why, action)
        elif value is not None and value < middle * (1 - spread_percent / 100):
            why = (
                f"{name}: spread across the node's GPUs is over {spread_percent:g} %: their median is {middle:g} {UNIT}"
            )
            findings[part] = Finding(NAME, part, FAIL, value, least, UNIT, why, "investigate")
        elif value is not None:
            findings[part] = Finding(NAME, part, PASS, value, least, UNIT, passed)
    return findings


def _best(matrix: Matrix, between: bool) -> list[float]:
    """Return the fastest that each GPU was measured at: one slow GPU lowers a pair of every other, but not this.

    A GPU at nothing is none to compare with.
    """
    if not between:
        return [value for value in matrix[0] if value]
    pairs = _pairs(matrix)
    own = [[value for pair, value in pairs.items() if gpu in pair and value] for gpu in range(len(matrix))]
    return [max(values) for values in own if values]


def _plausible(value: float | None, least: float) -> float | None:
    return value if value is None or not least or value <= _IMPLAUSIBLE * least else None


def _to_host(row: Sequence[float | None], least: float) -> tuple[list[float | None], set[int]]:
    """Return what each GPU reached, and which of them are slow."""
    return list(row), {gpu for gpu, value in enumerate(row) if value is not None and value < least}


def _between(matrix: Matrix, least: float) -> tuple[list[float | None], set[int]]:
    """Return each GPU's slowest pair, without those laid to another GPU, and the GPUs to which slow pairs are laid."""
    pairs = _pairs(matrix)
    slow: set[int] = set()
    left = [pair for pair, value in pairs.items() if value is not None and value < least]
    while left:
        shares = Counter(gpu for pair in left for gpu in pair)
        most = max(shares.values())
        slow |= {gpu for gpu, share in shares.items() if share == most}
        left = [pair for pair in left if not slow & set(pair)]
    measured: list[float | None] = []
    for gpu in range(len(matrix)):
        own = [value for pair, value in pairs.items() if gpu in pair and (gpu in slow or not slow & set(pair))]
        values = [value for value in own if value is not None]
        measured.append(min(values) if values and (gpu in slow or len(values) == len(own)) else None)
    return measured, slow


def _pairs(matrix: Matrix) -> dict[Pair, float | None]:
    """Return the slower direction of each pair of GPUs, None where one of them was not measured."""
    pairs: dict[Pair, float | None] = {}
    for first in range(len(matrix)):
        for second in range(first + 1, len(matrix)):
            one, other = matrix[first][second], matrix[second][first]
            pairs[first, second] = None if one is None or other is None else min(one, other)
    return pairs


def _slow_pairs(matrix: Matrix, least: float, gpu: int, addresses: Sequence[str]) -> str:
    slow = [pair for pair, value in _pairs(matrix).items() if gpu in pair and value is not None and value < least]
    return f" with {', '.join(addresses[pair[0] if pair[1] == gpu else pair[1]] for pair in slow)}"
