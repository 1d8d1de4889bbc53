"""What ``stress-ng --metrics`` prints: whether it came to its end, its table of work done, and what it complains of.

Read from the text of stress-ng 0.13 to 0.19 (older ones print to standard error, with other columns behind the first
six; newer ones may put the time of day before ``info:``). The end is "successful run completed" or "unsuccessful run
completed". A stressor that did no work at all is counted by stress-ng as a success, so the table has to be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..host.host import Output, Unreadable

# What stress-ng(1) means by its exit status: 2 is a stressor that failed, 3 one that found no resources, 4 one that is
# not implemented here, 5 one that was killed, 7 metrics that cannot be trusted.
EXITS = {
    1: "wrong options or no resources",
    2: "a stressor failed",
    3: "a stressor could not start for want of resources",
    4: "a stressor is not implemented here",
    5: "a stressor was killed by a signal",
    6: "a stressor ended by its own exit",
    7: "its metrics cannot be trusted",
}

_LINE = re.compile(r"stress-ng: (?:[\d:.]+ )?(\w+): +\[\d+\] (.*)", re.ASCII)
_ROW = re.compile(r"([a-z][\w-]*) +(\d+) +(\d+\.\d+) +(\d+\.\d+) +(\d+\.\d+) +(\d+\.\d+)(?: .*)?", re.ASCII)
_END = re.compile(r"(un)?successful run completed in ")
_SKIPPED = re.compile(r"(?:stressors? )?skipped:? [1-9]\d*|\bskipping stressor")


@dataclass(frozen=True)
class Run:
    """``operations``: work done by stressor. ``failures``: what stress-ng says went wrong with the results.

    ``troubles``: why a stressor did not run (skipped, killed, no memory). ``lines``: every message, for what a single
    stressor adds.
    """

    successful: bool
    exit_status: int
    operations: Mapping[str, int]
    failures: tuple[str, ...]
    troubles: tuple[str, ...]
    lines: tuple[str, ...]


def joined_streams(output: Output) -> Output:
    """Return the output with both streams as one text: which of them stress-ng uses differs between versions."""
    return Output(output.stdout + output.stderr, "", output.rc, output.timed_out, output.error)


def run_of(output: Output) -> Run:
    """Return what one run of stress-ng says; raises Unreadable where it did not come to its end."""
    if output.rc is None:
        raise Unreadable(output.error or "stress-ng could not be run")
    if output.stdout and not output.stdout.endswith("\n"):
        raise Unreadable(f"ends with {output.stdout[-40:]!r}, expected whole lines")
    lines = [match.groups() for line in output.stdout.splitlines() if (match := _LINE.match(line))]
    ends = [match for _, text in lines if (match := _END.match(text))]
    if not ends:
        said = " ".join(output.stdout.split())[-200:] or output.stderr[:200]
        raise Unreadable(f"exit status {output.rc}, no end of the run: {said or 'no message'}")
    operations = {
        match.group(1): int(match.group(2))
        for kind, text in lines
        if kind in ("metrc", "info") and (match := _ROW.fullmatch(text.rstrip()))
    }
    failures = [text for kind, text in lines if kind == "fail"]
    troubles = [text for kind, text in lines if kind in ("error", "warn") or _SKIPPED.search(text)]
    return Run(
        not any(match.group(1) for match in ends) and output.rc == 0,
        output.rc,
        operations,
        tuple(failures),
        tuple(troubles),
        tuple(text for _, text in lines),
    )
