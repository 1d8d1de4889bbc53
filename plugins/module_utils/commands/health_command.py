"""``muster health``: the health check as people and Slurm call it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .command_line import add_host_options, node_of


def main(arguments: Sequence[str], _version: str) -> int:
    """Return 0 for pass, 1 for fail, 2 where something was not read or the heartbeat is no answer."""
    parser = argparse.ArgumentParser(
        prog="muster health",
        description="Look at what is cheap and cannot hang, and leave a heartbeat; never takes more than 10 s.",
        epilog="Exit status: 0 pass, 1 fail, 2 incomplete (something was not read, or the heartbeat is no answer).",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--status", action="store_true", help="judge the last heartbeat instead of the host")
    what.add_argument("--drain", action="store_true", help="drain the node in Slurm if it does not pass (Slurm's hook)")
    parser.add_argument("--max-age", type=float, default=900.0, metavar="SECONDS", help="of the heartbeat; 900")
    add_host_options(parser)
    options = parser.parse_args(arguments)
    if options.drain:
        from ..in_service import health_drain  # noqa: PLC0415 -- start-up budget

        return health_drain.run(options.expect, options.settings, options.state_directory, node_of(options))
    from ..in_service import health  # noqa: PLC0415 -- start-up budget

    if options.status:
        return health.status(options.state_directory, options.max_age)
    return health.run(options.expect, options.settings, options.state_directory, node_of(options))
