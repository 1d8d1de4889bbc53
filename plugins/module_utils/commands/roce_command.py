"""``muster roce``: set a port from its file, or check it; what the unit runs at boot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..host.host import TOOL_PATH
from ..host.machine import LocalMachine
from ..roce.apply import apply, check
from ..roce.decide import shown
from ..roce.settings import PortSettings
from ..words.reader import ReadError
from .command_line import wrong


def main(arguments: Sequence[str], _version: str) -> int:
    """Return 0 where the port is as declared, 1 where it is not, 2 for a file that cannot be read."""
    parser = argparse.ArgumentParser(
        prog="muster roce",
        description="Set a RoCE port from its file, or check it.",
        epilog="Exit status: 0 the port is as declared, 1 it is not, 2 the file cannot be read.",
    )
    parser.add_argument("action", choices=("apply", "check"))
    parser.add_argument("--settings", required=True, metavar="FILE", help="such as /etc/muster/roce/rail0.json")
    parser.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="for a device or address that is late"
    )
    parser.add_argument("--root", default="/", help="what stands before every path; /")
    parser.add_argument("--tool-path", metavar="PATH", help="where tools are looked up")
    options = parser.parse_args(arguments)
    try:
        settings = PortSettings.from_json(Path(options.settings).read_text(encoding="utf-8"))
    except (OSError, ReadError) as exc:
        return wrong(f"{options.settings}: {exc}")
    except ValueError as exc:
        return wrong(f"{options.settings} is not JSON: {exc}")
    machine = LocalMachine(options.tool_path or TOOL_PATH, options.root)
    outcome = check(machine, settings) if options.action == "check" else apply(machine, settings, options.wait)
    if options.action == "apply":
        for name, value in outcome.after.items():
            print(f"{outcome.place}: {name}: {shown(outcome.before[name])} -> {shown(value)}")
    for problem in outcome.problems:
        print(f"muster: {problem}", file=sys.stderr)
    return 1 if outcome.problems else 0
