"""A host in one examination: a tool that hung is not waited for again, and all of it together is over at a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..host.host import Host, Output

# A sound host takes seconds, one whose BMC reads its sensors slowly a minute or two. Each tool has a limit of its own.
EXAMINATION_SECONDS = 300.0


class BoundedHost:
    """The host as the probes of one examination see it; ``next_probe`` is called before each of them.

    A driver that lost a GPU lets every nvidia-smi wait for as long as it may. One probe pays for that. Within a probe a
    tool is asked for each device, since it may hang for one of them alone.
    """

    def __init__(self, host: Host, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._seconds = seconds
        self._monotonic = monotonic
        self._deadline = monotonic() + seconds
        self._hung: set[tuple[str, ...]] = set()
        self._left_out: frozenset[tuple[str, ...]] = frozenset()

    def next_probe(self) -> None:
        """Ask no tool again that has hung so far."""
        self._left_out = frozenset(self._hung)

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        """Run a tool, unless it hung in an earlier probe or the time is up."""
        tool = _tool(argv)
        if tool in self._left_out:
            return Output(rc=None, error=f"not run: {argv[0]} hung before")
        left = self._deadline - self._monotonic()
        if left <= 0:
            return Output(rc=None, error=f"{argv[0]}: not run: the examination's {self._seconds:g} s are over")
        output = self._host.run(argv, min(timeout_seconds, left))
        if output.timed_out:
            self._hung.add(tool)
            if left < timeout_seconds:
                return replace(output, error=f"{output.error}, when the examination's {self._seconds:g} s were over")
        return output

    def read(self, path: str) -> Output:
        """Read a file."""
        return self._host.read(path)

    def paths(self, *patterns: str) -> list[str]:
        """Return the paths that the patterns name."""
        return self._host.paths(*patterns)


def _tool(argv: Sequence[str]) -> tuple[str, ...]:
    """Return what tells a tool from others: of a program that is given to Python as text, the text too."""
    words = list(argv)
    return tuple(words[: words.index("-c") + 2]) if "-c" in words else (words[0],)
