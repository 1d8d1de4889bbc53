"""The NVLink subnet manager, nvlsm: its process, and what nvidia-fabricmanager-start.sh (580.178.04) starts it with.

The process is asked for by its name. Where its file of the process ID lies depends on the release and on how the unit
starts it, and a file can outlive its process. Format: ps(1) of procps; exit status 1 is no process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "nvlsm"
# No host with an nvlsm was at hand; its log (/var/log/nvlsm.log) is not read, as nobody has published its wordings.
FORMAT_UNVERIFIED = True
ARGV = ("ps", "-C", "nvlsm", "-o", "euid=,stat=")
TIMEOUT_SECONDS = 10.0
PROGRAM = "/opt/nvidia/nvlsm/sbin/nvlsm"
MODULE = "ib_umad"

_FILES = (f"/sys/module/{MODULE}", PROGRAM)
_PROCESS = re.compile(r" *([0-9]+) +([A-Za-z][A-Za-z<+]*) *")


@dataclass(frozen=True)
class SubnetManager:
    """The states of root's processes in the letters of ps, whether nvlsm is installed, whether ib_umad is loaded."""

    states: tuple[str, ...]
    installed: bool
    module: bool


def collect(host: Host, expect: Expectations) -> Output:
    """Ask for the process, and see which of the files are there."""
    there = host.paths(*_FILES)
    lines = [f"{path} {'yes' if path in there else 'no'}\n" for path in _FILES]
    return blocks.joined({"process": host.run(ARGV, TIMEOUT_SECONDS), "files": Output("".join(lines))})


def parse(output: Output) -> SubnetManager:
    """Return what was found; raises Unreadable."""
    require_success(output)
    found = blocks.split(output.stdout)
    process = found.get("process", Output(rc=None, error="no answer"))
    text = process.stdout
    # ps ends with 1 where it found no process, and says nothing then.
    if process.error or process.rc not in (0, 1) or (process.rc == 0) != bool(text.strip()):
        raise Unreadable(f"ps: {process.error or process.stderr or f'exit status {process.rc}, {text[:60]!r}'}")
    processes = [_PROCESS.fullmatch(line) for line in text.splitlines()]
    # A user's program may have the name too; the fabric manager's unit has no User=.
    states = tuple(match.group(2) for match in processes if match and match.group(1) == "0")
    if not all(processes):
        raise Unreadable(f"ps tells {text[:60]!r}, expected user and state of each process such as 0 Ssl")
    lines = found.get("files", Output()).stdout.splitlines()
    words = dict(line.rsplit(" ", 1) for line in lines if " " in line)
    if [*words] != [*_FILES] or len(lines) != len(_FILES) or not {*words.values()} <= {"yes", "no"}:
        raise Unreadable(f"files are {lines}, expected {', '.join(_FILES)}, each with yes or no")
    return SubnetManager(states, words[PROGRAM] == "yes", words[_FILES[0]] == "yes")
