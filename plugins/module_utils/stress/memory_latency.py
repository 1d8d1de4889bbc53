"""``stress-ng --randlist`` on one CPU of each NUMA node in turn: how long its memory takes to answer.

The worker follows a linked list whose items lie in random order, more of them than caches hold, so that each step waits
for the one before; its memory comes from the node of its CPU. Building the list counts as well: the time of one item is
compared with those of the host's other NUMA nodes and of the class, and is no published latency. Output as of stress-ng
0.15.06 (Debian 12), run for this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Union

from ..formats.stress_ng import joined_streams, run_of
from ..host.blocks import joined, split
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, NoSettings, stated

NAME = "memory_latency"
RULES = 1
SETTINGS = NoSettings
# Whatever runs beside it makes the memory busy.
EXCLUSIVE = True
_MARGIN_SECONDS = 60.0
# stress-ng counts whole traversals: of fewer than these one more or less is above 5 %.
_LEAST = 20

_FIRST = re.compile(r"(\d+)(?:[-,]\d+)*\s*", re.ASCII)
_ROW = re.compile(r"randlist +(\d+) +(\d+\.\d+) .*", re.ASCII)


@dataclass(frozen=True)
class Traversals:
    """How often the whole list was followed, and in how many seconds."""

    count: int
    seconds: float


# Of one NUMA node, or why there is nothing.
Measured = Union[Traversals, str]


def collect(host: Host, expect: Expectations, seconds: float, settings: NoSettings) -> Output:
    """Follow the list on one NUMA node after the other, each for its share of the time (a minute is enough)."""
    own = stated(expect.memory_latency)
    share = max(1, int(seconds / own.nodes))
    return joined({f"numa {number}": _of_node(host, number, own.items, share) for number in range(own.nodes)})


def _of_node(host: Host, number: int, items: int, seconds: int) -> Output:
    file = host.read(f"/sys/devices/system/node/node{number}/cpulist")
    if file.rc != 0 or not file.stdout.strip():
        return Output(rc=None, error=file.error or f"NUMA node {number} has no CPUs")
    first = _FIRST.fullmatch(file.stdout)
    if not first:
        return Output(
            rc=None, error=f"NUMA node {number}: CPUs {file.stdout.strip()[:40]!r}, expected a list such as 0-47,96-143"
        )
    command = ("stress-ng", "--randlist", "1", "--randlist-compact", "--randlist-items", str(items))
    limits = ("--taskset", first.group(1), "--metrics", "--timeout", f"{seconds}s")
    return joined_streams(host.run((*command, *limits), seconds + _MARGIN_SECONDS))


def parse(output: Output) -> dict[str, Measured]:
    """Return what each NUMA node did by the name of its part, as text why there is nothing; raises Unreadable."""
    parts = split(output.stdout)
    if not parts or not output.stdout.startswith("==> "):
        raise Unreadable(f"begins with {output.stdout[:40]!r}, expected a heading for each NUMA node")
    return {part: _measured(answer) for part, answer in parts.items()}


def _measured(answer: Output) -> Measured:
    try:
        run = run_of(answer)
    except Unreadable as exc:
        return str(exc)
    if not run.successful or run.failures or run.troubles:
        return f"stress-ng ends with status {run.exit_status}: {'; '.join((*run.failures, *run.troubles)[:3])}"[:300]
    rows = [match for text in run.lines if (match := _ROW.fullmatch(text.rstrip()))]
    if len(rows) != 1:
        return f"{len(rows)} rows of randlist, expected one"
    count, seconds = int(rows[0].group(1)), float(rows[0].group(2))
    if count < _LEAST or seconds <= 0:
        return f"{count} traversals in {seconds:g} s, expected at least {_LEAST}: a longer run, or fewer items"
    return Traversals(count, seconds)
