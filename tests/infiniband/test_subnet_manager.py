"""The role's configuration in real OpenSM, on a simulated fabric: two leaves, two spines, two managers, four hosts."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import ibsim
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.nic.opensm import (
    Answers,
    Port,
    ask,
    misread,
    not_ready,
    parse_dump,
    parse_pkeys,
    render,
)

from .conftest import MANAGERS, Site

HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
# Role infiniband names rails; a manager's host keeps the description of rdma-ndd.
ADAPTERS = {host: f"{host} {'mlx5_0' if host in MANAGERS else 'rail0'}" for host in (*MANAGERS, *HOSTS)}
PORT = Port("ibsim0", "1", "")
# How often managers are started until no question is lost.
TRIES = 8


class Running:
    """The fabric with the managers that were started on it."""

    def __init__(self, simulator: ibsim.Simulator, site: Site) -> None:
        self.simulator, self.site = simulator, site
        self.managers: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self, host: str) -> dict[str, str]:
        return {**self.simulator.environment, "SIM_HOST": ADAPTERS[host]}

    def run(self, host: str, *argv: str) -> str:
        environment = {**os.environ, **self.environment(host)}
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60).stdout

    def start(self, host: str) -> None:
        cache = self.site.directory / host / "cache"
        cache.mkdir(exist_ok=True)
        environment = {**os.environ, **self.environment(host), "OSM_CACHE_DIR": str(cache), "OSM_TMP_DIR": str(cache)}
        with (self.site.directory / host / "out").open("ab") as out:
            self.managers[host] = subprocess.Popen(
                ["opensm", "--config", str(self.site.configuration(host))], env=environment, stdout=out, stderr=out
            )

    def stop(self, host: str) -> None:
        process = self.managers.pop(host)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # it waits for an answer that was lost
            process.kill()
            process.wait()

    def leader(self) -> str:
        """The priority of the manager that a host of the fabric sees, empty where none answers."""
        found = re.search(r"priority (\d+) state 3 SMINFO_MASTER", self.run("gpu-1", "sminfo"))
        return found.group(1) if found else ""

    def ports(self) -> dict[str, tuple[str, str]]:
        """State and LID of each host's port."""
        answers = {host: self.run(host, "ibstat") for host in HOSTS}
        return {
            host: (re.findall(r"State: (\w+)", text)[0], re.findall(r"Base lid: (\d+)", text)[0])
            for host, text in answers.items()
        }


@pytest.fixture
def fabric(site: Site, tmp_path: Path) -> Iterator[Running]:
    net = ibsim.Net(200)
    for name in ADAPTERS.values():
        net.add("Hca", name)
    for name in ("leaf-1", "leaf-2", "spine-1", "spine-2"):
        net.add("Switch", name, 8)
    for index, name in enumerate(ADAPTERS.values()):
        net.link(name, 1, f"leaf-{index % 2 + 1}", index // 2 + 1)
    for leaf in (1, 2):
        for spine in (1, 2):
            net.link(f"leaf-{leaf}", 6 + spine, f"spine-{spine}", leaf)
    with ibsim.Simulator(tmp_path / "fabric") as simulator:
        running = Running(simulator.start(net, manager=False), site)
        yield running
        for host in list(running.managers):
            running.stop(host)


def eventually(holds: Callable[[], bool], seconds: float = 20) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def test_second_run_changes_nothing_and_check_mode_writes_nothing(site):
    first, second, check = site.said
    assert first.count("changed: [sm-1]") == 3 and "ok: [sm-1]" in second and "changed" not in second, second
    assert "-storage=0x0012" in check and "+qos TRUE" in check, check
    written = {path.name: path.read_text() for path in (site.directory / "sm-1").iterdir() if path.is_file()}
    assert written.keys() == {"opensm.conf", "partitions.conf", "muster-opensm.service", "logrotate", "qos-policy.conf"}
    assert "storage=0x0012" in written["partitions.conf"] and "qos FALSE" in written["opensm.conf"]


def test_opensm_takes_every_line_of_the_configuration(site, tmp_path):
    for host in MANAGERS:
        argv = ["opensm", "-F", str(site.configuration(host)), "-c", str(tmp_path / "dump")]
        said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout
        assert "Unrecognized" not in said and "-E-" not in said
        lines = [line for line in site.configuration(host).read_text().splitlines() if not line.startswith("#")]
        wanted = dict(line.split(" ", 1) for line in lines)
        assert misread(wanted, parse_dump((tmp_path / "dump").read_text())) == []
        assert wanted["sm_priority"] == {"sm-1": "14", "sm-2": "13"}[host]


def test_fabric_comes_up_with_the_partitions_in_every_port_and_the_first_one_in_its_first_place(fabric):
    fabric.start("sm-1")
    assert eventually(lambda: fabric.leader() == "14")
    assert eventually(lambda: {state for state, _ in fabric.ports().values()} == {"Active"})
    for host in HOSTS:
        pkeys = parse_pkeys(fabric.run(host, "smpquery", "-D", "pkeys", "0"))
        assert pkeys[0] == 0x8011 and sorted(pkeys) == [0x7FFF, 0x8011, 0x8012]
    # The manager's own port may talk to every host in the default partition; they may not to each other.
    assert sorted(parse_pkeys(fabric.run("sm-1", "smpquery", "-D", "pkeys", "0"))) == [0x8011, 0x8012, 0xFFFF]
    log = (fabric.site.directory / "sm-1/opensm.log").read_text()
    assert "PARSE" not in log and not re.search(r"prtn.*ERR", log)
    groups = fabric.run("gpu-1", "saquery", "-g")
    # IPoIB's broadcast group of the one partition that has it, with the MTU of the links (code 5, 4096 bytes).
    assert re.findall(r"Mtu\.+0x(\w+)\s+pkey\.+0x(\w+)", groups) == [("85", "8011")]


@pytest.fixture
def asked(fabric, monkeypatch) -> Callable[[str], Answers]:
    """What module opensm_info asks, on one host."""

    def answers(host: str) -> Answers:
        with monkeypatch.context() as patch:
            for name, value in fabric.environment(host).items():
                patch.setenv(name, value)
            return ask(LocalHost(), PORT)

    return answers


def join(fabric: Running, asked: Callable[[str], Answers], host: str, priority: int, partitions: list[int]) -> None:
    """Start a manager beside those that run, and wait until it is ready.

    The simulator's clients know no timeout: a manager whose question is lost, as happens on a busy machine, waits for
    ever, where the kernel gives the question back unanswered. That may be the one that was there and asks the new one,
    so all are started again then.
    """
    fabric.start(host)
    for _ in range(TRIES):
        if eventually(lambda: not_ready(asked(host), priority, partitions) == "", seconds=10):
            return
        said = not_ready(asked(host), priority, partitions)
        running = list(fabric.managers)
        for each in running:
            fabric.stop(each)
        for each in running:
            fabric.start(each)
    pytest.fail(f"{host} is not ready, {TRIES} times in a row: {said}")


def test_second_manager_stands_by_and_takes_over_without_changing_an_address(fabric, asked):
    join(fabric, asked, "sm-1", 14, [0x11, 0x12])
    join(fabric, asked, "sm-2", 13, [0x11, 0x12])
    assert not_ready(asked("sm-1"), 14, [0x11, 0x12]) == "" and fabric.leader() == "14"
    assert "priority 13, expected 14" in not_ready(asked("sm-2"), 14, [])
    assert "0x0013" in not_ready(asked("sm-2"), 13, [0x13])
    assert eventually(lambda: {state for state, _ in fabric.ports().values()} == {"Active"})
    before = fabric.ports()
    fabric.stop("sm-1")
    assert eventually(lambda: not_ready(asked("sm-2"), 13, [0x11, 0x12]) == ""), "the second manager did not take over"
    assert fabric.leader() == "13" and fabric.ports() == before


def test_manager_that_joins_with_a_higher_priority_counts_only_once_the_fabric_follows_it(fabric, asked):
    # The order of a first installation. An answer that is lost in the handover keeps the new manager waiting, as above.
    for _ in range(TRIES):
        join(fabric, asked, "sm-2", 13, [0x11])
        fabric.start("sm-1")
        if eventually(lambda: not_ready(asked("sm-1"), 14, [0x11]) == "", seconds=2):
            assert fabric.leader() == "14" and {state for state, _ in fabric.ports().values()} == {"Active"}
            assert eventually(lambda: not_ready(asked("sm-2"), 13, [0x11]) == "", seconds=5)
            return
        # It says that it leads, and nobody was told.
        assert fabric.leader() != "14"
        for host in MANAGERS:
            fabric.stop(host)
    pytest.fail("the manager of higher priority never took over")


def test_restart_of_the_only_manager_drops_no_link_and_no_address(fabric):
    fabric.start("sm-1")
    assert eventually(lambda: {state for state, _ in fabric.ports().values()} == {"Active"})
    before = fabric.ports()
    fabric.stop("sm-1")
    # The fabric forwards by its switches' tables, which stay.
    assert fabric.leader() == "" and fabric.ports() == before
    fabric.start("sm-1")
    assert eventually(lambda: fabric.leader() == "14")
    assert fabric.ports() == before


def test_manager_is_silent_where_none_runs(asked):
    assert "is silent, expected MASTER or STANDBY" in not_ready(asked("gpu-1"), 14, [])


def test_opensm_ignores_what_it_does_not_know_so_that_muster_may_not(tools, tmp_path):
    """The reason of ``prove``: OpenSM starts with a configuration that says something else."""
    (tmp_path / "wrong").write_text(render({"routing_engine": "ar_updn", "ar_mode": "1", "max_op_vls": "many"}))
    argv = ["opensm", "-F", str(tmp_path / "wrong"), "-c", str(tmp_path / "dump")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0
    loaded = parse_dump((tmp_path / "dump").read_text())
    assert "ar_mode" not in loaded.values and loaded.values["max_op_vls"] == "5"
