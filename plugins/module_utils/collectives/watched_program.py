"""A program of somebody else's, such as nccl-tests, with what the links of its node did meanwhile.

Started once per rank by ``srun`` as ``muster watch-links ... -- PROGRAM ...``.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from ..words.answer_lines import pack
from .collective import CollectiveError, place_from
from .link_changes import LinkWatch

# As a shell has it.
EXIT_NOT_STARTED, EXIT_SIGNALLED = 127, 128


def main(arguments: Sequence[str] | None = None, _version: str = "") -> int:
    """Run the program as one rank and return its exit status; a node's first rank then prints what links did."""
    parser = argparse.ArgumentParser(
        prog="muster watch-links", description="Run a program as one rank, and tell what links of the node did."
    )
    known = "interface, rail such as rail0=0000:1a:00.0, or * for every interface"
    parser.add_argument("--link", action="append", default=[], help=known)
    parser.add_argument("program", nargs="+", help="what to run, after --")
    options = parser.parse_args(arguments)
    try:
        place = place_from(os.environ)
    except CollectiveError as exc:
        sys.stderr.write(f"muster watch-links: {exc}\n")
        return 2
    watch = LinkWatch(() if place.local_rank else options.link).start()
    # Slurm ends a step by SIGTERM to all its processes. This one stays to tell: a link may be why the program hung.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        # Files that srun left open may be how ranks find each other.
        process = subprocess.Popen(options.program, close_fds=False)
    except OSError as exc:
        sys.stderr.write(f"muster watch-links: {options.program[0]}: {exc.strerror}\n")
        return EXIT_NOT_STARTED
    status = process.wait()
    if not place.local_rank:
        # A program that crashed may have left a line without its end.
        # The program may tell where its ranks are by the name that the host has for itself.
        sys.stdout.write("\n" + pack({"node": place.node, "host": os.uname().nodename, "links": watch.told()}))
    return status if status >= 0 else EXIT_SIGNALLED - status
