"""``muster collect``: one archive of all that is examined on this host, from which a hardware class can be drafted."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, TextIO

from ..collecting.archive import SUFFIX, Collected, Taken, write_archive
from ..collecting.collect import collect_host
from ..host.evidence_store import valid_id
from ..host.host import TOOL_PATH, LocalHost
from ..host.whole_files import PRIVATE, new_file
from ..words.printable import printable
from .command_line import node_of, wrong

STANDARD_OUTPUT = "-"
# So many files of one probe are listed one by one; all of them are in the archive's manifest.json.
_LISTED = 4


def main(arguments: Sequence[str], version: str) -> int:
    """Write the archive, print what it holds and return 0; 1 if it cannot be written, 2 for wrong input."""
    parser = argparse.ArgumentParser(
        prog="muster collect",
        description="Make one archive of all that is examined on this host, without passwords and tokens. Nothing on "
        "the host is changed.",
    )
    parser.add_argument("--output", help="file that is made, - for standard output; muster-NODE-TIME.tar.gz")
    parser.add_argument("--node", help="this host's name in the fleet; SLURMD_NODENAME, or the host's own")
    parser.add_argument("--tool-path", default=TOOL_PATH, help=f"PATH in which tools are looked up; {TOOL_PATH}")
    parser.add_argument("--root", default="/", help="what stands before every path that is read; /")
    options = parser.parse_args(arguments)
    name, now = node_of(options), time.time()
    path = options.output or f"muster-{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}{SUFFIX}"
    if why := _wrong_input(name, options.root, path):
        return wrong(why)
    if os.geteuid() != 0:
        print("muster: not root: what only root may read (DIMMs, BMC, NIC firmware, logs) is missing", file=sys.stderr)
    host = LocalHost(options.tool_path, options.root)
    collected = collect_host(host, name, now, version, options.tool_path, options.root)
    try:
        with _opened(path) as file:
            write_archive(file, collected)
    except FileExistsError:
        return wrong(_exists(path))
    except BrokenPipeError:
        # Nobody reads standard output any more; the program as a whole has a status for that.
        raise
    except OSError as exc:
        print(f"muster: {path} could not be written: {exc.strerror or exc}", file=sys.stderr)
        return 1
    listing = sys.stderr if path == STANDARD_OUTPUT else sys.stdout
    _print_taken(collected, listing)
    print(path, file=listing)
    return 0


def _wrong_input(name: str, root: str, path: str) -> str:
    """Return what cannot be used, before minutes go into the collecting; "" for nothing."""
    if not valid_id(name):
        return f"--node is {name!r}, expected letters, digits, '-', '_' and '.'"
    if not Path(root).is_dir():
        return f"--root is {root!r}, expected a directory"
    if path == STANDARD_OUTPUT:
        return "--output is - and standard output a terminal, expected a file or pipe" if sys.stdout.isatty() else ""
    if os.path.lexists(path):
        return _exists(path)
    return "" if Path(path).parent.is_dir() else f"--output is {path!r}, expected a file in a directory that exists"


def _exists(path: str) -> str:
    return f"{path} exists, expected a name that is free"


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Give a new file that is its owner's alone, and is removed when the block raises; or standard output."""
    if path == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with new_file(path, PRIVATE) as file:
        yield file


def _print_taken(collected: Collected, listing: TextIO) -> None:
    """Print what was taken, and which probes could read nothing.

    A tool has a line of its own, and so have a few files of a probe; many of them, as counters are, have one together.
    """
    width = max(map(len, collected.outputs))
    for probe, all_taken in groupby(collected.taken, lambda taken: taken.probe):
        for what, size, hidden in _lines_of(list(all_taken)):
            told = f"  {hidden} masked" if hidden else ""
            print(printable(f"{probe:{width}}  {what}  {size} bytes{told}"), file=listing)
    for probe, output in collected.outputs.items():
        if output.rc is None:
            print(printable(f"{probe:{width}}  not read: {output.error}"), file=listing)


def _lines_of(taken: Sequence[Taken]) -> Iterator[tuple[str, int, int]]:
    """Yield what one probe took, its bytes and how many values were masked: files by directory where they are many."""
    for each in taken:
        if not _is_file(each):
            yield each.what, each.size, each.masked
    # Below /sys/class or /proc/driver, say.
    for _, group in groupby(sorted(filter(_is_file, taken), key=_place), _place):
        files = list(group)
        if len(files) <= _LISTED:
            yield from ((each.what, each.size, each.masked) for each in files)
            continue
        place = os.path.commonpath([each.what for each in files])
        size, hidden = sum(each.size for each in files), sum(each.masked for each in files)
        yield f"{place}: {len(files)} files", size, hidden


def _is_file(taken: Taken) -> bool:
    return taken.what.startswith("/") and " " not in taken.what


def _place(taken: Taken) -> list[str]:
    return taken.what.split("/")[:3]
