"""Scaling governor of every CPU (Linux, Documentation/admin-guide/pm/cpufreq.rst)."""

from __future__ import annotations

import re

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "cpufreq"
# No output of a real machine was at hand.
FORMAT_UNVERIFIED = True
PATHS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"

_PATH = re.compile(r".*/cpu(\d+)/cpufreq/scaling_governor", re.ASCII)


def collect(host: Host, expect: Expectations) -> Output:
    """Read one file for each CPU that is on."""
    return blocks.read_files(host, PATHS)


def parse(output: Output) -> dict[int, str]:
    """Return the governor by CPU number; raises Unreadable (a guest of a cloud has no cpufreq at all)."""
    governors = {}
    for path, file in blocks.split(output.stdout).items():
        match = _PATH.fullmatch(path)
        if not match:
            continue
        governor = file.stdout.strip()
        if file.rc != 0 or not re.fullmatch(r"\w+", governor):
            raise Unreadable(f"{path}: found {file.error or repr(governor[:40])}, expected the name of a governor")
        governors[int(match.group(1))] = governor
    if not governors:
        raise Unreadable(f"no file {PATHS}, expected one for each CPU")
    return governors
