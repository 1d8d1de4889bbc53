"""A simulated InfiniBand fabric: ibsim with the cables of a declared fleet, OpenSM, and the tools that ask them.

    ibsim.py up FLEET_FILE DIRECTORY     start the fabric; its tools are in DIRECTORY/bin
    ibsim.py down DIRECTORY

ibsim 0.10 knows speeds up to HDR. Where a fabric's name matters (several at a time), the directory is its name.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collections"))

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import (
    cables_of,
    switches_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

PACKAGES = {"ibsim": "ibsim-utils", "opensm": "opensm", "ibnetdiscover": "infiniband-diags"}
TOOLS = (
    "ibnetdiscover",
    "iblinkinfo",
    "ibqueryerrors",
    "ibstat",
    "perfquery",
    "smpquery",
    "saquery",
    "sminfo",
    "opensm",
)
PRELOAD = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
# Bits of PortInfo.LinkSpeedExtEnabled by Gb/s of four lanes, and of LinkWidthEnabled by lanes.
SPEEDS = {56: 1, 100: 2, 200: 4}
WIDTHS = {1: 1, 4: 2}
START_SECONDS = 180
# Ports of each switch beyond those that are planned.
SPARE_PORTS = 4


class FabricError(Exception):
    """The simulated fabric cannot be started or asked."""


@dataclass
class Node:
    """A switch or HCA: number of ports, description, and the far end of each linked port."""

    kind: str
    ports: int
    description: str
    links: dict[int, tuple[str, int]] = field(default_factory=dict)


class Net:
    """Nodes and links by ibsim's node names, which are unique; ``weak`` holds lanes and Gb/s of links that differ."""

    def __init__(self, gbps: int) -> None:
        self.gbps, self.nodes = gbps, dict[str, Node]()
        self.weak: dict[tuple[str, int], tuple[int, int]] = {}

    def add(self, kind: str, name: str, ports: int = 1, description: str = "") -> None:
        """Add a node of kind Hca or Switch."""
        self.nodes[name] = Node(kind, ports, description or name)

    def link(self, name: str, port: int, other: str, at: int) -> None:
        """Plug in a cable; raises FabricError where one of the ports has one."""
        for end, number, far in ((name, port, (other, at)), (other, at, (name, port))):
            if number in self.nodes[end].links:
                raise FabricError(f"{end} port {number}: a cable already, to {self.nodes[end].links[number]}")
            self.nodes[end].links[number] = far

    def unlink(self, name: str, port: int) -> tuple[str, int]:
        """Pull a cable, and return its far end."""
        other, at = self.nodes[name].links.pop(port)
        del self.nodes[other].links[at]
        return other, at

    def weaken(self, name: str, port: int, lanes: int = 4, gbps: int | None = None) -> None:
        """Let a link come up with fewer lanes, or at another speed (Gb/s of four lanes)."""
        for end in ((name, port), self.nodes[name].links[port]):
            self.weak[end] = (lanes, gbps or self.gbps)

    def remove(self, name: str) -> None:
        """Take a node out with its cables."""
        for port in list(self.nodes[name].links):
            self.unlink(name, port)
        del self.nodes[name]

    def text(self) -> str:
        """Return the net file; the first node is where ibsim attaches a client that names no other."""
        return "\n".join(self._record(name, node) for name, node in self.nodes.items() if node.links)

    def _record(self, name: str, node: Node) -> str:
        lines = [f'{node.kind} {node.ports} "{name}" # "{node.description}" base port 0 lid 0 lmc 0']
        for port, (other, at) in sorted(node.links.items()):
            lanes, gbps = self.weak.get((name, port), (4, self.gbps))
            settings = f"s=4 w={WIDTHS[lanes]} v=4 e={SPEEDS[gbps]}"
            lines.append(f'[{port}] "{other}"[{at}] # "{other}" lid 0 {lanes}x {settings}')
        return "\n".join(lines) + "\n"


def net_of(cables: Iterable[tuple[tuple[str, str], tuple[str, str]]], switches: Mapping[str, int], gbps: int) -> Net:
    """Return the fabric that is cabled as planned: ends are (host, rail) or (switch, port).

    ``switches`` has the number of ports of each.
    """
    net = Net(gbps)
    ends = list(cables)
    for (name, port), _ in ends:
        if name not in switches:
            net.add("Hca", f"{name} {port}")
    for name, ports in switches.items():
        # As a managed Quantum switch describes itself.
        net.add("Switch", name, ports, f"MF0;{name}:MQM8700/U1")
    for (name, port), (above, at) in ends:
        if name in switches:
            net.link(name, int(port), above, int(at))
        else:
            net.link(f"{name} {port}", 1, above, int(at))
    return net


class Simulator:
    """A running fabric; everything about it lies in its directory, so that another process finds it there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()

    def __enter__(self) -> Simulator:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which a tool asks this fabric, attached to its first node."""
        return {"LD_PRELOAD": PRELOAD, "IBSIM_SOCKNAME": self.directory.as_posix().replace("/", "-")[-40:]}

    def start(self, net: Net, manager: bool = True) -> Simulator:
        """Start the fabric, and OpenSM unless it is to stay without; raises FabricError."""
        self.stop()
        bin_directory = self.directory / "bin"
        bin_directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "net").write_text(net.text(), encoding="utf-8")
        os.mkfifo(self.directory / "commands")
        settings = " ".join(f"{name}='{value}'" for name, value in self.environment.items())
        for tool in TOOLS:
            path = shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin")
            # A client keeps files where it was started, and one that is killed leaves them.
            script = f'#!/bin/sh\ncd {self.directory} && exec env {settings} {path} "$@"\n'
            (bin_directory / tool).write_text(script, encoding="utf-8")
            (bin_directory / tool).chmod(0o755)
        nodes = len(net.nodes) + 64
        ports = sum(node.ports + 1 for node in net.nodes.values()) + 1024
        # One that switches can be added to and whose tables hold every address.
        limits = ["-N", str(nodes), "-S", str(nodes), "-P", str(ports), "-L", str(nodes + 1024)]
        commands = os.open(self.directory / "commands", os.O_RDWR)
        try:
            self._spawn("ibsim", ["ibsim", "-s", *limits, str(self.directory / "net")], commands)
        finally:
            os.close(commands)
        self._wait("ibsim", "Network simulator ready")
        if manager:
            files = {"OSM_TMP_DIR": str(self.directory), "OSM_CACHE_DIR": str(self.directory)}
            log = str(self.directory / "opensm.osm")
            self._spawn("opensm", ["opensm", "-f", log], subprocess.DEVNULL, {**self.environment, **files})
            self.settle()
        return self

    def settle(self) -> None:
        """Wait until the subnet manager has made every link active."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            # Written at the end of the manager's first sweep, which a tool that asks meanwhile only slows down.
            if (self.directory / "opensm-subnet.lst").exists():
                done = self.run(["iblinkinfo", "-l"])
                # One that crashed half-way has not seen the other links.
                if not done.returncode and "Active/" in done.stdout and not re.search("Init/|Armed/", done.stdout):
                    return
            time.sleep(0.5)
        raise FabricError(f"links that are not active after {START_SECONDS} s: see {self.directory}/opensm.osm")

    def command(self, *lines: str) -> None:
        """Give ibsim console commands: Link, Unlink, PerformanceSet, Error... (its ``help`` lists them)."""
        seen = (self.directory / "ibsim.log").stat().st_size
        with (self.directory / "commands").open("w", encoding="utf-8") as console:
            console.write("\n".join((*lines, "Verbose 0")) + "\n")
        said = self._wait("ibsim", "simulator verbose level is", seen)
        if refused := [line for line in said.splitlines() if "# " in line]:
            raise FabricError(f"ibsim: {'; '.join(refused)}")

    def run(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a tool against the fabric."""
        path = {"PATH": f"{self.directory / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
        return subprocess.run(list(argv), env=path, capture_output=True, text=True, timeout=120, check=False)

    def stop(self) -> None:
        """Stop what was started, and remove the directory."""
        for name in ("opensm", "ibsim"):
            file = self.directory / f"{name}.pid"
            if file.exists():
                _end(name, int(file.read_text()))
        shutil.rmtree(self.directory, ignore_errors=True)

    def _spawn(self, name: str, argv: list[str], given: int, environment: Mapping[str, str] | None = None) -> None:
        # ibsim listens under the name that its clients are told.
        own = {"PATH": os.environ["PATH"] + ":/usr/sbin", **(environment or {**self.environment, "LD_PRELOAD": ""})}
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                argv, cwd=self.directory, stdin=given, stdout=log, stderr=log, env=own, start_new_session=True
            )
        (self.directory / f"{name}.pid").write_text(str(process.pid))

    def _wait(self, name: str, text: str, start: int = 0) -> str:
        until = time.monotonic() + START_SECONDS
        file = self.directory / f"{name}.log"
        while time.monotonic() < until:
            said = file.read_bytes()[start:].decode(errors="replace")
            if text in said:
                return said
            time.sleep(0.05)
        raise FabricError(f'{name} did not say "{text}" within {START_SECONDS} s: {said[-500:]}')


def _end(name: str, pid: int) -> None:
    """End a process that was started here, unless its number is another's by now."""
    with contextlib.suppress(OSError):
        if name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGTERM)
            for _ in range(100):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                os.kill(pid, 0)
                time.sleep(0.05)
            os.kill(pid, signal.SIGKILL)


def install() -> None:
    """Install the simulator and the tools quietly, where they are missing."""
    missing = sorted(
        {package for tool, package in PACKAGES.items() if not shutil.which(tool, path="/usr/sbin:/usr/bin")}
    )
    if missing:
        apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for argv in ([*apt, "update"], [*apt, "install", "-y", "--no-install-recommends", *missing]):
            subprocess.run(argv, check=True, env=quiet, stdout=subprocess.DEVNULL)


def net_of_fleet(file: str) -> Net:
    """Return the fabric that a fleet file declares."""
    fleet = Fleet.load(file)
    assert fleet.fabric.speed_gbps is not None
    cables = cables_of(fleet.nodes, fleet.fabric)
    ports = dict.fromkeys(switches_of(fleet.fabric), 0)
    for name, port in (end for cable in cables for end in cable):
        if name in ports:
            # Some stay free for what is plugged in wrongly.
            ports[name] = max(ports[name], int(port) + SPARE_PORTS)
    return net_of(cables, ports, fleet.fabric.speed_gbps)


def main(argv: Sequence[str]) -> int:
    """Start or stop a fabric as the command line says."""
    if argv[:1] == ["up"] and len(argv) == 3:
        install()
        simulator = Simulator(Path(argv[2])).start(net_of_fleet(argv[1]))
        print(json.dumps({"bin": str(simulator.directory / "bin")}))
    elif argv[:1] == ["down"] and len(argv) == 2:
        Simulator(Path(argv[1])).stop()
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except FabricError as error:
        sys.exit(f"ibsim.py: {error}")
