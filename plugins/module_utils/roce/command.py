"""``muster roce``: one port set, or checked, from its file; what the unit runs at boot."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..expectations import ExpectationError
from ..host import TOOL_PATH
from .apply import apply, check
from .decide import shown
from .machine import LocalMachine
from .settings import PortSettings


def run(options: argparse.Namespace) -> int:
    """Return 0 where the port is as declared, 1 where it is not, 2 for a file that cannot be read."""
    try:
        settings = PortSettings.from_json(Path(options.settings).read_text(encoding="utf-8"))
    except (OSError, ExpectationError) as exc:
        print(f"muster: {options.settings}: {exc}", file=sys.stderr)
        return 2
    except ValueError as exc:
        print(f"muster: {options.settings} is not JSON: {exc}", file=sys.stderr)
        return 2
    machine = LocalMachine(options.tool_path or TOOL_PATH, options.root)
    outcome = check(machine, settings) if options.action == "check" else apply(machine, settings, options.wait)
    if options.action == "apply":
        for name, value in outcome.after.items():
            print(f"{outcome.device} ({outcome.interface}): {name}: {shown(outcome.before[name])} -> {shown(value)}")
    for problem in outcome.problems:
        print(f"muster: {problem}", file=sys.stderr)
    return 1 if outcome.problems else 0
