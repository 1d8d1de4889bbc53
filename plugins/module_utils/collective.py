"""The collective that runs on the nodes: an all-reduce over torch.distributed, timed and verified, one line per rank.

Started once per rank by ``srun`` as ``muster collective ...``. Torch is imported by ``main`` alone, so that everything
else of Muster needs only the standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .nccl_log import own_log, read_log

PREFIX = "muster-collective"
ELEMENT_BYTES = 4
EXIT_DEADLINE = 124
# Element i of rank r holds (r % 13 + 1) * ((i + iteration) % 11 + 1). Sums of integers below 2**24 are exact in float32
# in any order of addition: 77 per rank on average allows 200,000 ranks. Eleven divides no power of two, so a block that
# arrives in the place of another shows; the iteration in it makes the last round's result a wrong one.
RANK_PERIOD = 13
INDEX_PERIOD = 11
TILE_ELEMENTS = INDEX_PERIOD * 2**20


class CollectiveError(Exception):
    """The collective could not be set up as asked; the text says what was found and what was expected."""


@dataclass(frozen=True)
class Place:
    """Where this process stands among those that Slurm started."""

    node: str
    rank: int
    local_rank: int
    ranks: int
    first_node: str


@dataclass(frozen=True)
class Request:
    """What to run. ``sizes`` in bytes.

    ``timeout_seconds`` bounds the rendezvous and each collective, ``deadline_seconds`` everything.
    """

    backend: str
    addresses: Mapping[str, str]
    port: int
    sizes: tuple[int, ...]
    iterations: int
    warmup: int
    timeout_seconds: float
    deadline_seconds: float


def contribution(rank: int) -> int:
    """Return the factor by which ``rank`` multiplies the pattern."""
    return rank % RANK_PERIOD + 1


def total_contribution(ranks: int) -> int:
    """Return the factor of the exact sum over all ranks."""
    whole, rest = divmod(ranks, RANK_PERIOD)
    return whole * RANK_PERIOD * (RANK_PERIOD + 1) // 2 + rest * (rest + 1) // 2


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
    return Place(node, numbers["SLURM_PROCID"], numbers["SLURM_LOCALID"], numbers["SLURM_NTASKS"], first_host(nodes))


def first_host(nodes: str) -> str:
    """Return the first name of a Slurm node list; rank 0 runs there (``gpu-[01-02,04],x`` gives ``gpu-01``)."""
    outside = re.sub(r"\[[^\]]*\]", lambda match: match.group().replace(",", ";"), nodes)
    return re.sub(r"\[([^\];-]*)[^\]]*\]", r"\1", outside.split(",")[0])


def encode(record: Mapping[str, Any]) -> str:
    """Return one line for ``record``: prefix, digest of the JSON text, JSON text.

    The digest tells a line that was cut or mixed with another's from a whole one.
    """
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return f"{PREFIX} {_digest(text)} {text}"


def decode(output: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records in ``output`` and, for each line that bears the prefix but cannot be read, what is wrong.

    Lines without the prefix (warnings of libraries) are passed over.
    """
    records: list[dict[str, Any]] = []
    faults: list[str] = []
    for number, line in enumerate(output.splitlines(), 1):
        if PREFIX not in line:
            continue
        parts = line.strip().split(" ", 2)
        if len(parts) != 3 or parts[0] != PREFIX or parts[1] != _digest(parts[2]):
            faults.append(f"line {number} of the output is cut or mixed with another: {line.strip()[:80]!r}")
            continue
        try:
            record = json.loads(parts[2])
        except ValueError as exc:
            faults.append(f"line {number} of the output is not JSON: {exc}")
            continue
        if isinstance(record, dict):
            records.append(record)
        else:
            faults.append(f"line {number} of the output is {type(record).__name__}, expected a mapping")
    return records, faults


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fill(torch: Any, tensor: Any, rank: int, iteration: int) -> None:
    """Write what ``rank`` contributes in ``iteration`` into the flat float32 ``tensor``."""
    tile = _tile(torch, tensor, iteration) * contribution(rank)
    # The tile's length is a multiple of the period, so every slice begins with the pattern's first element.
    for part in torch.split(tensor, tile.numel()):
        part.copy_(tile[: part.numel()])


def wrong_elements(torch: Any, tensor: Any, ranks: int, iteration: int) -> int:
    """Return how many elements of ``tensor`` differ from the exact sum; NaN differs."""
    tile = _tile(torch, tensor, iteration) * total_contribution(ranks)
    return sum(int((part != tile[: part.numel()]).sum().item()) for part in torch.split(tensor, tile.numel()))


def _tile(torch: Any, tensor: Any, iteration: int) -> Any:
    count = min(TILE_ELEMENTS, -(-tensor.numel() // INDEX_PERIOD) * INDEX_PERIOD)
    index = torch.arange(count, device=tensor.device, dtype=torch.int32)
    return ((index + iteration % INDEX_PERIOD) % INDEX_PERIOD + 1).to(torch.float32)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as one rank; print one line whatever happens and return the exit status: 0 only if all data was correct."""
    request = _request(arguments)
    started = time.monotonic()
    report: dict[str, Any] = {"phase": "start", "sizes": [], "versions": {}, "error": ""}
    printed = threading.Lock()
    try:
        place = place_from(os.environ)
    except CollectiveError as exc:
        sys.stderr.write(f"muster collective: {exc}\n")
        return 2
    report.update(node=place.node, rank=place.rank, local_rank=place.local_rank, ranks=place.ranks)
    watchdog = threading.Timer(request.deadline_seconds, _give_up, (report, printed, request.deadline_seconds))
    watchdog.daemon = True
    watchdog.start()
    # Should a library hold the interpreter's lock, the kernel ends the process.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, request.deadline_seconds + 5)
    try:
        _run(request, place, report)
        wrong = sum(size["wrong"] for size in report["sizes"])
        report["error"] = f"{wrong} wrong elements" if wrong else ""
    except Exception as exc:  # noqa: BLE001 -- whatever a library raises becomes this rank's answer
        report["error"] = f"{type(exc).__name__} in {report['phase']}: {exc}".replace("\n", " ")[:500]
    watchdog.cancel()
    report["elapsed_seconds"] = round(time.monotonic() - started, 3)
    _print(report, printed)
    status = 1 if report["error"] else 0
    # A process group that failed may never come down in order: the answer is given, so leave without its destructors.
    if status:
        os._exit(status)
    return status


def _request(arguments: Sequence[str] | None) -> Request:
    parser = argparse.ArgumentParser(
        prog="muster collective", description="Run one rank of a timed and verified all-reduce."
    )
    parser.add_argument("--backend", choices=("nccl", "gloo"), required=True)
    parser.add_argument("--addresses", default="", help="addresses of the nodes, NAME=ADDRESS with commas")
    parser.add_argument("--port", type=int, required=True, help="free port on rank 0's node")
    parser.add_argument("--sizes", required=True, help="message sizes in bytes, with commas, multiples of 4")
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for the start and for each collective")
    parser.add_argument("--deadline", type=float, default=300.0, help="seconds for everything")
    options = parser.parse_args(arguments)
    try:
        sizes = tuple(int(text) for text in options.sizes.split(","))
    except ValueError:
        parser.error(f"--sizes is {options.sizes!r}, expected numbers of bytes with commas")
    if any(size <= 0 or size % ELEMENT_BYTES for size in sizes):
        parser.error(f"--sizes is {options.sizes!r}, expected multiples of {ELEMENT_BYTES} above 0")
    addresses = dict(pair.split("=", 1) for pair in options.addresses.split(",") if "=" in pair)
    if options.iterations < 1 or options.warmup < 0:
        parser.error("--iterations is at least 1 and --warmup at least 0")
    return Request(
        options.backend,
        addresses,
        options.port,
        sizes,
        options.iterations,
        options.warmup,
        options.timeout,
        options.deadline,
    )


def _run(request: Request, place: Place, report: dict[str, Any]) -> None:
    if request.backend == "nccl":
        with own_log(os.environ) as log:
            try:
                _measure(request, place, report)
            finally:
                report["transport"] = read_log(log)
    else:
        _measure(request, place, report)


def _measure(request: Request, place: Place, report: dict[str, Any]) -> None:
    report["phase"] = "import of torch"
    import torch  # noqa: PLC0415 -- the rest of Muster runs where there is no torch
    from torch import distributed  # noqa: PLC0415

    report["versions"] = {"torch": str(torch.__version__)}
    device = _device(torch, request.backend, place)
    if request.backend == "nccl":
        report["versions"]["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    report["phase"] = "rendezvous"
    # Which node Slurm calls the first is known here alone; without an address its name must resolve.
    address = request.addresses.get(place.first_node, place.first_node)
    distributed.init_process_group(
        request.backend,
        init_method=f"tcp://{_bracketed(address)}:{request.port}",
        rank=place.rank,
        world_size=place.ranks,
        timeout=timedelta(seconds=request.timeout_seconds),
    )
    stopwatch = _Stopwatch(torch, distributed, device, place)
    for size in request.sizes:
        tensor = torch.empty(size // ELEMENT_BYTES, dtype=torch.float32, device=device)
        result: dict[str, Any] = {"bytes": size, "seconds": [], "correct": False, "wrong": 0}
        for iteration in range(-request.warmup, request.iterations):
            report["phase"] = f"all_reduce of {size} bytes, iteration {iteration + 1} (warm-up: 0 and below)"
            seconds, wrong = stopwatch.all_reduce(tensor, iteration)
            result["wrong"] += wrong
            if iteration >= 0:
                result["seconds"].append(round(seconds, 9))
        result["correct"] = result["wrong"] == 0
        report["sizes"].append(result)
    report["phase"] = "end"
    distributed.barrier()
    # Without this, ranks abort at exit. After a failure main leaves without it, as it would wait for the lost ones.
    distributed.destroy_process_group()


@dataclass(frozen=True)
class _Stopwatch:
    torch: Any
    distributed: Any
    device: Any
    place: Place

    def all_reduce(self, tensor: Any, iteration: int) -> tuple[float, int]:
        """Run one verified all-reduce; return this rank's seconds and how many elements came out wrong."""
        fill(self.torch, tensor, self.place.rank, iteration)
        # Ranks start together; what each did before must not count as the network's time.
        self.distributed.barrier()
        self._settle()
        begin = time.perf_counter()
        self.distributed.all_reduce(tensor)
        self._settle()
        seconds = time.perf_counter() - begin
        return seconds, wrong_elements(self.torch, tensor, self.place.ranks, iteration)

    def _settle(self) -> None:
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)


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


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _give_up(report: dict[str, Any], printed: threading.Lock, seconds: float) -> None:
    report["error"] = f"not finished after {seconds:g} s, stuck in {report['phase']}"
    _print(report, printed)
    os._exit(EXIT_DEADLINE)


def _print(report: dict[str, Any], printed: threading.Lock) -> None:
    """Write the rank's one line in one piece; the second of two calls does nothing."""
    if not printed.acquire(blocking=False):
        return
    data = (encode(report) + "\n").encode()
    while data:
        data = data[os.write(1, data) :]
