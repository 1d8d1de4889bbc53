"""What the subcommands of the node program share: their usual places, and how they report wrong input."""

from __future__ import annotations

import argparse
import os
import sys

STATE_DIRECTORY = "/var/lib/muster"
EXPECT = "/etc/muster/expect.json"
SETTINGS = "/etc/muster/hooks.json"


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that Slurm calls on its own node."""
    parser.add_argument("--node", help="this host's name in Slurm; SLURMD_NODENAME, or the host's own")
    parser.add_argument("--expect", default=EXPECT, help=f"file with the expectations (JSON); {EXPECT}")
    parser.add_argument("--settings", default=SETTINGS, help=f"file with the settings of the hooks (JSON); {SETTINGS}")
    parser.add_argument("--state-directory", default=STATE_DIRECTORY)


def node_of(options: argparse.Namespace) -> str:
    """Return this host's name: as given, as slurmd says, or the host's own."""
    return str(options.node or os.environ.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0])


def wrong(text: str) -> int:
    """Report input that cannot be used, and return the exit status for it."""
    print(f"muster: {text}", file=sys.stderr)
    return 2
