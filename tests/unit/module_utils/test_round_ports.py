"""Ports of a round: what the rules say, what cannot be closed stops the job, and what they do in real namespaces."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives import collective
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import pack_spec
from ansible_collections.muster.cluster.plugins.module_utils.commands.hook_command import RUN_DIRECTORY
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.module_utils.host.waiting import wait_until
from ansible_collections.muster.cluster.plugins.module_utils.in_service import round_ports
from ansible_collections.muster.cluster.plugins.module_utils.in_service.round_ports import after_job, before_job, rules
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import unpack

from tests.fake_host import FakeHost

ROOT = Path(__file__).resolve().parents[3]
CONF = "/run/slurm/conf/slurm.conf"
SLURM_CONF = """# Written by Muster
SlurmctldHost=ctl(10.0.0.1)
NodeName=gpu-[01-04] NodeAddr=10.0.0.[11-14] CPUs=2 State=UNKNOWN
NodeName=v6 NodeAddr=fd00::15
# Sockets of collectives: NodeName=gpu-[01-04] NodeAddr=172.16.0.[1-4]
"""
ROUND = {
    **{"SLURM_JOB_USER": "muster", "SLURM_JOB_UID": "990", "SLURM_JOB_ID": "7"},
    **{"SLURM_NODELIST": "gpu-[01-02]", "SLURM_CONF": CONF},
}
USERS = {**ROUND, "SLURM_JOB_USER": "alice", "SLURM_JOB_UID": "2001"}
# sl local remote st queues timers retransmits uid ...
SOCKETS = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0B00000A:1AA2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000   110        0 3 1 0 100 0 0 10 0
   3: 00000000:72D8 00000000:0000 0A 00000000:00000000 00:00000000 00000000   990        0 4 1 0 100 0 0 10 0
   4: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  2001        0 5 1 0 100 0 0 10 0
   5: 0B00000A:0016 0100000A:C001 01 00000000:00000000 00:00000000 00000000     0        0 6 1 0 100 0 0 10 0
"""
SOCKETS_6 = """  sl  local_address                         remote_address                        st tx rx tr uid
   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0     0        0 7 1
   1: 00000000000000000000000001000000:0051 00000000000000000000000000000000:0000 0A 0:0 00:0 0     0        0 8 1
   2: 0000000000000000FFFF00000100007F:0052 00000000000000000000000000000000:0000 0A 0:0 00:0 0     0        0 9 1
"""


def node(**changes: Output) -> FakeHost:
    outputs = {CONF: Output(SLURM_CONF), "/proc/net/tcp": Output(SOCKETS), "/proc/net/tcp6": Output(SOCKETS_6)}
    return FakeHost({**outputs, "nft": Output(), **changes})


def elements(text: str, name: str) -> list[str]:
    """Return what stands in a set."""
    lines = text[text.index(f"  set {name} {{") :].splitlines()
    return lines[2].strip()[len("elements = { ") : -2].split(", ") if "elements" in lines[2] else []


def test_members_and_services_come_from_slurm_and_the_host(tmp_path: Path) -> None:
    host = node()
    assert before_job(host, tmp_path, ROUND) == []
    assert host.commands == [f"nft -f {tmp_path}/round_ports.nft"]
    text = (tmp_path / "round_ports.nft").read_text()
    assert elements(text, "members") == ["10.0.0.11", "10.0.0.12", "172.16.0.1", "172.16.0.2"]
    # ssh, slurmd, and port 80; not what the user muster and people listen on.
    assert elements(text, "services") == ["22", "80", "6818"]
    assert elements(text, "local") == ["81", "82", "5432"]


def test_table_takes_the_place_of_an_earlier_one_at_once() -> None:
    lines = rules(["10.0.0.1", "fd00::1"], [22], []).splitlines()
    assert lines[:3] == ["table inet muster_round", "delete table inet muster_round", "table inet muster_round {"]
    assert elements("\n".join(lines), "members") == ["10.0.0.1"]
    assert elements("\n".join(lines), "members6") == ["fd00::1"]
    assert elements("\n".join(lines), "local") == []


def said(host: FakeHost, place: Path, **changes: str) -> str:
    (finding,) = before_job(host, place, {**ROUND, **changes})
    assert (finding.check, finding.verdict) == ("round_ports", "incomplete")
    assert not (place / "round_ports.nft").exists()
    return finding.reason


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"SLURM_NODELIST": ""}, "SLURM_NODELIST gives 0 nodes"),
        ({"SLURM_NODELIST": "gpu-[01-"}, "cannot read"),
        ({"SLURM_NODELIST": "gpu-[04-05]"}, "has no address of gpu-05"),
        ({"SLURM_CONF": ""}, "SLURM_CONF is ''"),
    ],
)
def test_round_without_all_its_members_does_not_start(tmp_path: Path, changes: dict[str, str], why: str) -> None:
    assert why in said(node(), tmp_path, **changes)


@pytest.mark.parametrize(
    ("what", "output", "why"),
    [
        (CONF, Output(rc=None, error="no such file"), "ports cannot be closed"),
        (CONF, Output("NodeName=gpu-[01-02] NodeAddr=10.0.0.1\n"), "2 nodes with 1 addresses"),
        (CONF, Output("NodeName=gpu-[01-02] CPUs=2\n"), "has no address of gpu-01, gpu-02"),
        (CONF, Output("NodeName=gpu-[01-02] NodeAddr=gpu-[01-02].example\n"), "gpu-[01-02].example"),
        (CONF, Output("NodeName=gpu-[01-02] NodeAddr=host-[01-02]\n"), "'host-01' does not appear to be an IPv4"),
        ("/proc/net/tcp", Output(rc=None, error="no answer"), "no answer"),
        ("/proc/net/tcp", Output(SOCKETS[:130]), "expected a socket"),
        ("nft", Output(rc=None, error="nft: No such file or directory"), "nft: No such file"),
        ("nft", Output(stderr="Error: Operation not permitted\n", rc=1), "Operation not permitted"),
    ],
)
def test_round_whose_ports_cannot_be_closed_does_not_start(tmp_path: Path, what: str, output: Output, why: str) -> None:
    assert why in said(node(**{what: output}), tmp_path)


def test_users_jobs_touch_nothing_where_no_round_was(tmp_path: Path) -> None:
    host = FakeHost()
    assert (
        before_job(host, tmp_path, USERS) == after_job(host, tmp_path, USERS) == after_job(host, tmp_path, ROUND) == []
    )
    assert host.commands == []


@pytest.mark.parametrize("opened_by", ["its epilog", "a later prolog"])
def test_ports_are_opened_after_the_round(tmp_path: Path, opened_by: str) -> None:
    host = node()
    before_job(host, tmp_path, ROUND)
    # What one of users' jobs that ends late does is no word about the round.
    assert after_job(host, tmp_path, USERS) == []
    assert len(host.commands) == 1
    if opened_by == "its epilog":
        assert after_job(host, tmp_path, ROUND) == []
    else:
        assert before_job(host, tmp_path, USERS) == []
    assert host.commands[1:] == ["nft table inet muster_round; delete table inet muster_round"]
    assert list(tmp_path.iterdir()) == []


def test_ports_that_stay_closed_are_said_until_they_are_open(tmp_path: Path) -> None:
    host = node()
    before_job(host, tmp_path, ROUND)
    host.outputs["nft"] = Output(rc=None, timed_out=True, error="nft: no answer within 5 s")
    for _ in range(2):
        (finding,) = before_job(host, tmp_path, USERS)
        assert "cannot open the ports" in finding.reason
    host.outputs["nft"] = Output()
    assert before_job(host, tmp_path, USERS) == []


def test_rules_that_may_have_taken_effect_are_not_forgotten(tmp_path: Path) -> None:
    host = node(nft=Output(rc=None, timed_out=True, error="nft: no answer within 5 s"))
    assert before_job(host, tmp_path, ROUND)
    host.outputs["nft"] = Output()
    assert before_job(host, tmp_path, USERS) == []
    assert len(host.commands) == 2


# Real namespaces: this node, another of the round, and a node that is not in it, each on a link of its own.
MEMBERS = {"gpu-01": "10.99.1.1", "gpu-02": "10.99.1.2"}
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=0.7).close()
except socket.timeout:
    sys.exit("dropped")
"""
LISTEN = """
import socket, sys, threading, time
servers = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
servers += [socket.create_server(("::", int(port)), family=socket.AF_INET6) for port in sys.argv[1:]]
print("listening", flush=True)
time.sleep(600)
"""
HOOK = f"""
import json, os, sys
from pathlib import Path
from {LocalHost.__module__} import LocalHost
from {round_ports.__name__} import after_job, before_job
hook = before_job if sys.argv[1] == "prolog" else after_job
print(json.dumps([item.reason for item in hook(LocalHost(sys.argv[3]), Path(sys.argv[2]), os.environ)]))
"""


class Namespace:
    """A network of its own, as long as a process holds it."""

    def __init__(self) -> None:
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "600"])
        mine, its = Path("/proc/self/ns/net"), Path(f"/proc/{self.holder.pid}/ns/net")
        assert wait_until(lambda: its.readlink() != mine.readlink(), 10.0, 0.01)
        self.started: list[subprocess.Popen[str]] = []
        self.run("ip", "link", "set", "lo", "up")

    def inside(self, *argv: str) -> list[str]:
        return ["nsenter", "-t", str(self.holder.pid), "-n", *argv]

    def run(self, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
        more = {**os.environ, **environment}
        return subprocess.run(self.inside(*argv), capture_output=True, text=True, check=False, timeout=60, env=more)

    def link(self, other: Namespace, network: int) -> None:
        """Connect with another one: this is .1, that .2."""
        for argv in (
            [
                "ip",
                "link",
                "add",
                f"to{network}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                str(other.holder.pid),
            ],
            ["ip", "address", "add", f"10.99.{network}.1/24", "dev", f"to{network}"],
            ["ip", "address", "add", f"fd99:{network}::1/64", "dev", f"to{network}", "nodad"],
            ["ip", "link", "set", f"to{network}", "up"],
        ):
            self._must(self.run(*argv))
        for argv in (
            ["ip", "address", "add", f"10.99.{network}.2/24", "dev", "eth0"],
            ["ip", "address", "add", f"fd99:{network}::2/64", "dev", "eth0", "nodad"],
            ["ip", "link", "set", "eth0", "up"],
            ["ip", "route", "add", "default", "via", f"10.99.{network}.1"],
        ):
            self._must(other.run(*argv))

    @staticmethod
    def _must(done: subprocess.CompletedProcess[str]) -> None:
        if done.returncode:
            pytest.skip(f"no such networks on this machine: {done.args}: {done.stderr}")

    def listen(self, *ports: int, uid: int = 0) -> None:
        argv = ["setpriv", f"--reuid={uid}", "--clear-groups", sys.executable, "-c", LISTEN, *map(str, ports)]
        process = subprocess.Popen(self.inside(*argv), stdout=subprocess.PIPE, text=True)
        self.started.append(process)
        assert process.stdout and process.stdout.readline() == "listening\n"

    def reaches(self, address: str, port: int, uid: int = 0) -> bool:
        """Say whether somebody here can connect; whoever is refused for another reason fails the test."""
        argv = ["setpriv", f"--reuid={uid}", "--clear-groups", sys.executable, "-c", CONNECT, address, str(port)]
        done = self.run(*argv)
        assert done.returncode == 0 or done.stderr == "dropped\n", done.stderr
        return done.returncode == 0

    def close(self) -> None:
        for process in (*self.started, self.holder):
            process.kill()
            process.communicate()


class Site:
    """The three, and the hooks of the first."""

    def __init__(self, place: Path, tools: str) -> None:
        self.place, self.tools = place, tools
        self.node, self.member, self.stranger = self.all = [Namespace() for _ in range(3)]
        self.node.link(self.member, 1)
        self.node.link(self.stranger, 2)
        lines = [f"NodeName={name} NodeAddr={address}" for name, address in MEMBERS.items()]
        (place / "slurm.conf").write_text("\n".join([*lines, "NodeName=gpu-03 NodeAddr=10.99.2.2\n"]))

    def hook(
        self, name: str, user: str = "muster", nodes: str = "gpu-[01-02]", on: Namespace | None = None
    ) -> list[str]:
        """Run a hook on the node, or another one; return what it found."""
        where = on or self.node
        job = {"SLURM_JOB_USER": user, "SLURM_NODELIST": nodes, "SLURM_CONF": str(self.place / "slurm.conf")}
        path = os.pathsep.join(sys.path)
        argv = [sys.executable, "-c", HOOK, name, f"{self.place}/run-{where.holder.pid}", self.tools]
        done = where.run(*argv, PYTHONPATH=path, **{**ROUND, **job})
        assert done.returncode == 0, done.stderr
        reasons: list[str] = json.loads(done.stdout)
        return reasons

    def tables(self) -> str:
        return self.node.run("nft", "list", "tables", PATH=self.tools).stdout.strip()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with nft: this machine's, or Debian's unpacked."""
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    if shutil.which("nft", path=path):
        return path
    place = ROOT / "build" / "nftables"
    if not (place / "usr/sbin/nft").exists():
        debs = place / "debs"
        debs.mkdir(parents=True, exist_ok=True)
        packages = ["nftables", "libnftables1", "libnftnl11", "libmnl0", "libxtables12", "libjansson4", "libedit2"]
        fetch = ["apt-get", "download", *packages, "libbsd0", "libmd0"]
        if not shutil.which("apt-get") or subprocess.run(fetch, cwd=debs, check=False, timeout=300).returncode:
            pytest.skip("there is no nft here, and apt-get does not fetch it")
        for deb in debs.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", deb, place], check=True)
    tool = tmp_path_factory.mktemp("tools") / "nft"
    libraries = os.pathsep.join(str(each.parent) for each in place.glob("usr/lib/*/libnftables.so.1"))
    tool.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {place}/usr/sbin/nft "$@"\n')
    tool.chmod(0o755)
    return f"{tool.parent}:{path}"


@pytest.fixture
def site(tmp_path: Path, tools: str) -> Iterator[Site]:
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], check=False).returncode != 0:
        pytest.skip("only root makes namespaces here")
    if subprocess.run(["unshare", "-n", "nft", "list", "tables"], env={"PATH": tools}, check=False).returncode != 0:
        pytest.skip("the kernel has no nftables")
    found = Site(tmp_path, tools)
    yield found
    for each in found.all:
        each.close()


STORE, SSH = 29400, 22
PERSON, MUSTER = 65534, 990


def test_members_reach_a_rounds_ports_and_nobody_else_does(site: Site) -> None:
    site.node.listen(SSH)
    assert site.hook("prolog") == []
    site.node.listen(STORE, uid=MUSTER)
    site.member.listen(STORE, uid=MUSTER)
    own = MEMBERS["gpu-01"]
    assert site.member.reaches(own, STORE)
    # By either of the node's addresses, and by IPv6, which the fleet does not use.
    for address in (own, "10.99.2.1", "fd99:2::1"):
        assert not site.stranger.reaches(address, STORE)
        assert site.stranger.reaches(address, SSH)
    # On the node itself the ranks, but none of the people whom ssh let in.
    for address in (own, "127.0.0.1", MEMBERS["gpu-02"]):
        assert site.node.reaches(address, STORE, uid=MUSTER)
        assert not site.node.reaches(address, STORE, uid=PERSON)
    assert site.node.reaches("127.0.0.1", SSH, uid=PERSON)


def test_epilog_opens_all_again(site: Site) -> None:
    site.node.listen(STORE, uid=MUSTER)
    assert site.stranger.reaches("10.99.2.1", STORE)
    assert site.hook("prolog") == []
    assert site.tables() == "table inet muster_round"
    assert not site.stranger.reaches("10.99.2.1", STORE)
    assert site.hook("epilog") == []
    assert site.tables() == ""
    assert site.stranger.reaches("10.99.2.1", STORE)


def test_round_after_round_and_a_killed_one_leave_one_table_and_then_none(site: Site) -> None:
    for _ in range(2):
        assert site.hook("prolog") == []
        assert site.tables() == "table inet muster_round"
    assert site.hook("epilog", user="alice") == []
    assert site.tables() == "table inet muster_round"
    assert site.hook("prolog", user="alice") == []
    assert site.tables() == ""
    # And once more, where nothing is left to do.
    assert site.hook("prolog", user="alice") == site.hook("epilog") == []


def test_slurmd_removes_a_table_that_outlived_a_boot_and_none_of_a_round_that_runs(site: Site) -> None:
    unit = (ROOT / "roles" / "slurm" / "templates" / "slurmd.conf.j2").read_text()
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStartPre=-")]
    assert f"{RUN_DIRECTORY}/{round_ports.RULES}" in line
    run = site.place / f"run-{site.node.holder.pid}"
    argv = shlex.split(line.removeprefix("ExecStartPre=-").replace(RUN_DIRECTORY, str(run)))
    site.hook("prolog")
    site.node.run(*argv, PATH=site.tools)
    assert site.tables() == "table inet muster_round"
    (run / round_ports.RULES).unlink()
    site.node.run(*argv, PATH=site.tools)
    assert site.tables() == ""


def test_tables_of_the_site_stay_as_they_are(site: Site) -> None:
    rule = "table inet site { chain input { type filter hook input priority 0; tcp dport 6818 drop; }; }"
    assert site.node.run("nft", rule, PATH=site.tools).returncode == 0
    before = site.node.run("nft", "list", "ruleset", PATH=site.tools).stdout
    site.hook("prolog")
    site.hook("epilog")
    assert site.node.run("nft", "list", "ruleset", PATH=site.tools).stdout == before


def test_thousands_of_members_are_set_in_a_moment(site: Site) -> None:
    lines = [f"NodeName=n{block:02}-[001-250] NodeAddr=10.{block}.0.[1-250]" for block in range(50)]
    (site.place / "slurm.conf").write_text("\n".join(lines))
    begin = time.monotonic()
    assert site.hook("prolog", nodes=",".join(f"n{block:02}-[001-250]" for block in range(50))) == []
    # Of the 20 s of the whole prolog.
    assert time.monotonic() - begin < 5
    assert "10.49.0.250" in site.node.run("nft", "list", "table", "inet", "muster_round", PATH=site.tools).stdout


RANK = f"import sys, {collective.__name__} as collective; sys.exit(collective.main())"
STRANGER = ROOT / "molecule" / "acceptance" / "stranger"


@pytest.mark.pytorch
def test_collective_between_members_is_as_without_the_stranger_who_floods_it(site: Site, torch: Path) -> None:
    """The ranks of two nodes, as Slurm would start them, and what a user of a third one does meanwhile."""
    assert site.hook("prolog") == site.hook("prolog", on=site.member) == []
    walk = {"name": "walk", "kind": "pairs", "collective": "sendrecv", "sizes": [65536], "shifts": [0]}
    program = {"moves": [{**walk, "iterations": 1500, "warmup": 1, "seconds": 60}]}
    spec = pack_spec({"nodes": list(MEMBERS.items()), "program": program})
    words = [
        "--backend=gloo",
        f"--port={STORE}",
        "--timeout=60",
        "--deadline=100",
        *(f"--spec={part}" for part in spec),
    ]
    job = {"SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": "gpu-[01-02]", "MUSTER_ROUND_SECRET": "a"}
    attack = STRANGER.read_text().replace("/tmp/stranger.json", f"{site.place}/stranger.json")
    stranger = subprocess.Popen(site.stranger.inside(sys.executable, "-c", attack, "10.99.2.1", MEMBERS["gpu-01"]))
    ranks = []
    for number, (name, where, interface) in enumerate((("gpu-01", site.node, "to1"), ("gpu-02", site.member, "eth0"))):
        place = {"SLURM_PROCID": str(number), "SLURMD_NODENAME": name, "GLOO_SOCKET_IFNAME": interface}
        path = {"PYTHONPATH": f"{ROOT / 'collections'}:{torch}", "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
        argv = where.inside(sys.executable, "-c", RANK, *words)
        ranks.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**job, **place, **path}))
    told = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    for output in told:
        ((answer,), faults) = unpack(output)
        assert (answer["error"], faults, answer["results"]["walk"]["wrong"]) == ("", [], [0])
    seen = json.loads((site.place / "stranger.json").read_text())
    assert seen["dropped"] == seen["tries"] > 100 and seen["connected"] == []
