"""``muster gpu-stress``: a load on every GPU of the node at once, one process for each, one JSON line per event.

A supervisor starts the processes, lets them begin together and ends those that hang, so that one GPU that dies costs
its own result alone. Events: ``start``, ``ready`` and ``end`` of each GPU, ``progress`` in between, and a ``summary``
with the GPUs that gave no result. Torch is imported by ``main`` alone.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ..host.waiting import poll
from ..words.expectations import pci_address
from . import gpu_load

FORMAT = 1
# Eight processes load CUDA's libraries, perhaps from a network file system, and try the shapes.
START_SECONDS = 240.0
# Buffers are filled between the word to go and the common start.
LEAD_SECONDS = {"cuda": 5.0, "cpu": 0.5}
# What comes after the asked time: patterns that are still owed, the last tiles.
END_SECONDS = 120.0
SILENCE_SECONDS = 60.0
NVIDIA_SMI_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Request:
    """What to run; ``flips`` names the GPUs whose result or memory gets a wrong bit, for tests alone."""

    device: str
    gpus: tuple[str, ...]
    seconds: float
    start_seconds: float
    end_seconds: float
    flips: Mapping[str, str]
    # For tests alone as well: a GPU's process that never answers, or dies.
    faults: Mapping[str, str]


@dataclass
class Worker:
    """One GPU's process as the supervisor sees it."""

    gpu: str
    pid: int
    words: int
    output: int
    error: int
    buffer: bytes = b""
    errors: bytes = b""
    heard: float = 0.0
    ready: dict[str, Any] | None = None
    ended: bool = False
    why: str = ""
    open: set[int] = field(default_factory=set)


def main(arguments: Sequence[str] | None = None, _version: str = "") -> int:
    """Run the load and return 0 once every GPU gave a result or its reason; 2 for wrong arguments."""
    request = _request(arguments)
    # Before torch is loaded: it is read when cuBLAS makes its handle.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = gpu_load.CUBLAS_WORKSPACE
    missing: dict[str, str] = {}
    try:
        # Once for all: a fork costs less than eight imports. Importing starts no CUDA, which would not outlive a fork.
        import torch  # noqa: PLC0415 -- the rest of Muster runs where there is no torch
    except Exception as exc:  # noqa: BLE001 -- whatever a library raises becomes the answer
        why = f"{type(exc).__name__} in import of torch: {exc}"[:500]
        _emit({"event": "summary", **_summary(request, "", dict.fromkeys(request.gpus, why), {})})
        return 0
    identities = dict.fromkeys(request.gpus, "")
    if request.device == "cuda":
        identities, missing = _identities(request.gpus)
    workers: list[Worker] = []
    for gpu, identity in identities.items():
        workers.append(_start(torch, request, gpu, identity, workers))
    shapes = _supervise(request, workers)
    missing.update({worker.gpu: worker.why for worker in workers if not worker.ended})
    _emit({"event": "summary", **_summary(request, torch.__version__, missing, shapes)})
    return 0


def _summary(
    request: Request, torch: str, missing: Mapping[str, str], shapes: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "torch": str(torch),
        "device": request.device,
        "seconds": request.seconds,
        "gpus": list(request.gpus),
        "missing": dict(missing),
        "shapes": {kind: "x".join(map(str, shape)) for kind, shape in shapes.items()},
    }


def _request(arguments: Sequence[str] | None) -> Request:
    parser = argparse.ArgumentParser(
        prog="muster gpu-stress", description="Load every GPU and compare what it computes."
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: the same code with small sizes")
    parser.add_argument("--gpus", required=True, help="PCI addresses with commas")
    parser.add_argument("--seconds", type=float, required=True, help="length of the load")
    parser.add_argument("--start-seconds", type=float, default=START_SECONDS, help="until all must be ready")
    parser.add_argument("--end-seconds", type=float, default=END_SECONDS, help="after the load, until all must be done")
    testing = parser.add_argument_group("testing", "what makes a sound GPU look faulty; never used by a burn-in")
    testing.add_argument("--testing-flip", action="append", default=[], metavar="result|memory=ADDRESS")
    testing.add_argument("--testing-fault", action="append", default=[], metavar="hang|crash=ADDRESS")
    options = parser.parse_args(arguments)
    gpus = tuple(options.gpus.split(","))
    for gpu in gpus:
        if pci_address(gpu) != gpu:
            parser.error(f"--gpus has {gpu!r}, expected PCI addresses such as 0000:1b:00.0")
    if not 0 < options.seconds < 1e7:
        parser.error(f"--seconds is {options.seconds:g}, expected more than 0")
    faults: dict[str, dict[str, str]] = {}
    for name, allowed in (("testing_flip", ("result", "memory")), ("testing_fault", ("hang", "crash"))):
        faults[name] = {}
        for text in getattr(options, name):
            what, _, gpu = text.partition("=")
            if what not in allowed or gpu not in gpus:
                parser.error(f"{text!r}: expected {'|'.join(allowed)}=ADDRESS")
            faults[name][gpu] = what
    return Request(
        options.device,
        gpus,
        options.seconds,
        options.start_seconds,
        options.end_seconds,
        faults["testing_flip"],
        faults["testing_fault"],
    )


def _identities(gpus: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the UUID of each GPU, and why it is missing where it is; CUDA knows no PCI addresses."""
    argv = ["nvidia-smi", "--query-gpu=pci.bus_id,uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=NVIDIA_SMI_SECONDS)
        lines, why = done.stdout.splitlines(), done.stderr.strip()
    except (OSError, subprocess.TimeoutExpired) as exc:
        lines, why = [], str(exc)
    found: dict[str, str] = {}
    for line in lines:
        address, _, uuid = (part.strip() for part in line.partition(","))
        name = pci_address(address)
        if name and uuid.startswith("GPU-"):
            found[name] = uuid
        else:
            # A lost GPU is told in a line of its own, on either stream.
            why = f"{why} {line}".strip()
    why = why[-200:]
    why = f"nvidia-smi does not list it: {why}" if why else "nvidia-smi does not list it"
    return {gpu: found[gpu] for gpu in gpus if gpu in found}, {gpu: why for gpu in gpus if gpu not in found}


def _start(torch: Any, request: Request, gpu: str, identity: str, others: Sequence[Worker]) -> Worker:
    """Start one GPU's process and return it."""
    words_read, words = os.pipe()
    output, output_write = os.pipe()
    error, error_write = os.pipe()
    supervisor = os.getpid()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        for descriptor in (words, output, error, *(end for worker in others for end in worker.open | {worker.words})):
            os.close(descriptor)
        os.dup2(words_read, 0)
        os.dup2(output_write, 1)
        os.dup2(error_write, 2)
        _work(torch, request, gpu, identity, supervisor)
    for descriptor in (words_read, output_write, error_write):
        os.close(descriptor)
    for descriptor in (output, error):
        os.set_blocking(descriptor, False)
    return Worker(gpu, pid, words, output, error, heard=time.monotonic(), open={output, error})


def _work(torch: Any, request: Request, gpu: str, identity: str, supervisor: int) -> NoReturn:
    """Be one GPU's process."""
    # The processes stay in the supervisor's group, which whoever ends it ends as a whole; should it die alone, they
    # must not go on heating GPUs that nobody watches.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)
    status = 1
    try:
        if request.faults.get(gpu) == "hang":
            time.sleep(1e6)
        if request.device == "cuda":
            # One GPU each, so that no process can touch, or wait for, another's.
            os.environ["CUDA_VISIBLE_DEVICES"] = identity
        _load(torch, request, gpu, identity)
        status = 0
    except BaseException:  # noqa: BLE001 -- the process ends here, and says why
        sys.stderr.write(traceback.format_exc()[-1500:])
        sys.stderr.flush()
    # A GPU that fell off the bus can hold up the destructors.
    os._exit(status)


def _load(torch: Any, request: Request, gpu: str, identity: str) -> None:
    device = gpu_load.Device(torch, request.device)
    sizes = gpu_load.GPU_SIZES if device.cuda else gpu_load.CPU_SIZES
    described = device.described()
    # Without the right GPU under it a result would be another's.
    if described.get("uuid", identity).lower() != identity.lower():
        raise RuntimeError(f"torch has {described['uuid']}, expected {identity}")
    _tell(gpu, "start", {"device": described, "torch": str(torch.__version__), "cuda": str(torch.version.cuda)})
    rates, unsupported = gpu_load.tuned(device, sizes)
    _tell(gpu, "ready", {"plain_tflops": rates, "unsupported": unsupported})
    words = json.loads(_line(0))
    shapes = {kind: shape for kind, shape in words["shapes"].items() if kind in rates}
    load = gpu_load.Load(device, sizes, shapes, request.flips.get(gpu, ""))
    if request.faults.get(gpu) == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(max(0.0, words["at"] - time.monotonic()))
    load.run(request.seconds, lambda news: _tell(gpu, "progress", news))
    _tell(gpu, "end", {**load.result(), "unsupported": unsupported})


def _line(descriptor: int) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        part = os.read(descriptor, 65536)
        if not part:
            raise RuntimeError("the supervisor is gone")
        data += part
    return data


def _tell(gpu: str, event: str, news: Mapping[str, Any]) -> None:
    _emit({"event": event, "gpu": gpu, **news})


def _emit(news: Mapping[str, Any]) -> None:
    data = (json.dumps(news, sort_keys=True, allow_nan=False) + "\n").encode()
    while data:
        data = data[os.write(1, data) :]


def _supervise(request: Request, workers: Sequence[Worker]) -> dict[str, list[int]]:
    """Pass on what the processes say until each has ended or was ended; return the shapes that they multiplied."""
    shapes: dict[str, list[int]] = {}
    silence = SILENCE_SECONDS + 3 * max(1.0, request.seconds / 60)
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            for descriptor in worker.open:
                selector.register(descriptor, selectors.EVENT_READ, worker)
        began = time.monotonic()
        going = 0.0
        while selector.get_map():
            for key, _ in selector.select(0.2):
                _hear(selector, key.fd, key.data)
            now = time.monotonic()
            if not going and (now - began > request.start_seconds or all(w.ready or not w.open for w in workers)):
                for worker in workers:
                    if not worker.ready:
                        _end(selector, worker, f"not ready within {request.start_seconds:g} s")
                shapes = _best(workers)
                going = now + LEAD_SECONDS[request.device]
                for worker in workers:
                    worker.heard = going
                    _go(selector, worker, {"at": going, "shapes": shapes})
            for worker in workers if going else ():
                if worker.open and now > going + request.seconds + request.end_seconds:
                    _end(selector, worker, f"not finished {request.end_seconds:g} s after the load's end")
                elif worker.open and now - worker.heard > silence:
                    _end(selector, worker, f"silent for {silence:.0f} s, {now - going:.0f} s after the start")
    return shapes


def _best(workers: Sequence[Worker]) -> dict[str, list[int]]:
    """Return for each kind the shape that is the fastest on most GPUs: results compare only where shapes are one."""
    best: dict[str, list[int]] = {}
    tried = [worker.ready["plain_tflops"] for worker in workers if worker.ready]
    for kind in gpu_load.KINDS:
        rates: dict[str, list[float]] = {}
        for found in tried:
            for shape, rate in found.get(kind, {}).items():
                rates.setdefault(shape, []).append(rate)
        if rates:
            name = max(sorted(rates), key=lambda shape: statistics.median(rates[shape]))
            best[kind] = [int(number) for number in name.split("x")]
    return best


def _go(selector: selectors.BaseSelector, worker: Worker, words: Mapping[str, Any]) -> None:
    if not worker.open:
        return
    try:
        os.write(worker.words, (json.dumps(words) + "\n").encode())
    except BrokenPipeError:
        _end(selector, worker, "ended before the start")


def _hear(selector: selectors.BaseSelector, descriptor: int, worker: Worker) -> None:
    try:
        data = os.read(descriptor, 65536)
    except BlockingIOError:
        return
    if not data:
        selector.unregister(descriptor)
        worker.open.discard(descriptor)
        os.close(descriptor)
        if not worker.open:
            _reaped(worker)
        return
    if descriptor == worker.error:
        worker.errors = (worker.errors + data)[-2000:]
        return
    worker.heard = time.monotonic()
    *lines, worker.buffer = (worker.buffer + data).split(b"\n")
    for line in lines:
        _note(worker, line)


def _note(worker: Worker, line: bytes) -> None:
    """Pass on one line that is an event; a library's chatter goes with the errors."""
    try:
        news = json.loads(line)
        event = news["event"] if news["gpu"] == worker.gpu else ""
    except (ValueError, TypeError, KeyError):
        worker.errors = (worker.errors + line + b"\n")[-2000:]
        return
    if event == "ready":
        worker.ready = news
    if event == "end":
        worker.ended = True
    _emit(news)


def _end(selector: selectors.BaseSelector, worker: Worker, why: str) -> None:
    """Kill one GPU's process; it has no children. One that is stuck in the kernel is left behind."""
    if not worker.open:
        return
    worker.why = worker.why or why
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker.pid, signal.SIGKILL)
    for descriptor in list(worker.open):
        selector.unregister(descriptor)
        os.close(descriptor)
    worker.open.clear()
    poll(lambda: os.waitpid(worker.pid, os.WNOHANG), any, seconds=0.2, every=0.02)


def _reaped(worker: Worker) -> None:
    """Note how a process ended that closed its output."""
    pid, status = poll(lambda: os.waitpid(worker.pid, os.WNOHANG), any, seconds=5, every=0.02)
    if worker.ended:
        return
    tail = worker.errors.decode("utf-8", "replace").strip().splitlines()
    last = f": {tail[-1][-300:]}" if tail else ""
    if not pid:
        os.kill(worker.pid, signal.SIGKILL)
        worker.why = f"closed its output and hung{last}"
    elif os.WIFSIGNALED(status):
        worker.why = f"ended by signal {os.WTERMSIG(status)}{last}"
    else:
        worker.why = f"ended with status {os.WEXITSTATUS(status)}{last}"
