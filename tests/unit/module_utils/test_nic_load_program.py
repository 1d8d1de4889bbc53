"""The load of the rails as a process, with stand-ins for perftest and numactl: rounds, faults, no process left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import wait_until
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.nic_load_program import Request
from ansible_collections.muster.cluster.plugins.module_utils.stress import nic_load

# PCI addresses of the rails.
AT = ("0000:1a:00.0", "0000:9c:00.0")
# The NUMA node that the stand-in is bound to decides what it does, by what the file of its device says of that memory.
NUMACTL = """
import os, sys
node, memory = (word.partition("=")[2] for word in sys.argv[1:3])
assert node == memory and sys.argv[1].startswith("--cpunodebind=") and sys.argv[2].startswith("--membind=")
os.environ["NODE"] = node
os.execvp(sys.argv[3], sys.argv[3:])
"""
IB_WRITE_BW = """
import os, socket, sys, time
argv = sys.argv[1:]
place = os.path.dirname(os.path.realpath(sys.argv[0]))
if argv == ["--help"]:
    print(open(f"{place}/help").read())
    sys.exit(1)
device, port, size, seconds = (argv[argv.index(key) + 1] for key in ("-d", "-p", "-s", "-D"))
gpu = next((word.partition("=")[2] for word in argv if word.startswith("--use_cuda=")), "")
memory = "gpu" if gpu else "numa " + os.environ["NODE"]
end = "client" if argv[-1] == "127.0.0.1" else "server"
with open(f"{place}/{device}", "a") as file:
    file.write(f"{end} {memory} {gpu} {'-x' in argv and argv[argv.index('-x') + 1]} {'--use_cuda_dmabuf' in argv}\\n")
does = dict(line.split("=") for line in open(f"{place}/{device}.does").read().split("\\n") if line)
what = does.get(f"{end} {memory}", does.get(memory, "300"))
if what == "deaf":
    time.sleep(600)
if what == "exit":
    sys.exit("Couldn't allocate MR")
if end == "server":
    at = next((word.partition("=")[2] for word in argv if word.startswith("--bind_source_ip=")), "")
    listener = socket.create_server((at, int(port)))
    with open(f"{place}/listening", "w") as file:
        file.write(at)
    connection, _ = listener.accept()
else:
    connection = socket.create_connection((argv[-1], int(port)))
if what == "hang":
    time.sleep(600)
if what == "completion":
    sys.exit("Completion with error at client\\n Failed status 12: wr_id 0 syndrom 0x81")
if end == "client":
    time.sleep(float(does.get("takes", 0)))
    connection.sendall(b"x")
    connection.recv(1)
else:
    connection.recv(1)
    connection.sendall(b"y")
print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
print(f" {size}      3735000          0.00               {what}               0.746994")
print("-" * 87 if what != "99" else "")
"""
PROGRAM = """
import sys
from ansible_collections.muster.cluster.plugins.module_utils.rail_test import nic_load_program as program
program.FIRST_PORT, program.START_SECONDS = int(sys.argv[1]), 2
sys.exit(program.main(sys.argv[2:]))
"""


class Node:
    """A host with two rails at two NUMA nodes, and stand-ins of its tools."""

    def __init__(self, place: Path, port: int) -> None:
        self.place, self.port = place, port
        self.spec: dict[str, Any] = {
            "rails": [{"rail": rail, "address": AT[rail], "gpu": 4 + rail} for rail in range(2)],
            "numa": [0, 1],
            "message_bytes": 1048576,
            "queue_pairs": 4,
            "round_seconds": 1,
            "dmabuf": True,
            "path": f"{place}/bin:/usr/bin:/bin",
            "root": str(place),
        }
        for name, text in (("numactl", NUMACTL), ("ib_write_bw", IB_WRITE_BW)):
            path = self.put(f"bin/{name}", f"#!{sys.executable} -IS\n{text}")
            path.chmod(0o755)
        self.put("bin/help", "  --report_gbits  Report")
        for rail, address in enumerate(AT):
            self.put(f"sys/bus/pci/devices/{address}/infiniband/mlx5_{rail}/node_type", "1: CA")
            self.put(f"sys/bus/pci/devices/{address}/numa_node", str(rail))
            self.put(f"sys/devices/system/node/node{rail}/distance", "21 10" if rail else "10 21")
            self.put(f"sys/class/infiniband/mlx5_{rail}/ports/1/link_layer", "InfiniBand")
            self.does(rail, "")
        self.process: subprocess.Popen[str] | None = None

    def put(self, name: str, text: str) -> Path:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
        return path

    def does(self, rail: int, text: str) -> None:
        """Say what a rail's stand-in does: by memory, and end if only one, a rate or a fault."""
        self.put(f"bin/mlx5_{rail}.does", text)

    def ends(self, rail: int) -> list[str]:
        """Return the ends that were started."""
        return (self.place / f"bin/mlx5_{rail}").read_text().splitlines()

    def start(self, seconds: float = 0.1) -> subprocess.Popen[str]:
        argv = [
            sys.executable,
            "-c",
            PROGRAM,
            str(self.port),
            f"--spec={json.dumps(self.spec)}",
            f"--seconds={seconds}",
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        return self.process

    def answer(self, seconds: float = 0.1, limit: float = 40) -> nic_load.NicLoads:
        """Run the load to its end, and return what the stress makes of its answer."""
        process = self.start(seconds)
        out, err = process.communicate(timeout=limit)
        return nic_load.parse(Output(out, err, process.returncode))

    def orphans(self) -> list[str]:
        """Return the stand-ins of this test that still run."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                command = (place / "cmdline").read_bytes().decode(errors="replace")
                state = (place / "stat").read_text().rpartition(") ")[2][:1]
            except OSError:
                continue
            if f"{self.place}/bin/ib_write_bw" in command and state != "Z":
                found.append(command)
        return found


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    found = Node(tmp_path, 20000 + os.getpid() % 1000 * 10)
    yield found
    if found.process and found.process.poll() is None:
        found.process.kill()
        found.process.wait()
    # A busy machine takes a moment to end what the kernel has killed.
    wait_until(lambda: not found.orphans(), 10.0, 0.1)
    assert found.orphans() == []


def test_every_rail_has_a_rate_with_each_memory_however_short_the_time(node: Node) -> None:
    node.does(0, "numa 0=366.5\nnuma 1=331.2\ngpu=378.1")
    loads = node.answer()
    assert (loads.rounds, loads.numa, sorted(loads.rails)) == (3, (0, 1), ["rail0", "rail1"])
    first, second = (loads.rails[rail] for rail in ("rail0", "rail1"))
    assert {memory: rate.median for memory, rate in first.rates.items()} == {
        "numa 0": 366.5,
        "numa 1": 331.2,
        "gpu": 378.1,
    }
    assert {rate.count for rail in (first, second) for rate in rail.rates.values()} == {1}
    assert (first.device, first.numa_node, first.distances) == ("mlx5_0", 0, {"numa 0": 10, "numa 1": 21})
    assert (second.numa_node, second.distances, second.errors) == (1, {"numa 0": 21, "numa 1": 10}, {})


def test_memory_goes_round_from_the_rails_own_and_both_ends_use_the_same(node: Node) -> None:
    node.answer()
    assert node.ends(0)[:2] == ["server numa 0  False False", "client numa 0  False False"]
    assert node.ends(1)[:2] == ["server numa 1  False False", "client numa 1  False False"]
    assert node.ends(1)[2:4] == ["server numa 0  False False", "client numa 0  False False"]
    assert node.ends(1)[4:] == ["server gpu 5 False True", "client gpu 5 False True"]


@pytest.mark.parametrize(("said", "at"), [("  --report_gbits", ""), ("  --bind_source_ip  Source IP", "127.0.0.1")])
def test_servers_listen_at_this_host_alone_where_perftest_can(node: Node, said: str, at: str) -> None:
    node.put("bin/help", said)
    assert len(node.answer().rails["rail0"].rates) == 3
    assert (node.place / "bin/listening").read_text() == at


def test_rounds_go_on_until_the_time_is_up(node: Node) -> None:
    for rail in range(2):
        node.spec["rails"][rail]["gpu"] = None
    node.does(0, "takes=0.2")
    loads = node.answer(4.5)
    assert 4 <= loads.rounds <= 6
    assert loads.lasted >= 4.5
    assert all(rate.count >= 2 for rail in loads.rails.values() for rate in rail.rates.values())
    assert set(loads.rails["rail0"].rates) == {"numa 0", "numa 1"}


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("numa 1=exit", "server: ib_write_bw ended with 1: Couldn't allocate MR"),
        ("server numa 1=deaf", "server: ib_write_bw did not listen in time"),
        ("client numa 1=hang", "ib_write_bw did not end in time, killed"),
        ("client numa 1=completion", "ib_write_bw ended with 1: Completion with error at client Failed status 12"),
        ("client numa 1=99", "ib_write_bw: the report has no end"),
    ],
)
def test_fault_of_one_rail_with_one_memory_costs_that_rate_alone(node: Node, does: str, said: str) -> None:
    node.does(0, does)
    loads = node.answer()
    rail = loads.rails["rail0"]
    assert set(rail.rates) == {"numa 0", "gpu"}
    assert rail.failed == {"numa 1": 1}
    assert said in rail.errors["numa 1"][0]
    assert set(loads.rails["rail1"].rates) == {"numa 0", "numa 1", "gpu"}


def test_port_that_is_taken_is_the_answer_of_its_rail(node: Node) -> None:
    with socket.create_server(("", node.port)):
        loads = node.answer()
    rail = loads.rails["rail0"]
    assert rail.errors["numa 0"] == (f"port {node.port} is taken by another program",)
    assert (rail.rates, rail.failed) == ({}, {"numa 0": 1, "numa 1": 1, "gpu": 1})
    assert len(loads.rails["rail1"].rates) == 3


@pytest.mark.parametrize("tool", ["numactl", "ib_write_bw"])
def test_tool_that_is_missing_is_told_of_every_memory_and_not_asked_for_thousands_of_times(
    node: Node, tool: str
) -> None:
    (node.place / "bin" / tool).unlink()
    node.spec["path"] = f"{node.place}/bin"
    loads = node.answer(1.5)
    assert 3 <= loads.rounds <= 4
    for rail in loads.rails.values():
        assert rail.rates == {}
        assert set(rail.errors) == {"numa 0", "numa 1", "gpu"}


def test_rail_without_a_device_is_missing_and_the_other_is_loaded(node: Node) -> None:
    node.spec["rails"][0]["address"] = "0000:5e:00.0"
    loads = node.answer()
    assert loads.rails["rail0"].missing.startswith("rail 0 has no RDMA device at 0000:5e:00.0")
    assert (loads.rails["rail0"].rates, loads.rails["rail0"].device) == ({}, "")
    assert len(loads.rails["rail1"].rates) == 3


def test_roce_port_is_reached_by_the_gid_of_its_own_interface(node: Node) -> None:
    for rail, address in enumerate(AT):
        node.put(f"sys/bus/pci/devices/{address}/net/rdma{rail}/mtu", "9000")
        port = f"sys/class/infiniband/mlx5_{rail}/ports/1"
        node.put(f"{port}/link_layer", "Ethernet")
        table = {
            1: ("fe80::a", "RoCE v2", f"rdma{rail}"),
            2: ("::ffff:172.16.0.1", "IB/RoCE v1", f"rdma{rail}"),
            3: ("::ffff:10.0.0.1", "RoCE v2", "vlan7"),
            **({4: ("::ffff:172.16.0.1", "RoCE v2", "rdma0")} if rail == 0 else {}),
        }
        for index, (gid, kind, interface) in table.items():
            node.put(f"{port}/gids/{index}", gid)
            node.put(f"{port}/gid_attrs/types/{index}", kind)
            node.put(f"{port}/gid_attrs/ndevs/{index}", interface)
    loads = node.answer()
    assert node.ends(0)[0] == "server numa 0  4 False"
    assert loads.rails["rail1"].missing == (
        "rail 1 (mlx5_1): no GID of type RoCE v2 with an IPv4 address of rdma1 among 3"
    )


def test_place_that_the_firmware_does_not_tell_is_none(node: Node) -> None:
    node.put(f"sys/bus/pci/devices/{AT[0]}/numa_node", "-1")
    rail = node.answer().rails["rail0"]
    assert (rail.numa_node, rail.distances, len(rail.rates)) == (None, {}, 3)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("does", ["takes=600", "server numa 0=deaf"])
def test_program_that_is_ended_leaves_nothing_behind_and_answers_nothing(
    node: Node, sent: signal.Signals, does: str
) -> None:
    node.does(0, does)
    process = node.start(600)
    assert wait_until(lambda: bool(node.orphans()), 15, 0.02)
    process.send_signal(sent)
    begin = time.monotonic()
    out, _ = process.communicate(timeout=10)
    assert (out, process.returncode) == ("", 143 if sent == signal.SIGTERM else -9)
    assert time.monotonic() - begin < 5
    assert wait_until(lambda: not node.orphans(), 5, 0.05)


@pytest.mark.parametrize(
    ("change", "seconds"),
    [({"rails": []}, 1), ({"numa": []}, 1), ({"rails": None}, 1), ({"round_seconds": 0}, 1), ({}, 0), ({}, 1e9)],
)
def test_request_without_anything_to_run_is_refused(node: Node, change: dict[str, Any], seconds: float) -> None:
    with pytest.raises((ValueError, TypeError)):
        Request.read({**node.spec, **change}, seconds)
