"""The program ``muster`` that runs on nodes: one table of subcommands, each imported when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

# Subcommand: the function that runs it, called with arguments and version, and what ``muster --help`` says of it.
# Modules are imported late: a hook of Slurm's has half a second in all, and ``--version`` answers at once.
COMMANDS = {
    "examine": ("commands.examine_command:main", "examine this host once; expectations (JSON) on standard input"),
    "burn-in": ("commands.burn_in_command:main", "run a burn-in plan, or look after one"),
    "judge": ("commands.judge_command:main", "judge saved outputs"),
    "judge-again": ("commands.judge_again_command:main", "judge the kept outputs of evidence by the present checks"),
    "collect": ("commands.collect_command:main", "make one archive of all that is examined on this host"),
    "health": ("commands.health_command:main", "look at what is cheap and cannot hang, and leave a heartbeat"),
    "prolog": ("commands.hook_command:prolog", "look at GPUs, links and log before a job starts"),
    "epilog": ("commands.hook_command:epilog", "end what a job left behind, and look at what it did to the host"),
    "roce": ("commands.roce_command:main", "set a RoCE port from its file, or check it"),
    "nccl": ("commands.nccl_command:main", "write NCCL's variables with the names of this boot, or check them"),
    "pcie": ("commands.pcie_command:main", "set the PCIe options that every reboot undoes"),
    "collective": ("collectives.collective:main", "run one rank of a collective"),
    "watch-links": ("collectives.watched_program:main", "run a program as one rank, and tell what links did"),
    "fabric": ("rail_test.fabric_test:main", "run one end of a test of every rail"),
    "nic-load": ("rail_test.nic_load_program:main", "load every rail, turned round inside its NIC"),
    "storage": ("save_test.storage_test:main", "run one node's part in a test of storage"),
    "storage-checkpoint": (
        "save_test.storage_checkpoint:main",
        "run one rank of a PyTorch checkpoint; started by storage",
    ),
    "gpu-stress": ("gpu_load.gpu_stress_program:main", "load every GPU"),
    "gpu-telemetry": ("gpu_load.gpu_telemetry_program:main", "record what the GPUs report while they run"),
}
# What a shell reports for a program that SIGPIPE ended.
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None, version: str = "0") -> int:
    """Run one subcommand and return its exit status; 2 for a wrong command line, 141 where nobody reads the output."""
    try:
        status = _run(list(sys.argv[1:] if arguments is None else arguments), version)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at its end, and would print a traceback then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return status


def _run(words: list[str], version: str) -> int:
    if words[:1] == ["--version"]:
        print(f"muster {version}")
        return 0
    if words[:1] in (["-h"], ["--help"]):
        print(_help())
        return 0
    if not words or words[0] not in COMMANDS:
        found = repr(words[0]) if words else "no command"
        print(f"muster: found {found}, expected one of {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    module, _, function = COMMANDS[words[0]][0].partition(":")
    return int(getattr(importlib.import_module(f".{module}", __package__), function)(words[1:], version))


def _help() -> str:
    rows = [f"  {name:18}  {what}" for name, (_, what) in COMMANDS.items()]
    usage = "usage: muster [--help] [--version] COMMAND ..."
    return "\n".join([usage, "", "Examine this host.", "", *rows, "", "muster COMMAND --help says more."])
