"""``muster program``: the program that nodes run, as one file that python3 starts."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import new_file
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import build

from .dispatch import Answer, CommandError

STDOUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where it is written."""
    parser.add_argument("file", metavar="FILE", help=f"a new file, {STDOUT} for standard output")


def run(options: argparse.Namespace) -> Answer:
    """Write the program. Raises CommandError for a file that has another content."""
    content = build()
    if options.file == STDOUT:
        if options.json or os.isatty(sys.stdout.fileno()):
            raise CommandError("the program would be printed, expected a pipe or a file and no --json")
        sys.stdout.buffer.write(content)
        return Answer("", {})
    path = Path(options.file)
    if not path.is_file() or path.read_bytes() != content:
        try:
            with new_file(path, 0o755) as file:
                file.write(content)
        except FileExistsError as exc:
            raise CommandError(f"{path}: exists with another content, expected the name of a new file") from exc
    # To root's own directory: what lies in /tmp others may have made.
    commands = [f"scp {path} root@HOST:", f"ssh root@HOST python3 {path.name} collect"]
    return Answer("\n".join([str(path), *commands]), {"file": str(path), "commands": commands})
