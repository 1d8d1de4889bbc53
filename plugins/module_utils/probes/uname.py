"""``uname -r``: the running kernel."""

from __future__ import annotations

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "uname"
ARGV = ("uname", "-r")
TIMEOUT_SECONDS = 5.0


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> str:
    """Return the release, such as ``6.1.0-28-amd64``; raises Unreadable."""
    words = output.stdout.split()
    if output.rc != 0 or len(words) != 1:
        raise Unreadable(f"exit status {output.rc}, printed {output.stdout[:60]!r}, expected one word")
    return words[0]
