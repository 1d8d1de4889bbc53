"""What two hosts with RoCE must do after the roles: carry RDMA on every rail, come back from a reboot, show faults.

Tests after the reboot find the devices of the second host under other names.

Their GPUs are a stand-in for CUDA's library (molecule/lab/libcuda.c), whose memory is the hosts' own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import judge_stage
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import perftest
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import unpack
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import read_expectations
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
SCENARIO = PROJECT / "molecule" / "fabric_vm"
INVENTORY = f"--inventory={SCENARIO / 'inventory'}"
MACHINES = ("vm-01", "vm-02")
# PCI address, network and route table.
RAILS = {"rail0": ("0000:00:08.0", "172.16.0", 100), "rail1": ("0000:00:09.0", "172.17.0", 101)}
# RDMA device and network interface, as the lab first calls them, and as rdma-core and systemd do by their bus.
FIRST_NAMES = {"rail0": ("rxe0", "eth1"), "rail1": ("rxe1", "eth2")}
BUS_NAMES = {"rail0": ("rocep0s8", "enp0s8"), "rail1": ("rocep0s9", "enp0s9")}
MTU = 9000
# That so much was written shows all the same.
UNCLOCKED = re.compile(r"\] is 0 after [1-9]\d* iterations, expected more than 0")
EACH_RAIL = pytest.mark.parametrize("rail", RAILS)
EACH_HOST = pytest.mark.parametrize("machine", MACHINES)


def ssh(machine: str, command: str) -> list[str]:
    """Return the argv that runs a shell command on a machine."""
    return ["ssh", "-F", str(PROJECT / "build/vm/fabric_vm/ssh_config"), machine, command]


def ask(machine: str, command: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command on a machine."""
    return subprocess.run(ssh(machine, command), capture_output=True, text=True, check=False, timeout=180)


def on(machine: str, command: str) -> str:
    """Return what a shell command prints on a machine."""
    done = ask(machine, command)
    assert done.returncode == 0, f"{machine}: {command}: {done.stdout}{done.stderr}"
    return done.stdout


def ansible(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of Ansible's programs on the scenario's inventory."""
    argv = [str(Path(sys.executable).parent / program), INVENTORY, *arguments]
    environment = {**os.environ, "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200"}
    return subprocess.run(argv, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)


def play(playbook: str, *arguments: str) -> tuple[int, int, str]:
    """Run a playbook of the scenario; return how many tasks changed and failed, and what was printed."""
    done = ansible("ansible-playbook", *arguments, str(SCENARIO / playbook))
    text = done.stdout + done.stderr
    recap = re.findall(r"changed=(\d+) .*failed=(\d+)", text)
    assert recap, text
    return sum(int(changed) for changed, _ in recap), sum(int(failed) for _, failed in recap), text


def names_of(machine: str) -> dict[str, tuple[str, str]]:
    """Return what a machine calls each rail's RDMA device and network interface now."""
    found = {}
    for rail, (address, _, _) in RAILS.items():
        interface = on(machine, f"ls /sys/bus/pci/devices/{address}/virtio*/net").strip()
        (parent,) = on(machine, f"grep -lx {interface} /sys/class/infiniband/*/parent").split()
        found[rail] = (parent.split("/")[4], interface)
    return found


def roce_check(machine: str, rail: str) -> subprocess.CompletedProcess[str]:
    """Hold one port against its settings, as an operator does."""
    return ask(machine, f"/usr/libexec/muster/muster roce check --settings /etc/muster/roce/{rail}.json")


@pytest.fixture(scope="module")
def expect() -> str:
    """Return the expectations of the machines' class as the node program reads them."""
    done = ansible("ansible", "vm-01", "-m", "ansible.builtin.debug", "-a", "msg={{ muster_expect | to_json }}", "-o")
    text: str = json.loads(done.stdout.partition("=>")[2])["msg"]
    return text


def preflight(machine: str, expect: str) -> dict[str, dict[str, Any]]:
    """Return what preflight finds of the RoCE ports, by check and rail."""
    command = f"/usr/libexec/muster/muster examine --stage preflight --no-store --node {machine} <<'E'\n{expect}\nE"
    findings = json.loads(on(machine, command))["findings"]
    return {
        f"{each['check']} {rail}": each
        for each in findings
        if each["check"] in ("roce_settings", "roce_gid")
        for rail in RAILS
        if each["subject"] == f"nic {rail}"
    }


def gid_index(machine: str, device: str, address: str) -> int:
    """Return the index of the RoCE v2 GID of an address."""
    wanted = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*map(int, address.split(".")))
    port = f"/sys/class/infiniband/{device}/ports/1"
    (found,) = on(machine, f"cd {port}/gids && grep -lx {wanted} *").split()
    assert on(machine, f"cat {port}/gid_attrs/types/{found}").strip() == "RoCE v2"
    return int(found)


def write_over(rail: str, *arguments: str) -> str:
    """Write from the first machine to the second over one rail; return the report, which must be of all of it."""
    given = " ".join(["-F", "-s", "65536", "-n", "50", *arguments])
    client, server = (f"timeout 60 ib_write_bw -d {names_of(machine)[rail][0]} {given}" for machine in MACHINES)
    unit = f"server-{rail}"
    on(MACHINES[1], f"systemctl stop {unit} 2>/dev/null; systemd-run --quiet --collect --unit={unit} {server}")
    for _ in range(20):
        done = ask(MACHINES[0], f"{client} {RAILS[rail][1]}.2")
        # The other side may not listen yet.
        if done.returncode == 0 or "connect" not in done.stdout.lower() + done.stderr.lower():
            break
        time.sleep(1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^\s*65536\s+50\s", done.stdout, re.MULTILINE)) == 1, done.stdout
    return done.stdout


@pytest.mark.main_road
@EACH_RAIL
def test_rail_carries_rdma_over_connection_manager(rail: str) -> None:
    write_over(rail, "-R")


@pytest.mark.main_road
def test_rail_carries_what_is_in_the_memory_of_gpus() -> None:
    report = write_over("rail0", "-R", "--use_cuda=1")
    assert "device name = [host memory for GPU 1]" in report
    assert "deallocating GPU buffer" in report


@pytest.mark.main_road
def test_preflight_fails_a_perftest_that_cannot_reach_the_memory_of_gpus(expect: str) -> None:
    """The installed one can; the distribution's has no CUDA; without the driver's library the installed one is dead."""
    declared = read_expectations({**json.loads(expect), "gpu": expectations_of("dgx_h100", {}, "test")["gpu"]})

    def judged(path: str) -> tuple[str, str]:
        # As an examination runs it on the machine, which would take the emulated processor ten seconds.
        done = ask("vm-01", f"PATH={path} LC_ALL=C {shlex.join(perftest.ARGV)}")
        outputs = {perftest.NAME: Output(done.stdout, done.stderr, done.returncode)}
        (one,) = (each for each in judge_stage("preflight", outputs, declared).findings if each.check == "perftest")
        return one.verdict, one.reason

    installed, distribution = "/usr/local/bin:/usr/bin:/bin", "/usr/bin:/bin"
    assert judged(installed) == ("pass", "")
    verdict, reason = judged(distribution)
    assert verdict == "fail"
    assert "was built without CUDA" in reason
    on("vm-01", "mv /usr/lib/libcuda.so.1 /root/")
    try:
        verdict, reason = judged(installed)
    finally:
        on("vm-01", "mv /root/libcuda.so.1 /usr/lib/")
    assert verdict == "incomplete"
    assert "libcuda.so.1" in reason


def test_reboot_brings_everything_back_whatever_the_names_are() -> None:
    lab = [sys.executable, str(PROJECT / "molecule/lab/vm.py"), str(SCENARIO / "vars/machines.yml")]
    on("vm-02", "touch /etc/lab-persistent-names")
    subprocess.run([*lab, "reboot"], check=True)
    assert [names_of(machine) for machine in MACHINES] == [FIRST_NAMES, BUS_NAMES]
    for number, machine in enumerate(MACHINES, 1):
        names, rules = names_of(machine), on(machine, "ip rule")
        for unit in (*(f"muster-roce@{rail}.service" for rail in RAILS), "muster-nccl.service"):
            assert on(machine, f"systemctl show --property=Result --value {unit}").strip() == "success"
            assert f"Finished {unit}" in on(machine, f"journalctl --boot --unit={unit}"), unit
        devices = ",".join(device for device, _ in names.values())
        assert f"NCCL_IB_HCA=={devices}\n" in on(machine, "cat /etc/nccl.conf")
        for rail, (_, network, table) in RAILS.items():
            device, interface = names[rail]
            address = f"{network}.{number}"
            assert f"{address}/24" in on(machine, f"ip -o -4 address show dev {interface}")
            assert on(machine, f"cat /sys/class/net/{interface}/mtu").strip() == str(MTU)
            gid_index(machine, device, address)
            assert f"{table}:\tfrom {address} lookup {table}" in rules
            routes = on(machine, f"ip route show table {table}")
            assert f"default via {network}.254 dev {interface}" in routes
            assert f"{network}.0/24 dev {interface}" in routes
            asked = roce_check(machine, rail)
            assert asked.returncode == 0, asked.stderr


@EACH_RAIL
def test_rail_carries_rdma_after_the_reboot(rail: str) -> None:
    write_over(rail, "-R")


def test_nothing_is_left_to_change_after_the_reboot() -> None:
    changed, failed, text = play("rails.yml")
    assert (changed, failed) == (0, 0), text


def rails_of(gpus: Sequence[int | None]) -> list[dict[str, Any]]:
    """Return the rails as nodes are asked to test them, each with the number of the GPU beside it."""
    return [
        {"rail": number, "address": address, "gpu": gpu}
        for number, ((address, _, _), gpu) in enumerate(zip(RAILS.values(), gpus, strict=True))
    ]


def walk(gpus: bool = False, **changed: Any) -> list[dict[str, Any]]:
    """Run ``muster fabric`` on both machines, and return the tests of their answers.

    Slurm is not here to start both ends: they are given what srun would tell them.
    """
    nodes = {
        name: {"address": f"172.16.0.{n}", "rails": {rail: f"{net}.{n}" for rail, (_, net, _) in RAILS.items()}}
        for n, name in enumerate(MACHINES, 1)
    }
    test = {
        "rails": rails_of([0, 1] if gpus else [None, None]),
        # perftest leaves out two seconds at either end of a load.
        **{"bandwidth_bytes": 65536, "latency_bytes": 2, "queue_pairs": 2, "seconds": 6},
        **{"data_class": 0, "control_class": None, "roce": True, "dmabuf": False, "counters": []},
        **{"path": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "root": "/"},
        **changed,
    }
    spec = shlex.quote(json.dumps({"nodes": nodes, **test}))
    ends = []
    for rank, machine in enumerate(MACHINES):
        place = f"MUSTER_ROUND_SECRET=lab SLURM_PROCID={rank} SLURM_LOCALID=0 SLURM_NTASKS=2"
        place += " SLURM_STEP_NODELIST=vm-[01-02]"
        command = f"{place} /usr/libexec/muster/muster fabric --spec={spec} --port=21000"
        ends.append(subprocess.Popen(ssh(machine, command), stdout=subprocess.PIPE, text=True))
    printed = "".join(end.communicate(timeout=300)[0] for end in ends)
    answers, faults = unpack(printed)
    assert faults == []
    assert {answer["node"]: answer["error"] for answer in answers} == dict.fromkeys(MACHINES, "")
    return [each for answer in answers for each in answer["tests"]]


@pytest.mark.parametrize("gpus", [False, True])
def test_fabric_walk_of_the_product_measures_every_rail(gpus: bool) -> None:
    # Emulated processors on a busy machine acknowledge too late at times, and perftest gives up: again then.
    for _ in range(3):
        tests = walk(gpus)
        # perftest reports 0 where it finds no steady clock, as on an emulated processor; it is refused, as it must be.
        wrong = [each for each in tests if each["error"] and not UNCLOCKED.search(each["error"])]
        if not wrong:
            break
    assert wrong == []
    assert all(each["value"] > 0 for each in tests if not each["error"])
    measured = {(each["phase"], each["tool"], each["rail"], each["client"]) for each in tests}
    assert measured == {
        *(("single", "ib_write_lat", rail, "vm-02") for rail in RAILS),
        *((phase, "ib_write_bw", *end) for phase in ("single", "together") for end in product(RAILS, MACHINES)),
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        # Soft-RoCE knows none.
        ({"dmabuf": True}, "OFED stack does not support DMA-BUF"),
        ({"rails": rails_of([9, 9])}, r"No such device ID \(9\) exists"),
    ],
)
def test_memory_that_the_rail_cannot_reach_gives_no_bandwidth(changed: dict[str, Any], said: str) -> None:
    tests = [each for each in walk(gpus=True, **changed) if each["tool"] == "ib_write_bw"]
    assert len(tests) == 4 * len(RAILS)
    assert all(each["value"] is None and re.search(said, each["error"]) for each in tests), tests


@pytest.mark.main_road
@EACH_HOST
def test_preflight_passes_every_port(machine: str, expect: str) -> None:
    found = preflight(machine, expect)
    assert {key: each["verdict"] for key, each in found.items()} == {
        f"{check} {rail}": "pass" for check in ("roce_settings", "roce_gid") for rail in RAILS
    }


@pytest.mark.main_road
def test_wrong_mtu_is_named_by_rail_and_put_right(expect: str) -> None:
    device, interface = names_of("vm-02")["rail0"]
    on("vm-02", f"ip link set {interface} mtu 1500")

    asked = roce_check("vm-02", "rail0")
    assert asked.returncode == 1
    assert f"rail 0 ({device}, {interface}): mtu_bytes is 1500, expected 9000" in asked.stderr
    assert roce_check("vm-02", "rail1").returncode == 0

    found = preflight("vm-02", expect)
    assert found["roce_settings rail0"]["verdict"] == "fail"
    assert "mtu_bytes is 1500, expected 9000" in found["roce_settings rail0"]["reason"]
    assert found["roce_settings rail1"]["verdict"] == "pass"

    changed, failed, text = play("rails.yml", "--check", "--diff", "--limit=vm-02")
    assert (changed, failed) == (1, 0), text
    assert "1500" in text
    assert on("vm-02", f"cat /sys/class/net/{interface}/mtu").strip() == "1500"

    changed, failed, text = play("rails.yml", "--limit=vm-02")
    assert (changed, failed) == (1, 0), text
    assert on("vm-02", f"cat /sys/class/net/{interface}/mtu").strip() == str(MTU)
    assert roce_check("vm-02", "rail0").returncode == 0


@pytest.mark.main_road
def test_missing_gid_is_named_by_rail_and_fails_the_role(expect: str) -> None:
    device, interface = names_of("vm-02")["rail1"]
    on("vm-02", f"ip address delete 172.17.0.2/24 dev {interface}")
    try:
        asked = roce_check("vm-02", "rail1")
        assert asked.returncode == 1
        assert f"rail 1 ({device}, {interface}): no RoCE v2 GID of 172.17.0.2" in asked.stderr
        assert roce_check("vm-02", "rail0").returncode == 0

        found = preflight("vm-02", expect)
        assert found["roce_gid rail1"]["verdict"] == "fail"
        assert f"rail 1 ({device}" in found["roce_gid rail1"]["reason"]
        assert found["roce_gid rail0"]["verdict"] == "pass"

        changed, failed, text = play("rails.yml", "--limit=vm-02", "--extra-vars=roce_wait_seconds=1")
        assert (changed, failed) == (0, 1), text
        assert f"rail 1 ({device}" in text
    finally:
        on("vm-02", f"networkctl reconfigure {interface}")
