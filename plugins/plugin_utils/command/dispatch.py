"""The command ``muster`` for people: one table of subcommands, one form of output, exit status and error for all.

Exit status: 0 done (``judge``: everything passed), 1 something failed, 2 something is incomplete or the input is wrong,
130 interrupted, 141 nobody reads the output any more. With ``--json`` one object is printed, whose ``format`` is raised
when a key changes its meaning.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.printable import printable

# Subcommand: the module beside this one that has ``add_arguments`` and ``run``, and what ``muster --help`` says of it.
SUBCOMMANDS = {
    "program": ("program", "write the program that nodes run, one file that python3 starts"),
    "draft": ("draft", "write a fleet file with a hardware class that is learned from good hosts"),
    "judge": ("judge", "judge saved outputs of tools against a hardware class"),
    "version": ("version", "print the versions of Muster and of what it runs on"),
}
FORMAT = 1
FAILED, WRONG, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141


@dataclass(frozen=True)
class Answer:
    """What a subcommand found: ``text`` for people (none where it has printed), ``data`` for programs, exit status."""

    text: str
    data: Mapping[str, Any]
    status: int = 0


class CommandError(MusterError, ValueError):
    """Input that a subcommand cannot use; says where, what was found and what was expected."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser(words).parse_args(words)
    try:
        answer = _answer(options)
        said = _json(options.command, answer) if options.json else answer.text
        if said:
            print(printable(said))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes once more at its end, and would print a traceback then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return answer.status


def _answer(options: argparse.Namespace) -> Answer:
    try:
        answer: Answer = _module(options.command).run(options)
    except (MusterError, OSError) as exc:
        if not options.json:
            print(printable(f"muster {options.command}: {exc}"), file=sys.stderr)
            raise SystemExit(WRONG) from exc
        return Answer("", {"error": str(exc)}, WRONG)
    return answer


def _json(command: str, answer: Answer) -> str:
    head = {"format": FORMAT, "command": command, "status": answer.status}
    return json.dumps({**head, **answer.data}, indent=2, sort_keys=True)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="muster", description="Bring hosts up, and see what is known of them.")
    subcommands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, summary) in SUBCOMMANDS.items():
        subcommand = subcommands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        # Only the one that is asked for is imported: some need libraries that take a second to load.
        if name in words:
            _module(name).add_arguments(subcommand)
        subcommand.add_argument("--json", action="store_true", help="print one JSON object for programs")
    return parser


def _module(name: str) -> Any:
    return importlib.import_module(f".{SUBCOMMANDS[name][0]}", __package__)


if __name__ == "__main__":
    sys.exit(main())
