"""``stress-ng --stream`` on the CPUs of each NUMA node in turn: how fast the node's memory is read.

stress-ng's stressor follows the STREAM kernels, with buffers larger than the last cache; its rates are compared with
those of the host's other NUMA nodes and of the class, never with published STREAM results. Three wordings of the rate
of one worker: "memory rate: R MB read/sec, W MB write/sec, F Mflop/sec (instance N)" (0.13 to 0.19), without read and
write apart before.
"""

from __future__ import annotations

import re
from typing import Union

from ..formats.stress_ng import joined_streams, run_of
from ..host.blocks import joined, split
from ..host.host import Host, Output, Unreadable
from ..probes.numa import cpus_in
from ..words.expectations import Expectations, NoSettings, stated

NAME = "memory_bandwidth"
RULES = 1
SETTINGS = NoSettings
# Whatever runs beside it takes its share of the bandwidth.
EXCLUSIVE = True
_MARGIN_SECONDS = 60.0

_RATE = re.compile(
    r"(?:stress-ng-)?stream: memory rate: (\d+(?:\.\d+)?) MB(?: read)?/sec.*\(instance (\d+)\)", re.ASCII
)

# GB/s of all workers of one NUMA node together, or why there is no number.
Rate = Union[float, str]


def collect(host: Host, expect: Expectations, seconds: float, settings: NoSettings) -> Output:
    """Load the memory of one NUMA node after the other, each for its share of the time."""
    count = stated(expect.memory_bandwidth).nodes
    share = max(1, int(seconds / count))
    return joined({f"numa {number}": _of_node(host, number, share) for number in range(count)})


def _of_node(host: Host, number: int, seconds: int) -> Output:
    file = host.read(f"/sys/devices/system/node/node{number}/cpulist")
    cpus = file.stdout.strip()
    if file.rc != 0 or not cpus:
        return Output(rc=None, error=file.error or f"NUMA node {number} has no CPUs")
    workers = cpus_in(cpus)
    if not workers:
        return Output(rc=None, error=f"NUMA node {number}: CPUs {cpus[:40]!r}, expected a list such as 0-47,96-143")
    command = ("stress-ng", "--stream", str(workers), "--taskset", cpus, "--metrics", "--timeout", f"{seconds}s")
    return joined_streams(host.run(command, seconds + _MARGIN_SECONDS))


def parse(output: Output) -> dict[str, Rate]:
    """Return each NUMA node's rate by the name of its part, as text why there is none; raises Unreadable."""
    parts = split(output.stdout)
    if not parts or not output.stdout.startswith("==> "):
        raise Unreadable(f"begins with {output.stdout[:40]!r}, expected a heading for each NUMA node")
    return {part: _rate(answer) for part, answer in parts.items()}


def _rate(answer: Output) -> Rate:
    try:
        run = run_of(answer)
    except Unreadable as exc:
        return str(exc)
    if not run.successful or run.failures:
        return f"stress-ng ends with status {run.exit_status}: {'; '.join((*run.failures, *run.troubles)[:3])}"[:300]
    rates = {match.group(2): float(match.group(1)) for text in run.lines if (match := _RATE.search(text))}
    begun = next((re.search(r"(\d+) stream", text) for text in run.lines if "dispatching hogs" in text), None)
    if begun is None or len(rates) != int(begun.group(1)):
        wanted = begun.group(1) if begun else "an unknown number of"
        return f"{len(rates)} of {wanted} workers give a rate (a run of less than about 10 s is too short)"
    return sum(rates.values()) / 1000
