"""Faults in collectives on real processes: each ends in the right verdict, part and reason, and the right gate."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
SCENARIO = PROJECT / "molecule/acceptance"
LEDGER = PROJECT / "build/lab/acceptance.sqlite"
VERDICTS = PROJECT / "build/molecule/acceptance/verdicts.json"
SSH = ("ssh", "-F", str(PROJECT / "build/lab/ssh_config"), "-o", "BatchMode=yes", "-l", "root")
NODES = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
RUN_SECONDS = 600


def on(host: str, command: str) -> str:
    """Return what a shell command prints on a host; it must succeed."""
    done = subprocess.run([*SSH, host, command], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{host}: {command}\nended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def query(statement: str) -> list[Any]:
    """Return the rows of the ledger that a statement gives, or change it."""
    with sqlite3.connect(LEDGER) as connection:
        return connection.execute(statement).fetchall()


def address(node: str) -> str:
    """Return where a node is, for filters."""
    return f"10.77.4.{10 + int(node[-2:])}"


@contextmanager
def fault(node: str, word: str) -> Iterator[None]:
    """Have a node's ranks stop, die or see wrong data in their collectives."""
    on(node, f"echo {word} > /run/lab-fault")
    try:
        yield
    finally:
        on(node, "rm -f /run/lab-fault; pkill -KILL -u muster -f 'muster collective' || true")


@contextmanager
def lost(node: str) -> Iterator[None]:
    """Take a node's slurmd and slurmstepd away in the middle of a walk, as a host that dies does."""
    # Sockets to the rendezvous, to be told, and to a partner: it has met the others.
    met = "for pid in $(pgrep -u muster -f 'muster collective'); do ls -l /proc/$pid/fd; done | grep -c socket: || true"
    end = time.monotonic() + RUN_SECONDS
    while int(on(node, met)) < 3:
        assert time.monotonic() < end, on("ctl", "squeue -l; sinfo -N -l")
        time.sleep(0.2)
    # Stopped rather than killed: systemd starts it again after a failure.
    on(node, "systemctl stop slurmd; pkill -KILL -x slurmstepd")
    try:
        yield
    finally:
        on(node, "pkill -KILL -u muster -f 'muster collective' || true; systemctl restart slurmd")
        on("ctl", f"scontrol update nodename={node} state=resume || true")


@contextmanager
def flapping(node: str) -> Iterator[None]:
    """Take a node's carrier away for a moment every few seconds, at the other end of its link."""
    other = int(on(node, "cat /sys/class/net/eth0/iflink"))
    (link,) = (each.name for each in Path("/sys/class/net").iterdir() if int((each / "ifindex").read_text()) == other)
    over = threading.Event()

    def flap() -> None:
        while not over.wait(3):
            for state in ("down", "up"):
                subprocess.run(["ip", "link", "set", link, state], check=True)
                time.sleep(0.2)

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def slow(node: str, peer: str = "") -> Iterator[None]:
    """Slow down all that a node sends, or what it sends to one peer alone."""
    if peer:
        # Of what classifies packets, kernels that are built small have this at least.
        on(
            node,
            "tc qdisc replace dev eth0 root handle 1: htb default 10 && "
            "tc class add dev eth0 parent 1: classid 1:10 htb rate 10gbit && "
            "tc class add dev eth0 parent 1: classid 1:20 htb rate 160mbit burst 32k && "
            f"tc filter add dev eth0 parent 1: protocol ip u32 match ip dst {address(peer)}/32 flowid 1:20",
        )
    else:
        on(node, "tc qdisc replace dev eth0 root tbf rate 160mbit burst 256kbit latency 50ms")
    try:
        yield
    finally:
        on(node, "tc qdisc del dev eth0 root")


def start(inventory: Path = SCENARIO / "inventory") -> tuple[subprocess.Popen[bytes], Path]:
    """Start a run over nodes whose acceptance is due, all of them."""
    end = time.monotonic() + 120
    while set(on("ctl", "sinfo -h -N -p acceptance -o %T").split()) != {"idle"}:
        assert time.monotonic() < end, on("ctl", "sinfo -R -N -l")
        time.sleep(1)
    query("delete from evidence where stage = 'acceptance'")
    VERDICTS.unlink(missing_ok=True)
    log = PROJECT / f"build/molecule/acceptance/run-{time.monotonic_ns()}.log"
    return run_in(log, inventory), log


def run_in(log: Path, inventory: Path = SCENARIO / "inventory", *more: str) -> subprocess.Popen[bytes]:
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), f"--inventory={inventory}"]
    argv += [str(SCENARIO / "prove.yml"), "-e", "admit_allow_mass_close=true", *more]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    with log.open("wb") as file:
        return subprocess.Popen(
            argv, cwd=PROJECT, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.split()
    parents = dict(zip(map(int, listed[::2]), map(int, listed[1::2]), strict=True))
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def verdicts_of(process: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    """Return the verdict on each node once a run has ended."""
    assert process.wait(RUN_SECONDS) == 0, log.read_text()[-4000:]
    return {entry["node"]: entry for entry in json.loads(VERDICTS.read_text())}


def play(inventory: Path = SCENARIO / "inventory") -> dict[str, Any]:
    """Run once and return the verdict on each node."""
    return verdicts_of(*start(inventory))


def states(verdicts: dict[str, Any]) -> dict[str, str]:
    return {node: entry["state"] for node, entry in verdicts.items()}


def bad(verdicts: dict[str, Any], node: str) -> dict[str, str]:
    """Return by check why a node did not pass acceptance."""
    return {
        each["check"]: each["reason"]
        for each in verdicts[node]["findings"]
        if each["subject"] == "network" and each["verdict"] != "pass"
    }


def in_batch() -> set[str]:
    """Return the nodes on which users' jobs may run."""
    return set(on("ctl", "sinfo -h -N -p batch -o %N").split())


def all_but(*sick: str, state: str = "rejected") -> dict[str, str]:
    return {node: state if node in sick else "admitted" for node in NODES}


def show(verdicts: dict[str, Any]) -> str:
    return json.dumps({node: [entry["state"], bad(verdicts, node)] for node, entry in verdicts.items()}, indent=1)


def test_healthy_hosts_pass_in_two_steps() -> None:
    before = len(query("select number from round"))
    verdicts = play()
    assert states(verdicts) == all_but(), show(verdicts)
    # Walk, groups, and the mark of the campaign's end.
    assert len(query("select number from round")) - before == 3
    assert in_batch() == set(NODES)


@pytest.mark.main_road
def test_slow_host_is_rejected_for_its_network() -> None:
    with slow("gpu-03"):
        verdicts = play()
    assert states(verdicts) == all_but("gpu-03"), show(verdicts)
    assert "pair_bandwidth" in bad(verdicts, "gpu-03")
    assert in_batch() == set(NODES) - {"gpu-03"}


def test_slow_pair_holds_both_of_it_and_rejects_nobody() -> None:
    with slow("gpu-02", "gpu-03"), slow("gpu-03", "gpu-02"):
        verdicts = play()
    assert states(verdicts) == all_but("gpu-02", "gpu-03", state="held"), show(verdicts)
    assert "gpu-03" in str(bad(verdicts, "gpu-02"))
    assert "gpu-02" in str(bad(verdicts, "gpu-03"))
    assert in_batch() == {"gpu-01", "gpu-04"}


def test_host_that_hangs_in_the_collective_is_told_from_those_who_waited() -> None:
    with fault("gpu-02", "stop"):
        verdicts = play()
    assert {node: state for node, state in states(verdicts).items() if node != "gpu-02"} == {
        node: "admitted" for node in NODES if node != "gpu-02"
    }, show(verdicts)
    assert states(verdicts)["gpu-02"] == "rejected", show(verdicts)
    assert in_batch() == set(NODES) - {"gpu-02"}


def test_host_that_dies_in_the_collective_is_told_from_its_partner() -> None:
    with fault("gpu-04", "die"):
        verdicts = play()
    assert states(verdicts) == all_but("gpu-04"), show(verdicts)
    assert in_batch() == set(NODES) - {"gpu-04"}


def test_node_that_slurm_loses_in_the_walk_costs_itself_alone() -> None:
    process, log = start()
    with lost("gpu-03"):
        verdicts = verdicts_of(process, log)
    # Held where Slurm has not noticed yet that it is gone when it is to be asked again.
    assert states(verdicts)["gpu-03"] in ("testing", "held"), show(verdicts)
    assert states(verdicts) == {**all_but(), "gpu-03": states(verdicts)["gpu-03"]}, show(verdicts)
    assert "nodes are bad" not in log.read_text()
    assert in_batch() == set(NODES) - {"gpu-03"}


def test_link_that_flaps_rejects_its_host_though_every_exchange_is_fast_enough() -> None:
    with flapping("gpu-02"):
        verdicts = play()
    assert states(verdicts) == all_but("gpu-02"), show(verdicts)
    assert "eth0" in bad(verdicts, "gpu-02")["carrier"]
    assert in_batch() == set(NODES) - {"gpu-02"}


@pytest.mark.main_road
def test_wrong_data_is_that_of_who_received_it() -> None:
    with fault("gpu-01", "wrong"):
        verdicts = play()
    assert states(verdicts) == all_but("gpu-01"), show(verdicts)
    assert "data" in bad(verdicts, "gpu-01")
    assert in_batch() == set(NODES) - {"gpu-01"}


def test_two_slow_hosts_of_four_are_held() -> None:
    with slow("gpu-01"), slow("gpu-04"):
        verdicts = play()
    assert "rejected" not in states(verdicts).values(), show(verdicts)
    assert states(verdicts)["gpu-01"] == states(verdicts)["gpu-04"] == "held", show(verdicts)
    assert in_batch() & {"gpu-01", "gpu-04"} == set()


def test_mini_clusters_above_their_limit_admit_nobody() -> None:
    # Three directories below the project, as the scenario's own, by which it names the ledger.
    strict = PROJECT / "build/molecule/strict"
    shutil.copytree(SCENARIO / "inventory", strict, dirs_exist_ok=True)
    fleet = strict / "acceptance.fleet.yml"
    declared = fleet.read_text()
    assert "microseconds: 5000000" in declared
    fleet.write_text(declared.replace("microseconds: 5000000", "microseconds: 1"))
    verdicts = play(strict)
    assert states(verdicts) == dict.fromkeys(NODES, "held"), show(verdicts)
    for node in NODES:
        assert set(bad(verdicts, node)) == {"mini_cluster_latency"}, show(verdicts)
        assert "p99 above the limit" in bad(verdicts, node)["mini_cluster_latency"]
    assert in_batch() == set()


def test_run_that_is_killed_between_rounds_is_taken_up() -> None:
    before = len(query("select number from round"))
    process, log = start()
    end = time.monotonic() + RUN_SECONDS
    while not any(row[0] for row in query("select finished from round order by started")[before:]):
        assert time.monotonic() < end, log.read_text()[-4000:]
        time.sleep(0.2)
    # As a machine that loses its power: workers have sessions of their own, and would bring their round to its end.
    for pid in [process.pid, *descendants(process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    first = query("select campaign, number, started, finished from round order by started")[before]
    again = log.with_suffix(".again")
    verdicts = verdicts_of(run_in(again), again)
    assert states(verdicts) == all_but(), show(verdicts)
    rounds = query("select campaign, number, started, finished from round order by started")[before:]
    assert rounds[0] == first
    assert {campaign for campaign, *_ in rounds} == {first[0]}
    assert "goes on after 1 observations" in again.read_text()


PROVEN, ATTACKERS = NODES[:2], NODES[2:]


@pytest.fixture
def strangers() -> Iterator[None]:
    """An ordinary user's jobs on nodes in service, which do to the others what they can; one waits for those."""
    assert set(ATTACKERS) <= in_batch()
    on("ctl", f"cd /tmp && runuser -u alice -- sbatch -p acceptance -w {','.join(PROVEN)} --wrap=hostname -o /dev/null")
    job = f"--wrap='nice -n 19 /opt/muster/pytorch/bin/python3 /tmp/stranger {' '.join(map(address, PROVEN))}'"
    for node in ATTACKERS:
        on(node, f"rm -f /tmp/stranger.json; cat >/tmp/stranger <<'E'\n{(SCENARIO / 'stranger').read_text()}\nE")
        on("ctl", f"cd /tmp && runuser -u alice -- sbatch -p batch -w {node} --exclusive -o /dev/null {job}")
    end = time.monotonic() + 60
    while "" in [on(node, "cat /tmp/stranger.json || true") for node in ATTACKERS]:
        assert time.monotonic() < end, on("ctl", "squeue; sinfo -R -N -l")
        time.sleep(1)
    yield
    on("ctl", "scancel --user=alice")


@pytest.mark.usefixtures("strangers")
def test_user_who_connects_writes_keys_and_floods_changes_no_verdict() -> None:
    query(f"delete from evidence where stage = 'acceptance' and node in {PROVEN}")
    VERDICTS.unlink(missing_ok=True)
    log = PROJECT / f"build/molecule/acceptance/run-{time.monotonic_ns()}.log"
    verdicts = verdicts_of(run_in(log, SCENARIO / "inventory", "-e", f"target={','.join(PROVEN)}"), log)
    assert {node: states(verdicts)[node] for node in PROVEN} == dict.fromkeys(PROVEN, "admitted"), show(verdicts)
    assert "stranger" not in VERDICTS.read_text() + log.read_text()
    assert on("ctl", "squeue --user=alice --partition=acceptance --noheader") == ""
    for node in ATTACKERS:
        seen = json.loads(on(node, "cat /tmp/stranger.json"))
        assert seen["dropped"] and not seen["connected"], seen
    for node in PROVEN:
        assert "muster_round" not in on(node, "nft list tables; ls /run/muster")


@pytest.fixture(autouse=True, scope="module")
def _hosts_without_faults() -> Iterator[None]:
    yield
    for node in NODES:
        on(node, "rm -f /run/lab-fault; tc qdisc del dev eth0 root 2>/dev/null || true")
