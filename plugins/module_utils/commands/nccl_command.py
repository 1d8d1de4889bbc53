"""``muster nccl``: write NCCL's variables with the names of this boot, or check them; what the unit runs at boot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..host.host import LocalHost, Unreadable
from ..nccl.nccl_conf import CONF, Settings, apply, check
from .command_line import wrong

NCCL = "/etc/muster/nccl.json"


def main(arguments: Sequence[str], _version: str) -> int:
    """Return 0 where the file is as declared, 1 where it is not, 2 for settings that cannot be read."""
    parser = argparse.ArgumentParser(
        prog="muster nccl",
        description="Write NCCL's variables with what this host calls its rails, or check them.",
        epilog="Exit status: 0 the file is as declared, 1 it is not, or a rail has no name, 2 no readable settings.",
    )
    parser.add_argument("action", choices=("apply", "check"))
    parser.add_argument("--settings", default=NCCL, metavar="FILE", help=f"variables and rails (JSON); {NCCL}")
    parser.add_argument("--conf", default=CONF, metavar="FILE", help=f"what NCCL reads; {CONF}")
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="for a device that is late")
    parser.add_argument("--root", default="/", help="what stands before /sys; /")
    options = parser.parse_args(arguments)
    try:
        settings = Settings.from_json(Path(options.settings).read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        return wrong(f"{options.settings}: {exc}")
    host, checked = LocalHost(root=options.root), options.action == "check"
    try:
        outcome = check(host, settings, options.conf) if checked else apply(host, settings, options.wait, options.conf)
    except (OSError, Unreadable) as exc:
        print(f"muster: {exc}", file=sys.stderr)
        return 1
    for problem in outcome.problems:
        print(f"muster: {problem}", file=sys.stderr)
    if outcome.diff:
        print(f"{options.conf} {'is not as it has to be' if checked else 'written'}")
    return 1 if outcome.problems or (checked and outcome.diff) else 0
