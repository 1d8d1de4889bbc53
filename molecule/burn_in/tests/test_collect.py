"""A class is learned from two good hosts as an operator does it; no secret leaves them, a sick host is named by it."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Collected, read_archive
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
SCENARIO = PROJECT / "molecule/burn_in"
CANARIES = yaml.safe_load((SCENARIO / "vars/canaries.yml").read_text(encoding="utf-8"))
LAB = [sys.executable, str(PROJECT / "molecule/lab/lab.py"), f"--inventory={SCENARIO / 'inventory'}"]
MUSTER = Path(sys.executable).with_name("muster")
SSH = ("-F", str(PROJECT / "build/lab/ssh_config"), "-o", "BatchMode=yes")
# Where the lab's tools and files are, as the class lab_h100 says.
PLACES = "--tool-path /opt/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin --root /opt/lab/root"
GOOD, OTHER = "gpu-01", "gpu-02"
# Of the two good hosts.
DRIVERS = ("550.163.01", "535.309.01")
# Probes whose output has a secret.
READ = {
    *("cmdline", "boot_loader", "kernel_log", "fabric_manager_log", "ipmi_sel", "ipmi_lan", "nvidia_smi", "slurmd"),
    "disk_free",
}
# By name: what the lab shows, and each check that must fail with the part that it blames.
SICK = {
    "GPU missing": ({"gpus_missing": ["SXM6"]}, {"gpu_inventory": "gpu SXM6 0000:85:00.0"}),
    # The further card lies before all rails on the bus, and must not shift their numbers.
    "ECC errors, and a setting of one NIC beside a further card": (
        {
            "gpu_values": {"SXM5": {"ecc_errors/aggregate/sram_uncorrectable_secded": "7"}},
            "extra_nic": True,
            "nic_config": {"rail3": {"MAX_ACC_OUT_READ": "0"}},
        },
        {"gpu_ecc": "gpu SXM5 0000:8b:00.0", "nic_firmware_settings": "nic rail3"},
    ),
}


@dataclass(frozen=True)
class Archive:
    """An archive that was fetched, the list that the host printed of it, and its mode there."""

    file: Path
    listed: str
    mode: str


def run(*argv: str | Path, text: str = "", status: int = 0) -> str:
    """Return what a command prints; it must end with this status."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == status, f"{argv} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def show(host: str, **faults: Any) -> None:
    """Have the lab show a host with these faults and no others."""
    run(*LAB, "state", "--stdin", host, text=json.dumps(faults))


def on(host: str, command: str) -> str:
    """Return what a shell command prints on a host."""
    return run("ssh", *SSH, host, command)


def collect(host: str, program: Path, directory: Path) -> Archive:
    """Collect a host with scp, ssh and its own Python, and fetch the archive."""
    run("scp", *SSH, program, f"{host}:/tmp/muster.pyz")
    listed = on(host, f"cd /root && python3 /tmp/muster.pyz collect --node {host} {PLACES}")
    path = listed.splitlines()[-1].strip()
    mode = on(host, f"stat -c %a {shlex.quote(path)}").strip()
    directory.mkdir()
    run("scp", *SSH, f"{host}:{path}", directory)
    on(host, f"rm {shlex.quote(path)}")
    (file,) = directory.iterdir()
    return Archive(file, listed, mode)


def cabled(host: str) -> list[dict[str, Any]]:
    """Return the NICs of a host, each of which hears a switch over LLDP."""
    nics = json.loads(run(*LAB, "state", host))["nics"]
    ports = enumerate(nics, 1 if host == GOOD else 1 + len(nics))
    return [{**nic, "switch": "leaf-1", "port": f"Ethernet{port}"} for port, nic in ports]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The node program in one file, as an operator gets it."""
    file = tmp_path_factory.mktemp("program") / "muster.pyz"
    run(MUSTER, "program", file)
    return file


@pytest.fixture(scope="module")
def good(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Archive]]:
    """The archives of two good hosts, which differ in their driver."""
    directory = tmp_path_factory.mktemp("good")
    show(GOOD, nics=cabled(GOOD))
    show(OTHER, nics=cabled(OTHER), driver=DRIVERS[1])
    yield {host: collect(host, program, directory / host) for host in (GOOD, OTHER)}
    for host in (GOOD, OTHER):
        show(host)


@pytest.fixture(scope="module")
def drafted(good: dict[str, Archive], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The fleet file of 16 nodes that is drafted from the good hosts, and what `muster draft` said."""
    file = tmp_path_factory.mktemp("drafted") / "site.fleet.yml"
    nodes = ["--nodes", "gpu-[01-16]", "--address", "10.77.1.11", "--rail-addresses", "172.16.[0-7].1/24"]
    rest = ["--controller", "ctl=10.77.1.10", "--class", "ours", "--output", str(file)]
    # Both pass; that they differ in a value is left to a person.
    return file, run(MUSTER, "draft", *(archive.file for archive in good.values()), *nodes, *rest, status=2)


@pytest.fixture(scope="module")
def canaries() -> dict[str, str]:
    """A random text for each place."""
    return {place: secrets.token_hex(12) for kind in CANARIES.values() for place in kind}


@contextmanager
def planted(host: str, canaries: dict[str, str]) -> Iterator[None]:
    """Have a host keep a secret in each place, until the end of this."""

    def filled(kind: str) -> list[Any]:
        texts = {place: json.dumps(value) for place, value in CANARIES[kind].items()}
        return [json.loads(text.replace("CANARY", canaries[place])) for place, text in texts.items()]

    states, commands, files = filled("canary_states"), filled("canary_commands"), filled("canary_files")
    paths = [shlex.quote(path) for path in CANARIES["canary_files"]]
    written = [f"install -D /dev/stdin {path} <<<{shlex.quote(text)}" for path, text in zip(paths, files, strict=True)]
    show(host, **dict(item for state in states for item in state.items()))
    try:
        on(host, "\n".join([*(command["do"] for command in commands), *written]))
        yield
    finally:
        on(host, "\n".join([*(command["undo"] for command in commands), f"rm -f {' '.join(paths)}"]))
        show(host)


@pytest.fixture(scope="module")
def bait(program: Path, canaries: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The archive of a host with a secret in each of the twenty places."""
    with planted(OTHER, canaries):
        return collect(OTHER, program, tmp_path_factory.mktemp("bait") / OTHER)


def test_no_secret_is_in_the_archive(bait: Archive, canaries: dict[str, str]) -> None:
    assert len(canaries) == 20
    content = gzip.decompress(bait.file.read_bytes())
    assert [place for place, canary in canaries.items() if canary.encode() in content + bait.listed.encode()] == []
    assert bait.mode == "600"


def test_each_place_that_a_probe_reads_was_read_and_masked(bait: Archive) -> None:
    """That a secret is not in the archive proves nothing where nobody looked."""
    assert READ - {taken.probe for taken in read_archive(bait.file).taken if taken.masked} == set()


def test_the_list_names_every_tool_and_every_probe_with_what_was_masked(bait: Archive) -> None:
    """Many files of one probe are one line with their number."""
    taken = read_archive(bait.file).taken
    tools = {each.what for each in taken if " " in each.what}
    assert len(tools) > 30
    assert [tool for tool in tools if tool not in bait.listed] == []
    lines = bait.listed.splitlines()
    assert {each.probe for each in taken} <= {line.split()[0] for line in lines}
    assert {line.split()[0] for line in lines if line.endswith(" masked")} >= READ


def test_sixteen_nodes_are_drafted_from_two_good_hosts(drafted: tuple[Path, str]) -> None:
    file, said = drafted
    classes = [node.hardware_class for node in Fleet.load(file).nodes if node.role == "compute"]
    assert classes == ["ours"] * 16
    assert [line.rpartition(" ")[2] for line in said.splitlines() if line.startswith((GOOD, OTHER))] == ["pass"] * 2


def test_what_differs_is_named_and_not_declared(drafted: tuple[Path, str]) -> None:
    file, said = drafted
    text = file.read_text(encoding="utf-8")
    for each in (said, text):
        assert all(word in each for word in ("gpu.driver", *DRIVERS))
    assert "driver" not in yaml.safe_load(text)["hardware_classes"]["ours"].get("gpu", {})


def test_every_cable_that_was_heard_is_told(drafted: tuple[Path, str]) -> None:
    text = drafted[0].read_text(encoding="utf-8")
    assert [port for port in range(1, 17) if f"Ethernet{port}" not in text] == []


@pytest.mark.parametrize("fault", SICK)
def test_a_sick_host_of_the_same_kind_is_named(
    fault: str, drafted: tuple[Path, str], program: Path, tmp_path: Path
) -> None:
    faults, expected = SICK[fault]
    show(OTHER, **faults)
    archive = collect(OTHER, program, tmp_path / OTHER)
    answer = run(MUSTER, "judge", archive.file, "--class", "ours", "--fleet", drafted[0], "--json", status=1)
    failed = [finding for finding in json.loads(answer)["findings"] if finding["verdict"] == "fail"]
    assert expected.items() <= {(finding["check"], finding["subject"]) for finding in failed}
    assert {finding["subject"] for finding in failed} == set(expected.values())


def drafted_over_ssh(directory: Path, *login: str) -> Collected:
    """Return what a host that was collected over SSH showed; its tools are looked up where a host has them.

    In the lab that is not so, and no class comes of it.
    """
    directory.mkdir()
    rest = ["--nodes", "gpu-[01-16]", "--address", "10.77.1.11", "--controller", "ctl=10.77.1.10"]
    argv = [MUSTER, "draft", *login, f"--ssh-config={SSH[1]}", *rest, "--output=site.fleet.yml"]
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, "no GPU" in done.stderr) == (2, True), done.stderr
    (archive,) = directory.iterdir()
    assert archive.stat().st_mode & 0o777 == 0o600
    return read_archive(archive)


def test_a_host_over_ssh_shows_an_operator_with_sudo_what_it_shows_root(tmp_path: Path) -> None:
    as_root = drafted_over_ssh(tmp_path / "root", f"root@{GOOD}")
    by_sudo = drafted_over_ssh(tmp_path / "sudo", f"ops@{GOOD}", "--become")
    without = drafted_over_ssh(tmp_path / "user", f"ops@{GOOD}")
    assert as_root.host == by_sudo.host == without.host == GOOD
    answered = [{name: output.rc for name, output in each.outputs.items()} for each in (as_root, by_sudo, without)]
    assert answered[0] == answered[1] != answered[2]
