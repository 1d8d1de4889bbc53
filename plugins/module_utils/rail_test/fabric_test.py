"""One end of a fabric test: tests the rails with perftest beside its peer, or alone in a loop, and prints its answer.

Started once per node by ``srun`` as ``muster fabric ...``. Both ends derive the same steps from the same request and
meet before and after each over a TCP connection: servers listen before clients start, counters are read while nothing
runs. A test that fails is an answer about that test; the others go on.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..collectives.collective import CollectiveError, Place, first_host, place_from
from ..collectives.collective_guard import EXIT_DEADLINE, EXIT_ENDED
from ..collectives.link_changes import LinkWatch
from ..collectives.round_secret import word
from ..host.host import LocalHost
from ..host.rail_names import NamedRail, named, no_device, read_names
from ..words.answer_lines import pack
from ..words.expectations import Rail
from .fabric_peer import FabricError, Peer, call, listen
from .perftest import BANDWIDTH, LATENCY, PerftestError, RailTest, argv_of, gid_index_of, parse
from .perftest_process import KILL_SECONDS, Tool, silent, taken
from .rail_counters import PRIORITY_COUNTERS, growth, read_counters
from .rail_gids import read_gids

LOOPBACK, SINGLE, TOGETHER, CONTROL = "loopback", "single", "together", "control"
# What a tool may take beyond its load: opening the device, the GPU, exchanging addresses.
START_SECONDS = 20
LATENCY_ITERATIONS = 1000
# Enough to show in a counter, too few to fill a queue: 64 MB of 64 KiB messages.
CONTROL_ITERATIONS = 1000


@dataclass(frozen=True)
class GpuRail(Rail):
    """One rail of the nodes; ``gpu`` is the CUDA number of the GPU beside it, None where the host's memory is used."""

    gpu: int | None


@dataclass(frozen=True)
class Request:
    """What both ends are given. ``nodes`` by name: ``address`` and the IP addresses of ``rails`` by name (``rail0``).

    ``links`` are watched while they are tested, as LinkWatch takes them. ``dmabuf``: a GPU's memory is reached by
    DMA-BUF, else by nvidia_peermem.
    """

    nodes: Mapping[str, Mapping[str, Any]]
    rails: tuple[GpuRail, ...]
    bandwidth_bytes: int
    latency_bytes: int
    queue_pairs: int
    seconds: int
    data_class: int | None
    control_class: int | None
    roce: bool
    dmabuf: bool
    counters: tuple[str, ...]
    links: tuple[str, ...]
    path: str
    root: str
    port: int
    timeout_seconds: float
    deadline_seconds: float

    @classmethod
    def read(cls, spec: Mapping[str, Any], port: int, timeout_seconds: float, deadline_seconds: float) -> Request:
        """Return the request in ``spec``; raises KeyError, TypeError or ValueError for one that is none."""
        return cls(
            nodes={str(name): dict(node) for name, node in spec["nodes"].items()},
            rails=tuple(GpuRail(rail["rail"], rail["address"], rail["gpu"]) for rail in spec["rails"]),
            bandwidth_bytes=int(spec["bandwidth_bytes"]),
            latency_bytes=int(spec["latency_bytes"]),
            queue_pairs=int(spec["queue_pairs"]),
            seconds=int(spec["seconds"]),
            data_class=spec["data_class"],
            control_class=spec["control_class"],
            roce=bool(spec["roce"]),
            dmabuf=bool(spec["dmabuf"]),
            counters=tuple(spec["counters"]),
            links=tuple(spec.get("links", ())),
            path=str(spec["path"]),
            root=str(spec["root"]),
            port=port,
            timeout_seconds=timeout_seconds,
            deadline_seconds=deadline_seconds,
        )


def steps_of(request: Request, first: str, second: str | None) -> list[list[RailTest]]:
    """Return what runs, step by step; the tests of one step run at the same time. Alone, a node loops back."""

    def bandwidth(phase: str, rail: GpuRail, server: str, client: str, offset: int, **other: Any) -> RailTest:
        load: dict[str, Any] = {"seconds": request.seconds, "traffic_class": request.data_class, **other}
        load |= {"gpu": rail.gpu, "dmabuf": request.dmabuf}
        sizes = (request.port + 1 + offset, request.bandwidth_bytes, request.queue_pairs)
        return RailTest(phase, BANDWIDTH, rail.name, server, client, *sizes, **load)

    rails = list(enumerate(request.rails))
    if second is None:
        return [[bandwidth(LOOPBACK, rail, first, first, index)] for index, rail in rails]
    steps: list[list[RailTest]] = []
    for index, rail in rails:
        steps += [[bandwidth(SINGLE, rail, first, second, index)], [bandwidth(SINGLE, rail, second, first, index)]]
        place = (rail.name, first, second, request.port + 1 + index, request.latency_bytes)
        marks: dict[str, Any] = {"iterations": LATENCY_ITERATIONS, "traffic_class": request.data_class}
        steps.append([RailTest(SINGLE, LATENCY, *place, gpu=rail.gpu, **marks)])
    steps.append([bandwidth(TOGETHER, rail, first, second, index) for index, rail in rails])
    steps.append([bandwidth(TOGETHER, rail, second, first, index) for index, rail in rails])
    if request.control_class is not None:
        short: dict[str, Any] = {"seconds": 0, "iterations": CONTROL_ITERATIONS, "traffic_class": request.control_class}
        steps.append(
            [
                bandwidth(CONTROL, rail, *ends, index + turn * len(rails), **short)
                for turn, ends in enumerate(((first, second), (second, first)))
                for index, rail in rails
            ]
        )
    return steps


def connect(request: Request, place: Place, names: Sequence[str]) -> Peer | None:
    """Return the connection between the two ends, None if there is but one; the first one listens.

    Raises FabricError.
    """
    if len(names) == 1:
        return None
    first, second = names
    address = str(request.nodes[first]["address"])
    # Neither takes a stranger, or an end of another job, for its own.
    leads = place.node == first
    mine, other = (word(place.secret, name) for name in ((first, second) if leads else (second, first)))
    try:
        if leads:
            peer = listen(address, request.port, (other, mine), request.timeout_seconds)
        else:
            peer = call(address, request.port, (mine, other), request.timeout_seconds)
    except OSError as exc:
        raise FabricError(f"no connection with {' and '.join(names)} at {address} port {request.port}: {exc}") from exc
    peer.patience(request.timeout_seconds + request.seconds)
    return peer


@dataclass
class RailTestRun:
    """This node's way through the steps; what it has seen so far is in ``report`` at any moment."""

    request: Request
    node: str
    peer: Peer | None
    report: dict[str, Any]
    # All by the rails' names.
    rails: dict[str, NamedRail] = field(default_factory=dict)
    gids: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    read: dict[str, dict[str, int]] = field(default_factory=dict)

    def run(self, steps: Sequence[Sequence[RailTest]]) -> None:
        """Run the steps; raises FabricError if the other end is lost."""
        self._find_rails()
        for number, step in enumerate(steps):
            phase = step[0].phase
            self.report["phase"] = f"{phase}, step {number + 1} of {len(steps)}"
            # What is looped back inside the device does not show in the port's counters.
            rails = {test.rail for test in step} if phase != LOOPBACK else set()
            for rail in rails - set(self.read):
                self.read[rail] = self._counters(rail)
            self._step(number, step)
            following = steps[number + 1] if number + 1 < len(steps) else []
            for rail in sorted(rails):
                if not any(test.rail == rail and test.phase == phase for test in following):
                    self._count(rail, phase)

    def _step(self, number: int, step: Sequence[RailTest]) -> None:
        servers, deaf = self._serve([test for test in step if test.server == self.node])
        refused = self._meet(2 * number, deaf)
        started: list[Tool] = []
        for test in step:
            if test.client != self.node:
                continue
            why = self.faults.get(test.rail) or refused.get(_key(test))
            if why:
                self.report["tests"].append(_failed(test, why))
            else:
                started.append(self._start(test, self._address(test.server)))
        end = time.monotonic() + START_SECONDS + max(test.seconds for test in step)
        for tool in started:
            self._judge(tool, tool.finish(end))
        self._meet(2 * number + 1, {})
        # The clients have ended: a server that still waits has nothing to wait for.
        end = time.monotonic() + 1
        for tool in servers:
            tool.finish(end)
            if tool.error:
                self._tell(tool.test, tool.error)

    def _serve(self, tests: Sequence[RailTest]) -> tuple[list[Tool], dict[str, str]]:
        """Return the servers that listen, and by test why others do not.

        A rail that cannot even wait for a client costs its peers no more time: it has a fault from then on.
        """
        faults = {_key(test): self.faults[test.rail] for test in tests if test.rail in self.faults}
        for port in taken((test.port for test in tests if _key(test) not in faults), time.monotonic() + KILL_SECONDS):
            said = f"port {port} is taken by another program"
            faults.update({_key(test): said for test in tests if test.port == port})
        servers = {_key(test): self._start(test, None) for test in tests if _key(test) not in faults}
        for tool in silent(servers.values(), time.monotonic() + START_SECONDS):
            tool.finish(time.monotonic())
            fault = tool.error or f"{tool.test.tool} ended before a client came"
            faults[_key(tool.test)] = self.faults[tool.test.rail] = fault
        for test in tests:
            if _key(test) in faults:
                self._tell(test, faults[_key(test)])
        listening = [tool for key, tool in servers.items() if key not in faults]
        return listening, {key: f"{self.node}: {fault}" for key, fault in faults.items()}

    def _meet(self, number: int, said: Mapping[str, str]) -> Mapping[str, str]:
        return self.peer.meet(number, said) if self.peer else said

    def _tell(self, server: RailTest, error: str) -> None:
        self.report["servers"].append({**server.to_dict(), "error": error})

    def _start(self, test: RailTest, address: str | None) -> Tool:
        device = self.rails[test.rail].device
        assert device, "a rail without its device has a fault, and is not tested"
        return Tool(test, argv_of(test, device, self.gids.get(test.rail), address), self.request.path)

    def _judge(self, tool: Tool, text: str) -> None:
        if tool.error:
            self.report["tests"].append(_failed(tool.test, tool.error))
            if tool.late:
                # What hangs once would hang again, and so would its peer; the pair is bad on this rail already.
                self.faults.setdefault(tool.test.rail, tool.error)
            return
        try:
            result = parse(text, tool.test)
        except PerftestError as exc:
            self.report["tests"].append(_failed(tool.test, f"{tool.test.tool}: {exc}"))
            return
        told = {**tool.test.to_dict(), "value": result.value, "bytes": result.bytes, "error": ""}
        self.report["tests"].append(told)

    def _address(self, node: str) -> str:
        return str(self.request.nodes[node]["address"])

    def _find_rails(self) -> None:
        """Read what this host calls the rails, and on RoCE which GID has each one's address."""
        names = read_names(LocalHost(root=self.request.root))
        for rail in named(self.request.rails, names):
            self.rails[rail.name] = rail
            if rail.device is None:
                self.faults[rail.name] = no_device(rail, names)
            elif self.request.roce:
                try:
                    self.gids[rail.name] = self._gid(rail.name, rail.device)
                except PerftestError as exc:
                    self.faults[rail.name] = f"{rail}: {exc}"

    def _gid(self, rail: str, device: str) -> int:
        own = self.request.nodes[self.node]["rails"].get(rail)
        if own is None:
            raise PerftestError("no address is declared for this rail")
        return gid_index_of(read_gids(device, self.request.root), own)

    def _counters(self, rail: str) -> dict[str, int]:
        request = self.request
        return read_counters(self.rails[rail], request.counters, request.roce, request.path, request.root)

    def _count(self, rail: str, phase: str) -> None:
        now = self._counters(rail)
        wanted = (*self.request.counters, *(PRIORITY_COUNTERS if self.request.roce else ()))
        self.report["counters"].setdefault(rail, {})[phase] = growth(wanted, self.read[rail], now)
        self.read[rail] = now


def _key(test: RailTest) -> str:
    return f"{test.rail}:{test.port}"


def _failed(test: RailTest, error: str) -> dict[str, Any]:
    return {**test.to_dict(), "value": None, "bytes": 0, "error": error[:400]}


def main(arguments: Sequence[str] | None = None, _version: str = "") -> int:
    """Run as one end; print one answer whatever happens and return the exit status: 0 only if the walk came to its end.

    A test that failed is no failure of the run: the answer says so.
    """
    request = _request(arguments)
    report: dict[str, Any] = {"phase": "start", "tests": [], "servers": [], "counters": {}, "error": ""}
    try:
        place = place_from(os.environ)
    except CollectiveError as exc:
        sys.stderr.write(f"muster fabric: {exc}\n")
        return 2
    report.update(node=place.node, rank=place.rank)
    answer = _Answer(report, LinkWatch(request.links, request.root).start())
    watchdog = threading.Timer(request.deadline_seconds, answer.give_up, ("not finished", EXIT_DEADLINE))
    watchdog.daemon = True
    watchdog.start()
    # In a thread of its own: the handler may have interrupted a start, whose end giving up waits for.
    cancelled = threading.Thread(target=answer.give_up, args=("cancelled", EXIT_ENDED), daemon=True)
    signal.signal(signal.SIGTERM, lambda *_: None if cancelled.ident else cancelled.start())
    try:
        first = first_host(os.environ["SLURM_STEP_NODELIST"])
        names = [first, *sorted(set(request.nodes) - {first})]
        if place.node not in names or len(names) > 2 or place.ranks != len(names):
            found = f"{place.node} of {place.ranks} tasks"
            raise FabricError(f"this is {found}, expected one on each of {', '.join(names)}")
        peer = connect(request, place, names)
        second = names[1] if len(names) == 2 else None
        RailTestRun(request, place.node, peer, report).run(steps_of(request, first, second))
    except Exception as exc:  # noqa: BLE001 -- whatever goes wrong becomes this node's answer
        said = str(exc) if isinstance(exc, FabricError) else f"{type(exc).__name__}: {exc}"
        report["error"] = f"{said} (in {report['phase']})".replace("\n", " ")[:500]
    watchdog.cancel()
    answer.give()
    return 1 if report["error"] else 0


def _request(arguments: Sequence[str] | None) -> Request:
    parser = argparse.ArgumentParser(prog="muster fabric", description="Run one end of a test of every rail.")
    parser.add_argument("--spec", required=True, help="nodes, rails and what to run (JSON)")
    parser.add_argument("--port", type=int, required=True, help="where the ends meet; the tests use the ports after it")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds to wait for the other end")
    parser.add_argument("--deadline", type=float, default=600.0, help="seconds for everything")
    options = parser.parse_args(arguments)
    try:
        return Request.read(json.loads(options.spec), options.port, options.timeout, options.deadline)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        parser.error(f"--spec: {type(exc).__name__} {exc}, expected nodes, rails and settings")


class _Answer:
    """What this node prints, once."""

    def __init__(self, report: dict[str, Any], watch: LinkWatch) -> None:
        self.report = report
        self.watch = watch
        self._giving = threading.Lock()
        self._given = False

    def give(self, why: str = "") -> None:
        """End the tools and print; ``why`` is for a run that is ended early.

        The second of two calls waits for the first, as the program ends after either, and does nothing.
        """
        with self._giving:
            if self._given:
                return
            self._given = True
            if why:
                self.report["error"] = f"{why} in {self.report['phase']}"
            # The walk, if it still goes on, takes the end of its tool for a fault: this answer is older.
            report = dict(self.report)
            Tool.kill_all()
            data = pack({**report, "links": self.watch.told()}).encode()
            while data:
                data = data[os.write(1, data) :]

    def give_up(self, why: str, status: int) -> None:
        """End the program with what is known so far; whatever goes wrong here, it ends."""
        try:
            self.give(why)
        finally:
            os._exit(status)
