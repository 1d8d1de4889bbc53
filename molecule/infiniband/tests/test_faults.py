"""Every fault of a fabric of 512 hosts x 8 rails is named with both ends, and nothing else is blamed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
sys.path.insert(0, str(PROJECT / "molecule" / "lab"))

import ibsim  # noqa: E402

FLEET = PROJECT / "molecule/infiniband/inventory/infiniband.fleet.yml"
FABRIC = ibsim.Simulator(PROJECT / "build/infiniband")
# What has no planned cable is told by what was found.
Told = tuple[str, tuple[str, ...]]


def report_of(directory: Path) -> tuple[int, dict[str, Any], str]:
    """Run the playbook as an operator would, and return its exit status, report and output."""
    directory.mkdir(parents=True, exist_ok=True)
    argv = [
        "ansible-playbook",
        "-i",
        str(FLEET.parent),
        "playbooks/cabling.yml",
        "-e",
        f"cabling_directory={directory}",
    ]
    path = f"{FABRIC.directory / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {**os.environ, "PATH": path, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(argv, cwd=PROJECT, env=own, capture_output=True, text=True, check=False, timeout=300)
    file = directory / "report.json"
    assert file.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(file.read_text(encoding="utf-8")), done.stdout


def told(report: dict[str, Any]) -> list[Told]:
    """Return kind and cables of each fault, of one without a cable what was found."""
    return sorted((each["kind"], tuple(sorted(each["cables"])) or (each["found"],)) for each in report["faults"])


def swap(net: ibsim.Net, first: tuple[str, int], second: tuple[str, int]) -> None:
    """Exchange the far ends of two cables."""
    ends = [net.unlink(*end) for end in (first, second)]
    net.link(*first, *ends[1])
    net.link(*second, *ends[0])


def changed_net() -> tuple[ibsim.Net, list[Told]]:
    """Return the fabric as sloppy hands would cable it, and what has to be said of it."""
    net = ibsim.net_of_fleet(str(FLEET))
    swap(net, ("gpu-0001 rail0", 1), ("gpu-0002 rail0", 1))
    swap(net, ("gpu-0040 rail2", 1), ("gpu-0040 rail3", 1))
    net.unlink("gpu-0070 rail1", 1)
    net.unlink("su03-leaf1", 35)
    net.weaken("gpu-0100 rail4", 1, lanes=1)
    net.weaken("su04-leaf2", 40, lanes=1)
    net.weaken("gpu-0130 rail5", 1, gbps=100)
    for rail in range(8):
        net.remove(f"gpu-0200 rail{rail}")
    net.unlink("gpu-0300 rail6", 1)
    net.link("gpu-0300 rail6", 1, "su10-leaf8", 65)
    net.add("Hca", "stray mlx5_0")
    net.link("stray mlx5_0", 1, "su05-leaf3", 66)
    swap(net, ("su07-leaf2", 33), ("su07-leaf2", 34))
    net.link("su11-leaf1", 65, "su12-leaf1", 65)
    net.add("Switch", "lost", 8, "MF0;lost:MQM8700/U1")
    net.link("lost", 1, "su13-leaf1", 67)
    net.remove("su16-leaf8")
    hosts = [f"gpu-{number:04d} rail 7 - su16-leaf8 port {number - 480}" for number in range(481, 513)]
    uplinks = [f"su16-leaf8 port {32 + spine} - spine{spine:02d} port 128" for spine in range(1, 33)]
    lost_host = [f"gpu-0200 rail {rail} - su07-leaf{rail + 1} port 8" for rail in range(8)]
    pair = ("gpu-0001 rail 0 - su01-leaf1 port 1", "gpu-0002 rail 0 - su01-leaf1 port 2")
    rails = ("gpu-0040 rail 2 - su02-leaf3 port 8", "gpu-0040 rail 3 - su02-leaf4 port 8")
    spines = ("su07-leaf2 port 33 - spine01 port 50", "su07-leaf2 port 34 - spine02 port 50")
    return net, [
        ("swapped pair", pair),
        ("crossed rails", rails),
        ("dead link", ("gpu-0070 rail 1 - su03-leaf2 port 6",)),
        ("dead link", ("su03-leaf1 port 35 - spine03 port 17",)),
        ("narrow link", ("gpu-0100 rail 4 - su04-leaf5 port 4",)),
        ("narrow link", ("su04-leaf2 port 40 - spine08 port 26",)),
        ("slow link", ("gpu-0130 rail 5 - su05-leaf6 port 2",)),
        ("missing host", tuple(lost_host)),
        ("wrong leaf", ("gpu-0300 rail 6 - su10-leaf7 port 12",)),
        ("extra host", ("stray mlx5_0 - su05-leaf3 port 66",)),
        ("swapped pair", spines),
        ("extra cable", ("su11-leaf1 port 65 - su12-leaf1 port 65",)),
        ("extra switch", ("lost port 1 - su13-leaf1 port 67",)),
        ("missing switch", tuple(sorted((*hosts, *uplinks)))),
    ]


@pytest.fixture(scope="module")
def fabric() -> Iterator[ibsim.Simulator]:
    """The sound fabric that the scenario started."""
    yield FABRIC
    FABRIC.stop()


def test_faults_that_appear_while_the_fabric_runs(fabric: ibsim.Simulator, tmp_path: Path) -> None:
    fabric.command(
        'Unlink "gpu-0017 rail7"[1]',
        'Unlink "su02-leaf2"[33]',
        'Unlink "gpu-0301 rail4"[1]',
        'Unlink "gpu-0302 rail4"[1]',
        'Link "gpu-0301 rail4"[1] "su10-leaf5"[14]',
        'Link "gpu-0302 rail4"[1] "su10-leaf5"[13]',
        'PerformanceSet "gpu-0400 rail2"[1] PortCounters.SymbolErrorCounter=65535',
        'PerformanceSet "su09-leaf4"[50] PortCounters.LinkErrorRecoveryCounter=11',
        # Up to the limit a link is sound, and congestion is not the cable's fault.
        'PerformanceSet "su09-leaf4"[51] PortCounters.LinkErrorRecoveryCounter=10',
        'PerformanceSet "su09-leaf4"[52] PortCounters.PortXmitDiscards=65535',
    )
    fabric.settle()
    status, report, output = report_of(tmp_path)
    assert (status, report["verdict"], report["unread"]) == (2, "fail", [])
    assert told(report) == sorted(
        [
            ("dead link", ("gpu-0017 rail 7 - su01-leaf8 port 17",)),
            ("dead link", ("su02-leaf2 port 33 - spine01 port 10",)),
            (
                "swapped pair",
                ("gpu-0301 rail 4 - su10-leaf5 port 13", "gpu-0302 rail 4 - su10-leaf5 port 14"),
            ),
            ("erroring link", ("gpu-0400 rail 2 - su13-leaf3 port 16",)),
            ("erroring link", ("su09-leaf4 port 50 - spine18 port 68",)),
        ]
    )
    assert "SymbolErrorCounter at least 65535 (limit 10) at gpu-0400 rail 2" in output


def test_fabric_that_was_cabled_wrongly(fabric: ibsim.Simulator, tmp_path: Path) -> None:
    net, expected = changed_net()
    fabric.start(net)
    status, report, output = report_of(tmp_path)
    assert (status, report["verdict"], report["unread"]) == (2, "fail", [])
    assert told(report) == sorted(expected), output
