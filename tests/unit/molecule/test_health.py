"""muster health on a lab host: the real archive against simulated tools and files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED

SetFaults = Callable[..., None]
BOOT = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def muster(host_place: Path, node_program: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Run ``muster health`` on the host, which had its preflight."""
    expect = expectations_of("hgx_h100", PLACED, "lab")
    expect["gpu"]["nvml"] = None
    expect["tools"] = {"path": f"{host_place}/bin:/usr/bin:/bin", "root": str(host_place / "root")}
    boot_id = host_place / "root" / "proc" / "sys" / "kernel" / "random" / "boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text(BOOT + "\n", encoding="ascii")
    (host_place / "expect.json").write_text(json.dumps(expect), encoding="utf-8")
    record = host_place / "state" / "evidence" / "preflight" / "a" / "evidence.json"
    record.parent.mkdir(parents=True)
    record.write_text(
        json.dumps({"boot_id": BOOT, "finished": 1.0, "findings": [{"verdict": "pass"}]}), encoding="utf-8"
    )
    common = ["--expect", str(host_place / "expect.json"), "--state-directory", str(host_place / "state")]

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        command = [sys.executable, str(node_program), "health", *common, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        return done.returncode, json.loads(done.stdout)

    return run


def parts(said: dict[str, Any]) -> set[tuple[str, str, str, str]]:
    """Return check, part, verdict and action of what did not pass."""
    return {(item["check"], item["subject"], item["verdict"], item["action"]) for item in said["findings"]}


def test_healthy_host_passes_again_and_again(muster: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    for words in ((), (), ("--status",)):
        status, said = muster(*words)
        assert (status, said["verdict"], said["findings"]) == (0, "pass", [])


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ({"gpus_lost": ["SXM6"]}, ("gpu_present", "gpu SXM6 0000:85:00.0", "fail", "reboot")),
        ({"gpus_missing": ["SXM6"]}, ("gpu_present", "gpu SXM6 0000:85:00.0", "fail", "reboot")),
        (
            {"gpu_files": {"SXM1": {"current_link_width": "8"}}},
            ("gpu_present", "gpu SXM1 0000:0b:00.0", "fail", "reseat"),
        ),
        (
            {"kernel_log": ["NVRM: Xid (PCI:0000:85:00): 48, DBE"]},
            ("xid", "gpu SXM6 0000:85:00.0", "fail", "reset_gpu"),
        ),
        ({"ring_lines": 2}, ("log_continuity", "host", "incomplete", "investigate")),
        ({"tool_faults": {"dmesg": "garble"}}, ("log_continuity", "host", "incomplete", "investigate")),
    ],
)
def test_fault_is_named_and_stays_in_the_heartbeat(
    muster: Callable[..., tuple[int, dict[str, Any]]], set_faults: SetFaults, faults: Any, expected: Any
) -> None:
    set_faults(**faults)
    status, said = muster()
    assert expected in parts(said) and status == {"fail": 1, "incomplete": 2}[expected[2]]
    assert muster("--status")[0] == status


def test_old_heartbeat_is_incomplete(muster: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    assert muster()[0] == 0
    assert muster("--status", "--max-age", "0")[0] == 2


def test_no_heartbeat_is_incomplete(muster: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    assert muster("--status")[0] == 2
