"""The collectives that run on the nodes: a program of phases over torch.distributed, timed and verified by every rank.

Started once per rank by ``srun`` as ``muster collective ...``. Torch is imported in a function alone, so that
everything else of Muster needs only the standard library.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ..host.host import Host, LocalHost
from ..host.rail_names import read_names
from ..nccl.nccl_log import own_log, read_log
from ..words.errors import MusterError
from .collective_guard import Guard
from .collective_program import Phase, ProgramError, read_program, unpack_spec
from .link_changes import LinkWatch
from .link_words import name_sockets
from .round_secret import VARIABLE, word

# Beside the longest time a rank may wait for others, so that our own clock speaks before the library's.
LIBRARY_SPARE_SECONDS = 30.0


class CollectiveError(MusterError):
    """The collective could not be set up as asked; the text says what was found and what was expected."""


@dataclass(frozen=True)
class Place:
    """Where this process stands among those that Slurm started, and what only they know."""

    node: str
    rank: int
    local_rank: int
    ranks: int
    first_node: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Request:
    """What to run: ``nodes`` are the job's, in its order, with their addresses; ``links`` are to be watched meanwhile.

    ``timeout_seconds`` bounds the rendezvous and each connecting, ``deadline_seconds`` everything.
    """

    backend: str
    nodes: Mapping[str, str]
    phases: tuple[Phase, ...]
    links: tuple[str, ...]
    port: int
    timeout_seconds: float
    deadline_seconds: float


def place_from(environment: Mapping[str, str]) -> Place:
    """Return this process' place as Slurm's environment states it; raises CollectiveError naming the variable."""
    numbers: dict[str, int] = {}
    for key in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"):
        text = environment.get(key, "")
        if not text.isdigit():
            raise CollectiveError(f"{key} is {text!r}, expected a number: start this through srun")
        numbers[key] = int(text)
    node = environment.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0]
    if numbers["SLURM_PROCID"] >= numbers["SLURM_NTASKS"]:
        raise CollectiveError(
            f"SLURM_PROCID is {numbers['SLURM_PROCID']}, expected less than SLURM_NTASKS {numbers['SLURM_NTASKS']}"
        )
    nodes = environment.get("SLURM_STEP_NODELIST", "")
    if not nodes:
        raise CollectiveError("SLURM_STEP_NODELIST is empty, expected the step's nodes: start this through srun")
    if not environment.get(VARIABLE):
        raise CollectiveError(f"{VARIABLE} is empty, expected the round's secret: start this by a module of rounds")
    # Of this step alone: other groups of the round run at the same time.
    step = f"{environment.get('SLURM_JOB_ID', '')}.{environment.get('SLURM_STEP_ID', '')}"
    secret = word(environment[VARIABLE], step)
    ranks = numbers["SLURM_NTASKS"]
    return Place(node, numbers["SLURM_PROCID"], numbers["SLURM_LOCALID"], ranks, first_host(nodes), secret)


def first_host(nodes: str) -> str:
    """Return the first name of a Slurm node list; rank 0 runs there (``gpu-[01-02,04],x`` gives ``gpu-01``)."""
    outside = re.sub(r"\[[^\]]*\]", lambda match: match.group().replace(",", ";"), nodes)
    return re.sub(r"\[([^\];-]*)[^\]]*\]", r"\1", outside.split(",")[0])


def main(arguments: Sequence[str] | None = None, _version: str = "") -> int:
    """Run as one rank; print one answer whatever happens and return the exit status: 0 only if all data was correct."""
    request = _request(arguments)
    started = time.monotonic()
    report: dict[str, Any] = {"phase": "start", "results": {}, "versions": {}, "error": ""}
    try:
        place = place_from(os.environ)
    except CollectiveError as exc:
        sys.stderr.write(f"muster collective: {exc}\n")
        return 2
    report.update(node=place.node, rank=place.rank, local_rank=place.local_rank, ranks=place.ranks)
    # One rank of a node watches for all.
    watch = LinkWatch(() if place.local_rank else request.links)
    guard = Guard(report, request.deadline_seconds, lambda: {"links": watch.told()})
    watch.start()
    # Should a library hold the interpreter's lock, the kernel ends the process.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, request.deadline_seconds + 5)
    try:
        _run(request, place, report, guard)
        # A rank that came to its end stands nowhere.
        del report["stood"]
        wrong = sum(count or 0 for told in report["results"].values() for count in told["wrong"])
        report["error"] = f"{wrong} wrong elements" if wrong else ""
    except Exception as exc:  # noqa: BLE001 -- whatever a library raises becomes this rank's answer
        # A process group that failed may never come down in order: this leaves without its destructors.
        guard.failed(f"{type(exc).__name__} in {report['phase']}: {exc}".encode("ascii", "replace").decode())
    report["elapsed_seconds"] = round(time.monotonic() - started, 3)
    status = 1 if report["error"] else 0
    guard.finish(status)
    return status


def _request(arguments: Sequence[str] | None) -> Request:
    parser = argparse.ArgumentParser(
        prog="muster collective", description="Run one rank of a program of timed and verified collectives."
    )
    parser.add_argument("--backend", choices=("nccl", "gloo"), required=True)
    parser.add_argument("--port", type=int, required=True, help="free port on rank 0's node")
    parser.add_argument("--spec", action="append", required=True, help="what to run with whom, packed; parts in order")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for the start and for each connecting")
    parser.add_argument("--deadline", type=float, default=300.0, help="seconds for everything")
    options = parser.parse_args(arguments)
    try:
        spec = unpack_spec(options.spec)
        nodes = {str(name): str(address) for name, address in spec["nodes"]}
        phases = read_program(spec["program"], len(nodes))
        links = tuple(str(name) for name in spec.get("links", ()))
    except (ProgramError, KeyError, TypeError, ValueError) as exc:
        parser.error(f"--spec: {type(exc).__name__} {exc}")
    return Request(options.backend, nodes, phases, links, options.port, options.timeout, options.deadline)


def _run(request: Request, place: Place, report: dict[str, Any], guard: Guard) -> None:
    if place.node not in request.nodes:
        raise CollectiveError(f"this is {place.node}, expected one of {', '.join(request.nodes)[:200]}")
    host = LocalHost()
    if request.backend == "nccl":
        rails = _rail_devices(request.links, host)
        with own_log(os.environ) as log:
            try:
                _measure(request, place, report, guard)
            finally:
                report["transport"] = read_log(log, rails)
    else:
        name_sockets(os.environ, host)
        _measure(request, place, report, guard)


def _rail_devices(links: Sequence[str], host: Host) -> dict[str, str | None]:
    """Return by name what this host calls the device of each rail among the links, None where that is not one."""
    devices = read_names(host).devices
    words = (word.partition("=") for word in links)
    found = {name: devices.get(address, ()) for name, _, address in words if address}
    return {rail: names[0] if len(names) == 1 else None for rail, names in found.items()}


def _measure(request: Request, place: Place, report: dict[str, Any], guard: Guard) -> None:
    report["phase"] = "import of torch"
    # Newer releases rename collectives and warn once for each: thousands of ranks would fill the log.
    warnings.filterwarnings("ignore", category=FutureWarning)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    import torch  # noqa: PLC0415 -- the rest of Muster runs where there is no torch
    from torch import distributed  # noqa: PLC0415

    from .collective_ranks import Ranks  # noqa: PLC0415 -- like torch, for ranks alone
    from .collective_run import ProgramRun  # noqa: PLC0415 -- as above

    report["versions"] = {"torch": str(torch.__version__)}
    device = _device(torch, request.backend, place)
    if request.backend == "nccl":
        report["versions"]["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    report["phase"] = "rendezvous"
    _raise_file_limit()
    # Which node Slurm calls the first is known here alone; without an address its name must resolve.
    address = request.nodes.get(place.first_node) or place.first_node

    def store(seconds: float, master: bool = False, wait: bool = False) -> Any:
        ranks = place.ranks if wait else None
        met = distributed.TCPStore(address, request.port, ranks, master, timedelta(seconds=seconds), wait)
        # The store takes keys from whoever connects.
        return distributed.PrefixStore(word(place.secret, "store"), met)

    limit = max(request.timeout_seconds, *(phase.seconds + LIBRARY_SPARE_SECONDS for phase in request.phases))
    meeting = store(request.timeout_seconds, place.rank == 0, wait=True)
    guard.listen(store, place.secret)
    distributed.init_process_group(
        request.backend,
        store=meeting,
        rank=place.rank,
        world_size=place.ranks,
        timeout=timedelta(seconds=limit),
    )
    ranks = Ranks(torch, distributed, device, place.rank, place.ranks)
    ProgramRun(ranks, tuple(request.nodes), place.node, place.local_rank, guard).run(
        request.phases, request.timeout_seconds
    )
    report["phase"] = "end"
    guard.release(meeting, place.rank == 0)
    # Without this, ranks abort at exit. After a failure main leaves without it, as it would wait for the lost ones.
    distributed.destroy_process_group()


def _raise_file_limit() -> None:
    """Let rank 0 hold two connections of every rank."""
    with suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _device(torch: Any, backend: str, place: Place) -> Any:
    if backend != "nccl":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise CollectiveError("torch sees no GPU; backend nccl needs one per rank")
    count = torch.cuda.device_count()
    # Slurm may show each task its own GPU alone, then as number 0.
    index = 0 if count == 1 else place.local_rank
    if index >= count:
        raise CollectiveError(f"local rank {place.local_rank} has no GPU: torch sees {count}")
    torch.cuda.set_device(index)
    return torch.device("cuda", index)
