"""``muster prolog`` and ``muster epilog``, as Slurm calls them around a job."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..in_service import job_hooks
from .command_line import add_host_options, node_of

RUN_DIRECTORY = "/run/muster"


def prolog(arguments: Sequence[str], _version: str) -> int:
    """Return 0 for pass, 1 for anything else."""
    return _run("prolog", "Look at GPUs, links and log before a job starts.", arguments)


def epilog(arguments: Sequence[str], _version: str) -> int:
    """Return 0 for pass, 1 for anything else."""
    return _run("epilog", "End what a job left behind, and look at what it did to the host.", arguments)


def _run(hook: str, description: str, arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"muster {hook}", description=description, epilog="Exit status: 0 pass, 1 anything else."
    )
    add_host_options(parser)
    parser.add_argument("--run-directory", default=RUN_DIRECTORY, help=f"kept while a job runs; {RUN_DIRECTORY}")
    options = parser.parse_args(arguments)
    return job_hooks.run(
        hook, options.expect, options.settings, options.state_directory, options.run_directory, node_of(options)
    )
