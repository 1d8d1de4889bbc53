"""Collecting one host: every probe of an examination once, with all secrets masked before a probe sees them.

What an archive may hold is what ``probes/`` names. Which devices they are asked of, sysfs tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..examination.examine import Probe, collect
from ..examination.registry import PROBES, probes_of
from ..host.host import Host, Output
from ..words.expectations import Expectations
from .archive import Collected, Taken
from .masking import masked
from .wide_expectations import wide_expectations

STAGES = ("preflight", "burn_in", "health")
# What no check asks: who lies at the other end of each cable, and where GPUs and NICs lie to each other.
BESIDE = ("infiniband_neighbours", "lldp", "topology")
# What Muster itself has kept on a host says nothing of what the host is.
LEFT_OUT = ("heartbeat", "preflights")


def collect_host(  # noqa: PLR0913, PLR0917 -- what an archive says of itself
    host: Host, name: str, now: float, version: str, tool_path: str, root: str
) -> Collected:
    """Return what every probe gives on this host, which is called ``name``, at ``now`` (seconds since 1970).

    A probe that fails or hangs costs its own output; all together take the time of an examination at most.
    """
    expect = wide_expectations(host, tool_path, root)
    probes = [_Recorded(PROBES[probe]) for probe in collected_probes()]
    outputs = collect(host, probes, expect)
    return Collected(name, now, outputs, tuple(_taken(probes)), tool_path, root, version)


def collected_probes() -> tuple[str, ...]:
    """Return the names of the probes that are run, sorted."""
    asked = {probe for stage in STAGES for probe in probes_of(stage)}
    return tuple(sorted(asked.union(BESIDE).difference(LEFT_OUT)))


class _Recorded:
    """A probe that keeps a list of what it took from the host."""

    def __init__(self, probe: Probe) -> None:
        self.NAME = probe.NAME
        self.parse = probe.parse
        self.taken: list[Taken] = []
        self._probe = probe

    def collect(self, host: Host, expect: Expectations) -> Output:
        return self._probe.collect(_MaskedHost(host, self.NAME, self.taken), expect)


class _MaskedHost:
    """The host as one probe sees it: without secrets, and with a list of what was run and read."""

    def __init__(self, host: Host, probe: str, taken: list[Taken]) -> None:
        self._host = host
        self._probe = probe
        self._taken = taken

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        # A program that is given to Python as text is ours, and long.
        what = " ".join("..." if "\n" in word else word for word in argv)
        return self._masked(what, self._host.run(argv, timeout_seconds))

    def read(self, path: str) -> Output:
        return self._masked(path, self._host.read(path))

    def paths(self, *patterns: str) -> list[str]:
        return self._host.paths(*patterns)

    def _masked(self, what: str, output: Output) -> Output:
        texts = [masked(text) for text in (output.stdout, output.stderr, output.error)]
        (stdout, _), (stderr, _), (error, _) = texts
        size = len(stdout.encode("utf-8", "replace")) + len(stderr.encode("utf-8", "replace"))
        self._taken.append(Taken(self._probe, masked(what)[0], size, sum(count for _, count in texts)))
        return replace(output, stdout=stdout, stderr=stderr, error=error)


def _taken(probes: Sequence[_Recorded]) -> Iterator[Taken]:
    """Yield what was taken, each tool and file of a probe once."""
    for probe in probes:
        yield from {taken.what: taken for taken in probe.taken}.values()
