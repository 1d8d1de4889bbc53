"""Both ends of a fabric test as processes over loopback, with stand-ins for perftest: both end in bounded time."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import wait_until
from ansible_collections.muster.cluster.plugins.module_utils.rail_test import fabric_test, perftest_process
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.perftest import RailTest
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.rail_counters import PRIORITY_COUNTERS
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import unpack

NODES = ("gpu-01", "gpu-02")
# Both nodes are this host: with several addresses, as each listens where its own address is.
ADDRESSES = {"gpu-01": "127.0.0.1", "gpu-02": "127.0.0.2"}
RAIL_IP = {"gpu-01": "172.16.0.1", "gpu-02": "172.16.0.2"}
# PCI addresses of the rails.
AT = ("0000:1a:00.0", "0000:3c:00.0")
# What a stand-in does is the name of its device: "good", or a fault and the end that has it.
STAND_IN = r"""
import glob, os, socket, sys, time
tool, argv = os.path.basename(sys.argv[0]), sys.argv[1:]
device, port, size = (argv[argv.index(key) + 1] for key in ("-d", "-p", "-s"))
host = os.path.join(os.path.dirname(sys.argv[0]), os.environ["SLURMD_NODENAME"])
if not glob.glob(f"{host}/sys/bus/pci/devices/*/infiniband/{device}"):
    sys.exit(f"IB device {device} not found")
gids = f"{host}/sys/class/infiniband/{device}/ports/1/gids"
if "-x" in argv and argv[argv.index("-x") + 1] not in os.listdir(gids):
    sys.exit("no such GID")
end = "client" if argv[-1].startswith("127.") else "server"
fault = device.partition("_")[0] if device.endswith(end) else ""
if fault == "exit":
    print(" Port number 1 state is Down")
    sys.exit(1)
if fault == "cuda":
    print("No such device ID (9) exists in system", file=sys.stderr)
    print("initializing CUDA\nPicking device No. 9 " * 20)
    sys.exit(1)
if fault == "deaf":
    time.sleep(600)
if end == "server":
    listener = socket.create_server(("", int(port)))
    connection, _ = listener.accept()
else:
    connection = socket.create_connection((argv[-1], int(port)))
if fault == "hang":
    time.sleep(600)
if fault == "crash":
    os._exit(139)
if end == "client":
    connection.sendall(b"x")
    connection.recv(1)
else:
    connection.recv(1)
    connection.sendall(b"y")
if tool == "ib_write_bw":
    head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
    row = f" {size}      3735000          0.00               391.65               0.746994"
else:
    head = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]"
    row = f" {size}       1000          2.05           6.10         2.21"
if fault == "garbled":
    row = row[:-9]
print(head)
print(row)
print("-" * 87)
"""
# What ethtool says of an interface that the host has.
COUNTED = f"{PRIORITY_COUNTERS[0]}: 7"
PROGRAM = """
import sys
from ansible_collections.muster.cluster.plugins.module_utils.rail_test import fabric_peer, fabric_test
fabric_test.START_SECONDS = 2
fabric_peer.HELLO_SECONDS = 0.5
sys.exit(fabric_test.main())
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("ib_write_bw", "ib_write_lat"):
        path = place / name
        path.write_text(f"#!{sys.executable} -IS\n{STAND_IN}")
        path.chmod(0o755)
    ethtool = place / "ethtool"
    ethtool.write_text(f"#!/bin/sh\nls -d {place}/$SLURMD_NODENAME/sys/bus/pci/devices/*/net/$2 && echo {COUNTED}\n")
    ethtool.chmod(0o755)
    return place


@pytest.fixture
def port() -> int:
    """Return the first of many ports that nobody listens on."""
    for first in range(20000 + os.getpid() % 500 * 20, 32000, 20):
        try:
            for number in range(first, first + 10):
                socket.create_server(("", number)).close()
        except OSError:
            continue
        return first
    raise AssertionError("no ports")


class Walkers:
    """The two ends, or one."""

    def __init__(self, tools: Path, port: int) -> None:
        self.tools = tools
        self.port = port
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def put(self, node: str, files: Mapping[str, str]) -> None:
        """Write files of a host's /sys."""
        for name, text in files.items():
            path = self.tools / node / "sys" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    def start(self, node: str, devices: Sequence[str], nodes: Sequence[str] = NODES, **other: Any) -> None:
        """Start an end on a host that has these devices, in the order of the rails' addresses; "" is a missing one."""
        more = {"timeout": 3, "deadline": 20, "job": "7", "roce": False, **other}
        for address, device in zip(AT, devices, strict=False):
            if device:
                self.put(node, {f"bus/pci/devices/{address}/infiniband/{device}/node_type": "1: CA"})
                self.put(node, {f"class/infiniband/{device}/ports/1/hw_counters/out_of_sequence": "5"})
        spec = {
            "nodes": {
                name: {"address": ADDRESSES[name], "rails": {f"rail{rail}": RAIL_IP[name] for rail in range(2)}}
                for name in nodes
            },
            "rails": [{"rail": rail, "address": AT[rail], "gpu": None} for rail in range(len(devices))],
            **{"bandwidth_bytes": 65536, "latency_bytes": 2, "queue_pairs": 1, "seconds": 0},
            **{
                "roce": more["roce"],
                "dmabuf": False,
                "data_class": None,
                "control_class": 64,
                "counters": ["out_of_sequence"],
            },
            **{"path": f"{self.tools}:/usr/bin:/bin", "root": str(self.tools / node), "links": [f"rail0={AT[0]}"]},
        }
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            **{"SLURM_PROCID": str(nodes.index(node)), "SLURM_LOCALID": "0", "SLURM_NTASKS": str(len(nodes))},
            **{"SLURMD_NODENAME": node, "SLURM_STEP_NODELIST": ",".join(nodes), "SLURM_JOB_ID": more["job"]},
            **{"MUSTER_ROUND_SECRET": "0123456789abcdef"},
        }
        argv = [sys.executable, "-c", PROGRAM, f"--spec={json.dumps(spec)}", f"--port={self.port}"]
        argv += [f"--timeout={more['timeout']}", f"--deadline={more['deadline']}"]
        self.processes[node] = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def answers(self, seconds: float = 25) -> dict[str, dict[str, Any]]:
        """Return each node's one answer; all have to end in time."""
        end, found = time.monotonic() + seconds, {}
        for node, process in self.processes.items():
            out, err = process.communicate(timeout=max(0.1, end - time.monotonic()))
            answers, faults = unpack(out)
            assert (len(answers), faults) == (1, []), err
            assert bool(answers[0]["error"]) == (process.returncode != 0)
            found[node] = answers[0]
        return found

    def orphans(self) -> list[str]:
        """Return the stand-ins of this test that still run."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                command = (place / "cmdline").read_bytes().decode(errors="replace")
                state = (place / "stat").read_text().rpartition(") ")[2][:1]
            except OSError:
                continue
            if f"{self.tools}/ib_write" in command and state != "Z":
                found.append(command)
        return found


@pytest.fixture
def walkers(tools: Path, port: int) -> Iterator[Walkers]:
    found = Walkers(tools, port)
    yield found
    for process in found.processes.values():
        if process.poll() is None:
            process.kill()
            process.wait()
    # A busy machine takes a moment to end what the kernel has killed.
    wait_until(lambda: not found.orphans(), 10.0, 0.1)
    assert found.orphans() == []


def both(walkers: Walkers, *devices: str, **other: Any) -> dict[str, dict[str, Any]]:
    for node in NODES:
        walkers.start(node, devices, **other)
    return walkers.answers()


def errors(answer: dict[str, Any], rail: str) -> list[str]:
    return [test["error"] for test in answer["tests"] if test["rail"] == rail]


def test_sound_rails_give_every_figure_from_the_client_of_each_test(walkers: Walkers) -> None:
    answers = both(walkers, "good_a", "good_b")
    assert [answer["error"] for answer in answers.values()] == ["", ""]
    told = [
        (test["phase"], test["tool"], test["rail"], test["client"]) for a in answers.values() for test in a["tests"]
    ]
    rails = ("rail0", "rail1")
    expected = [
        *(
            (phase, "ib_write_bw", rail, node)
            for phase in ("single", "together", "control")
            for rail in rails
            for node in NODES
        ),
        *(("single", "ib_write_lat", rail, "gpu-02") for rail in rails),
    ]
    assert sorted(told) == sorted(expected)
    assert not any(test["error"] for answer in answers.values() for test in answer["tests"])


def test_looped_back_node_reads_no_counters(walkers: Walkers) -> None:
    walkers.start("gpu-01", ["good_a", "good_b"], ["gpu-01"])
    answer = walkers.answers()["gpu-01"]
    assert [(test["phase"], test["rail"], test["value"]) for test in answer["tests"]] == [
        ("loopback", "rail0", 391.65),
        ("loopback", "rail1", 391.65),
    ]
    assert answer["counters"] == {}


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("exit_server", "ib_write_(bw|lat) ended with 1: Port number 1 state is Down"),
        ("exit_client", "ended with 1: Port number 1 state is Down"),
        ("cuda_server", "ended with 1: No such device ID \\(9\\) exists in system$"),
        ("deaf_server", "ib_write_(bw|lat) did not listen in time"),
        ("hang_server", "did not end in time, killed"),
        ("hang_client", "did not end in time, killed"),
        ("crash_client", "ended with 139: nothing printed"),
        ("garbled_client", "0 rows of figures|1 rows of figures"),
    ],
)
def test_rail_whose_tests_fail_gives_no_figure_and_the_other_rail_all(walkers: Walkers, device: str, said: str) -> None:
    answers = both(walkers, device, "good_a")
    for node, answer in answers.items():
        assert answer["error"] == ""
        assert errors(answer, "rail0"), node
        assert all(re.search(said, error) for error in errors(answer, "rail0")), errors(answer, "rail0")
        assert set(errors(answer, "rail1")) == {""}


def test_hosts_of_a_pair_may_call_their_devices_by_other_names(walkers: Walkers) -> None:
    # One host whose devices are named by their places, one with a further card before its rails.
    devices = {"gpu-01": ["rocep26s0", "rocep60s0"], "gpu-02": ["mlx5_1", "mlx5_2"]}
    for node, names in devices.items():
        for index, (address, device) in enumerate(zip(AT, names, strict=True), 3):
            gid = {f"gids/{index}": f"::ffff:{RAIL_IP[node]}", f"gid_attrs/types/{index}": "RoCE v2"}
            walkers.put(node, {f"class/infiniband/{device}/ports/1/{name}": text for name, text in gid.items()})
            walkers.put(node, {f"bus/pci/devices/{address}/net/if-{device}/mtu": "9000"})
    walkers.put("gpu-02", {"bus/pci/devices/0000:01:00.0/infiniband/mlx5_0/node_type": "1: CA"})
    for node, names in devices.items():
        walkers.start(node, names, roce=True)
    for answer in walkers.answers().values():
        assert {test["error"] for test in answer["tests"]} == {""}
        assert {test["rail"] for test in answer["tests"]} == set(answer["counters"]) == {"rail0", "rail1"}
        # ethtool was asked for interfaces that this host has.
        counted = [phases["single"] for phases in answer["counters"].values()]
        assert counted == [{"grown": {}, "missing": list(PRIORITY_COUNTERS[1:])}] * 2


def test_rail_whose_device_is_missing_gives_no_figure_and_the_other_rail_all(walkers: Walkers) -> None:
    walkers.start("gpu-01", ["mlx5_0", "mlx5_1"])
    walkers.start("gpu-02", ["rocep26s0", ""])
    said = f"rail 1 has no RDMA device at {AT[1]}, RDMA devices of this host: rocep26s0 at {AT[0]}"
    for node, answer in walkers.answers().items():
        assert answer["error"] == ""
        assert set(errors(answer, "rail0")) == {""}
        assert set(errors(answer, "rail1")) == {said if node == "gpu-02" else f"gpu-02: {said}"}
        missing = {rail: phases["single"]["missing"] for rail, phases in answer["counters"].items()}
        assert missing == {"rail0": [], "rail1": ["out_of_sequence"] if node == "gpu-02" else []}


def test_peer_that_never_comes_costs_the_time_to_wait_and_no_more(walkers: Walkers) -> None:
    walkers.start("gpu-01", ["good_a"], timeout=1)
    answer = walkers.answers(8)["gpu-01"]
    assert "no connection with gpu-01 and gpu-02" in answer["error"]


def test_peer_that_dies_in_the_middle_ends_the_walk_of_both(walkers: Walkers) -> None:
    for node in NODES:
        walkers.start(node, ["hang_server", "good_a"])
    end = time.monotonic() + 10
    while not walkers.orphans() and time.monotonic() < end:
        time.sleep(0.02)
    walkers.processes["gpu-02"].send_signal(signal.SIGTERM)
    answers = walkers.answers(10)
    assert answers["gpu-02"]["error"].startswith("cancelled in single")
    assert "the connection to the peer was lost in step" in answers["gpu-01"]["error"]


def test_link_that_flaps_is_told_also_where_the_walk_is_ended(walkers: Walkers) -> None:
    for node, interface in (("gpu-01", "eth2"), ("gpu-02", "enp26s0np0")):
        walkers.put(node, {f"bus/pci/devices/{AT[0]}/net/{interface}/mtu": "9000"})
        walkers.put(node, {f"class/net/{interface}/carrier_changes": "2"})
        walkers.start(node, ["hang_server"])
    assert wait_until(lambda: bool(walkers.orphans()), 10, 0.02)
    walkers.put("gpu-02", {"class/net/enp26s0np0/carrier_changes": "4"})
    walkers.processes["gpu-02"].send_signal(signal.SIGTERM)
    told = {node: answer["links"] for node, answer in walkers.answers(10).items()}
    assert told == {"gpu-01": {"rail0": {}}, "gpu-02": {"rail0": {"enp26s0np0": [2, 4]}}}


def test_walk_past_its_deadline_says_how_far_it_came_and_leaves_nothing_behind(walkers: Walkers) -> None:
    answers = both(walkers, "hang_server", "hang_client", deadline=2)
    assert any(answer["error"].startswith("not finished in single, step") for answer in answers.values())
    assert all(answer["error"] for answer in answers.values())


def test_deadline_that_comes_while_the_answer_is_given_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    begun, go_on, ends = threading.Event(), threading.Event(), threading.Event()

    class Watch:
        def told(self) -> dict[str, Any]:
            begun.set()
            assert go_on.wait(10)
            return {}

    report = {"node": "gpu-01", "phase": "single", "error": ""}
    answer = fabric_test._Answer(report, Watch())  # type: ignore[arg-type]
    monkeypatch.setattr(perftest_process.Tool, "_ended_all", False)
    monkeypatch.setattr(fabric_test.os, "_exit", lambda status: ends.set())
    giving = threading.Thread(target=answer.give)
    late = threading.Thread(target=answer.give_up, args=("not finished", 3))
    giving.start()
    assert begun.wait(10)
    late.start()
    assert not ends.wait(0.2)
    go_on.set()
    giving.join(10)
    late.join(10)
    assert ends.is_set()
    assert unpack(capfd.readouterr().out) == ([{**report, "links": {}}], [])


def test_tool_whose_start_runs_while_all_are_ended_ends_too_and_none_starts_after(
    walkers: Walkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = RailTest("single", "ib_write_bw", "rail0", *NODES, walkers.port, 65536, 1, seconds=0)
    argv = [str(walkers.tools / "ib_write_bw"), "-d", "hang_server", "-p", str(walkers.port), "-s", "65536"]
    forked, seen, real = threading.Event(), threading.Event(), subprocess.Popen

    def start_slowly(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        process = real(*arguments, **named)
        forked.set()
        seen.wait(0.2)
        return process

    monkeypatch.setattr(perftest_process.Tool, "_ended_all", False)
    monkeypatch.setattr(perftest_process.subprocess, "Popen", start_slowly)
    starter = threading.Thread(target=perftest_process.Tool, args=(test, argv, "/usr/bin:/bin"))
    starter.start()
    assert forked.wait(5)
    perftest_process.Tool.kill_all()
    seen.set()
    starter.join(5)
    late = perftest_process.Tool(test, argv, "/usr/bin:/bin")
    late.finish(time.monotonic())
    assert late.error == "ib_write_bw was not started: the run ends"
    assert wait_until(lambda: not walkers.orphans(), 5.0, 0.05)


def test_stranger_on_the_port_is_sent_away(walkers: Walkers) -> None:
    walkers.start("gpu-01", ["good_a"])
    end = time.monotonic() + 5
    strangers = []
    while len(strangers) < 2 and time.monotonic() < end:
        try:
            strangers.append(socket.create_connection((ADDRESSES["gpu-01"], walkers.port), timeout=1))
        except OSError:
            time.sleep(0.02)
    # One knows the names that everybody knows, the other says nothing.
    strangers[0].sendall(b'"gpu-02 of job 7"\n')
    walkers.start("gpu-02", ["good_a"])
    answers = walkers.answers()
    assert [answer["error"] for answer in answers.values()] == ["", ""]
    assert len(strangers) == 2


def test_end_of_another_job_is_no_peer(walkers: Walkers) -> None:
    walkers.start("gpu-01", ["good_a"], job="7", timeout=2)
    walkers.start("gpu-02", ["good_a"], job="6", timeout=2)
    assert all("no connection with" in answer["error"] for answer in walkers.answers().values())


def test_port_where_the_ends_meet_that_is_taken_fails_both(walkers: Walkers) -> None:
    with socket.create_server((ADDRESSES["gpu-01"], walkers.port)):
        answers = both(walkers, "good_a", timeout=2)
    assert "Address already in use" in answers["gpu-01"]["error"]
    assert answers["gpu-02"]["error"]


def test_port_of_a_test_that_is_taken_is_said_and_gives_no_figure(walkers: Walkers) -> None:
    with socket.create_server(("127.0.0.1", walkers.port + 1)):
        answers = both(walkers, "good_a", "good_b")
    for answer in answers.values():
        on_port = [test for test in answer["tests"] if test["rail"] == "rail0" and test["phase"] != "control"]
        assert all("is taken by another program" in test["error"] for test in on_port)
        assert set(errors(answer, "rail1")) == {""}
