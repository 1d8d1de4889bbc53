"""``ib_write_bw --help``: what the installed perftest can do (4.5 of Debian 12 and 25.01, with CUDA and without).

Asked for help it ends with status 1 and says nothing on stderr. A build with CUDA does not start where the driver's
``libcuda.so.1`` is missing.
"""

from __future__ import annotations

import re

from ..host.host import Host, Output, Unreadable
from ..rail_test.perftest import BANDWIDTH
from ..words.expectations import Expectations

NAME = "perftest"
ARGV = (BANDWIDTH, "--help")
TIMEOUT_SECONDS = 10.0

_OPTION = re.compile(r"^\s+(?:-\w, )?(--[\w-]+)", re.MULTILINE | re.ASCII)


def collect(host: Host, expect: Expectations) -> Output:
    """Ask for help; no device is opened."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> frozenset[str]:
    """Return the long options, such as ``--use_cuda``; raises Unreadable."""
    if output.rc not in (0, 1) or output.stderr.strip():
        raise Unreadable(f"exit status {output.rc}: {output.stderr.strip()[:200] or 'no message'}")
    if not output.stdout.startswith("Usage:") or not output.stdout.endswith("\n"):
        raise Unreadable(f"{output.stdout[:60]!r}, expected perftest's usage and options")
    return frozenset(_OPTION.findall(output.stdout))
