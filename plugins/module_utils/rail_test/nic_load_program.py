"""``muster nic-load``: traffic of every rail of this host at once that turns round inside the NIC, round after round.

Each rail writes to itself with perftest, both ends on this host. In each round a rail uses the memory of another NUMA
node, beginning with its own, then that of the GPU beside it, where there is one. One JSON object at the end tells what
each rail reached with each memory. What fails is told of that rail and memory; the other rails go on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..host.host import LocalHost, Unreadable
from ..host.rail_names import NamedRail, named, no_device, read_names
from .fabric_test import LOOPBACK, GpuRail
from .perftest import BANDWIDTH, LISTEN_AT, PerftestError, RailTest, argv_of, parse
from .perftest_process import KILL_SECONDS, Tool, silent, taken
from .rail_gids import own_gid_index

FORMAT = 1
NUMACTL = "numactl"
ADDRESS = "127.0.0.1"
GPU = "gpu"
# Between perftest's own 18515 and the ports that Linux gives to whoever asks for any (32768 and up).
FIRST_PORT = 18600
# What both ends may take beyond their load: opening the device and the GPU, which are busy, and memory far away.
START_SECONDS = 30
HELP_SECONDS = 10
# Of each memory so many different errors are told.
ERRORS = 5
EXIT_TERMINATED = 128 + signal.SIGTERM


@dataclass(frozen=True)
class Request:
    """What to run. ``numa`` are the NUMA nodes whose memory is used; ``path`` and ``root`` as in fabric_test."""

    rails: tuple[GpuRail, ...]
    numa: tuple[int, ...]
    message_bytes: int
    queue_pairs: int
    dmabuf: bool
    round_seconds: int
    seconds: float
    path: str
    root: str

    @classmethod
    def read(cls, spec: Mapping[str, Any], seconds: float) -> Request:
        """Return the request in ``spec``; raises KeyError, TypeError or ValueError for one that is none."""
        request = cls(
            rails=tuple(GpuRail(rail["rail"], rail["address"], rail["gpu"]) for rail in spec["rails"]),
            numa=tuple(int(node) for node in spec["numa"]),
            message_bytes=int(spec["message_bytes"]),
            queue_pairs=int(spec["queue_pairs"]),
            dmabuf=bool(spec["dmabuf"]),
            round_seconds=int(spec["round_seconds"]),
            seconds=seconds,
            path=str(spec["path"]),
            root=str(spec["root"]),
        )
        if not request.rails or not request.numa or not 0 < seconds < 1e7 or request.round_seconds < 1:
            raise ValueError("rails, numa, seconds or round_seconds: nothing to run")
        return request


def memory_of(node: int) -> str:
    """Return what the memory of a NUMA node is called: ``numa 1``."""
    return f"numa {node}"


@dataclass
class LoadedRail:
    """One rail: where it lies, what it has reached and what went wrong so far, by memory."""

    rail: NamedRail
    gpu: int | None
    # None where the system does not say; then ``distances`` is empty.
    numa_node: int | None
    distances: Mapping[str, int]
    missing: str = ""
    gid_index: int | None = None
    rates: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)

    def keep_error(self, memory: str, error: str) -> None:
        """Keep that one round gave no rate."""
        self.failed[memory] = self.failed.get(memory, 0) + 1
        texts = self.errors.setdefault(memory, [])
        if error not in texts and len(texts) < ERRORS:
            texts.append(error)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data; rates in Gb/s."""
        return {
            "device": self.rail.device or "",
            "numa_node": self.numa_node,
            "distances": dict(self.distances),
            "missing": self.missing,
            "rates": {
                memory: {
                    "count": len(rates),
                    "min": min(rates),
                    "median": round(statistics.median(rates), 3),
                    "max": max(rates),
                }
                for memory, rates in self.rates.items()
            },
            "failed": dict(self.failed),
            "errors": {memory: list(texts) for memory, texts in self.errors.items()},
        }


class LoadRounds:
    """The rounds on this host."""

    def __init__(self, request: Request) -> None:
        self.request = request
        host = LocalHost(request.path, request.root)
        names = read_names(host)
        # No stranger's business, where perftest can keep it so.
        can = host.run([BANDWIDTH, "--help"], HELP_SECONDS).stdout
        self.listen = (f"{LISTEN_AT}={ADDRESS}",) if LISTEN_AT in can else ()
        gpus = {rail.rail: rail.gpu for rail in request.rails}
        self.rails: list[LoadedRail] = []
        for rail in named(request.rails, names):
            node = _numa_node(rail.address, request)
            loaded = LoadedRail(rail, gpus[rail.rail], node, _distances(node, request))
            self.rails.append(loaded)
            if rail.device is None:
                loaded.missing = no_device(rail, names)
                continue
            try:
                loaded.gid_index = own_gid_index(rail.device, rail.interface, request.root)
            except PerftestError as exc:
                loaded.missing = f"{rail}: {exc}"

    def run(self) -> dict[str, Any]:
        """Load the rails until the time is up, each memory once at the least, and return plain JSON data."""
        request = self.request
        began, number = time.monotonic(), 0
        rounds_of_a_cycle = len(request.numa) + any(rail.gpu is not None for rail in self.rails)
        present = [rail for rail in self.rails if not rail.missing]
        while present and (number < rounds_of_a_cycle or time.monotonic() < began + request.seconds):
            begin = time.monotonic()
            self._round(present, number % rounds_of_a_cycle)
            number += 1
            # A round that fails at once must not be followed by thousands.
            time.sleep(max(0.0, min(begin + request.round_seconds, began + request.seconds) - time.monotonic()))
        return {
            "format": FORMAT,
            "seconds": request.seconds,
            "lasted": round(time.monotonic() - began, 3),
            "round_seconds": request.round_seconds,
            "rounds": number,
            "numa": list(request.numa),
            "rails": {rail.rail.name: rail.to_dict() for rail in self.rails},
        }

    def _round(self, rails: Sequence[LoadedRail], step: int) -> None:
        """Run every rail once; in the step after the NUMA nodes with the GPU's memory."""
        turns = {turn.test.port: turn for turn in self._turns(rails, step)}
        for port in taken(turns, time.monotonic() + KILL_SECONDS):
            turn = turns.pop(port)
            turn.rail.keep_error(turn.memory, f"port {port} is taken by another program")
        path = self.request.path
        servers = {port: turn.start(None, path, self.listen) for port, turn in turns.items()}
        deaf = {tool.test.port for tool in silent(servers.values(), time.monotonic() + START_SECONDS)}
        clients = {port: turn.start(ADDRESS, path) for port, turn in turns.items() if port not in deaf}
        end = time.monotonic() + START_SECONDS + self.request.round_seconds
        reports = {port: client.finish(end) for port, client in clients.items()}
        now = time.monotonic()
        for port, server in servers.items():
            client = clients.get(port)
            # A server whose client failed waits for nothing; another one gives memory back, which takes a GPU a while.
            server.finish(now + (START_SECONDS if client and not client.error else 1))
            why = server.error or ("ended before its client came" if port in deaf else "")
            said = [client.error if client else "", f"server: {why}" if why else ""]
            turns[port].judge("; ".join(filter(None, said)), reports.get(port, ""))

    def _turns(self, rails: Sequence[LoadedRail], step: int) -> Iterator[_Turn]:
        request, nodes = self.request, self.request.numa
        for index, rail in enumerate(rails):
            own = nodes.index(rail.numa_node) if rail.numa_node is not None else 0
            node = nodes[(own + step) % len(nodes)]
            gpu = rail.gpu if step == len(nodes) else None
            if step == len(nodes) and gpu is None:
                continue
            test = RailTest(
                *(LOOPBACK, BANDWIDTH, rail.rail.name, ADDRESS, ADDRESS, FIRST_PORT + index),
                *(request.message_bytes, request.queue_pairs),
                seconds=request.round_seconds,
                gpu=gpu,
                dmabuf=request.dmabuf,
            )
            yield _Turn(rail, memory_of(node) if gpu is None else GPU, node, test)


@dataclass(frozen=True)
class _Turn:
    """One rail's share of a round: ``memory`` as it is told, and the NUMA node that both ends are bound to."""

    rail: LoadedRail
    memory: str
    node: int
    test: RailTest

    def start(self, address: str | None, path: str, more: Sequence[str] = ()) -> Tool:
        device = self.rail.rail.device
        assert device, "a rail without its device is missing, and has no turn"
        bound = [NUMACTL, f"--cpunodebind={self.node}", f"--membind={self.node}"]
        return Tool(self.test, [*bound, *argv_of(self.test, device, self.rail.gid_index, address), *more], path)

    def judge(self, error: str, report: str) -> None:
        """Keep the rate, or why there is none."""
        try:
            rate = 0.0 if error else parse(report, self.test).value
        except PerftestError as exc:
            error = f"{self.test.tool}: {exc}"
        if error:
            self.rail.keep_error(self.memory, error[:400])
        else:
            self.rail.rates.setdefault(self.memory, []).append(rate)


def _numa_node(address: str, request: Request) -> int | None:
    """Return the NUMA node of a PCI function, None where the firmware tells none (-1 in its file)."""
    if len(request.numa) == 1:
        return request.numa[0]
    with suppress(OSError, ValueError):
        node = int(Path(request.root, "sys/bus/pci/devices", address, "numa_node").read_text(encoding="ascii"))
        return node if node in request.numa else None
    return None


def _distances(node: int | None, request: Request) -> dict[str, int]:
    """Return how far each memory is from a NUMA node, as the firmware tells (ACPI SLIT; the node itself is 10)."""
    place = Path(request.root, "sys/devices/system/node")
    online = sorted(int(path.name[4:]) for path in place.glob("node*") if re.fullmatch(r"node[0-9]+", path.name))
    with suppress(OSError, ValueError):
        told = [int(word) for word in (place / f"node{node}/distance").read_text(encoding="ascii").split()]
        if len(told) == len(online):
            return {memory_of(other): far for other, far in zip(online, told) if other in request.numa}
    return {}


def main(arguments: Sequence[str] | None = None, _version: str = "") -> int:
    """Load the rails for as long as asked, print the answer and return 0; 2 for wrong arguments."""
    request = _request(arguments)
    # In a thread of its own: the handler may have interrupted a start, whose end ending all waits for.
    ending = threading.Thread(target=_end_all, daemon=True)
    signal.signal(signal.SIGTERM, lambda *_: None if ending.ident else ending.start())
    try:
        answer = LoadRounds(request).run()
    except Unreadable as exc:
        answer = {"format": FORMAT, "error": str(exc)}
    print(json.dumps(answer, sort_keys=True))
    return 0


def _end_all() -> None:
    """End the program and all that it started; it answers nothing."""
    try:
        Tool.kill_all()
    finally:
        os._exit(EXIT_TERMINATED)


def _request(arguments: Sequence[str] | None) -> Request:
    parser = argparse.ArgumentParser(prog="muster nic-load", description="Load every rail inside its NIC.")
    parser.add_argument("--spec", required=True, help="rails, NUMA nodes and what to run (JSON)")
    parser.add_argument("--seconds", type=float, required=True, help="length of the load")
    options = parser.parse_args(arguments)
    try:
        return Request.read(json.loads(options.spec), options.seconds)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        parser.error(f"{type(exc).__name__} {exc}, expected rails, numa and settings")
