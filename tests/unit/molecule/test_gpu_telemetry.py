"""The recorder against the lab's nvidia-smi: a healthy node passes, faults are told of their GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import gpu_telemetry as check
from ansible_collections.muster.cluster.plugins.module_utils.gpu_load import gpu_telemetry_program as program
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.stress import gpu_telemetry as stress
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.typed import typed

ROOT = Path(__file__).resolve().parents[3]
RUN = f"import sys, {program.__name__} as program; sys.exit(program.main())"
EXPECT = expectations_of("lab_h100", {}, "test")


@pytest.fixture
def judged(host_place: Path) -> Callable[..., dict[str, Finding]]:
    """Record for three seconds and return the findings by slot."""

    def run(between: Callable[[], None] = lambda: None) -> dict[str, Finding]:
        arguments = ["--seconds=3", f"--directory={host_place / 'telemetry'}", "--files=2", "--under-load"]
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, *arguments],
            env={"PATH": f"{host_place / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "collections")},
            stdout=subprocess.PIPE,
            text=True,
        )
        between()
        output, _ = process.communicate(timeout=60)
        telemetry = stress.parse(Output(output, rc=process.returncode))
        findings = check.decide({"gpu_telemetry": telemetry}, typed(EXPECT))
        return {finding.subject.split()[1]: finding for finding in findings}

    return run


def failed(found: Mapping[str, Finding]) -> set[str]:
    return {slot for slot, finding in found.items() if finding.verdict == "fail"}


def test_healthy_node_passes(judged: Callable[..., dict[str, Finding]], host_place: Path) -> None:
    found = judged()
    assert {finding.verdict for finding in found.values()} == {"pass"}, found
    assert len(found) == 8
    assert len(list((host_place / "telemetry").iterdir())) == 1


def test_faults_are_told_of_their_gpus(
    judged: Callable[..., dict[str, Finding]], set_faults: Callable[..., None]
) -> None:
    values: dict[str, Any] = {
        "SXM1": {"temperature/gpu_temp": "91 C"},
        "SXM2": {"gpu_power_readings/power_draw": "400.00 W"},
        "SXM3": {"pci/pci_gpu_link_info/link_widths/current_link_width": "8x"},
        "SXM4": {"clocks/sm_clock": "1200 MHz"},
        "SXM5": {"gpu_power_readings/power_draw": "N/A"},
    }
    set_faults(gpu_values=values)
    found = judged()
    assert failed(found) == {"SXM1", "SXM2", "SXM3", "SXM4"}
    assert found["SXM3"].action == "reseat"
    assert found["SXM5"].verdict == "incomplete" and "power_watts was not reported" in found["SXM5"].reason


def test_errors_under_way_are_told(judged: Callable[..., dict[str, Finding]], set_faults: Callable[..., None]) -> None:
    def between() -> None:
        time.sleep(1.8)
        set_faults(
            gpu_values={"SXM6": {"ecc_errors/volatile/dram_uncorrectable": "2"}, "SXM7": {"pci/replay_counter": "900"}}
        )

    found = judged(between)
    assert failed(found) == {"SXM6", "SXM7"}
    assert (found["SXM6"].action, found["SXM7"].action) == ("reset_gpu", "reseat")


def test_gpu_lost_under_way_is_named_and_nobody_passes_unwatched(
    judged: Callable[..., dict[str, Finding]], set_faults: Callable[..., None]
) -> None:
    def between() -> None:
        time.sleep(1.5)
        set_faults(gpus_lost=["SXM6"])

    found = judged(between)
    assert failed(found) == {"SXM6"}
    assert found["SXM6"].action == "reboot"
    assert {finding.verdict for slot, finding in found.items() if slot != "SXM6"} == {"incomplete"}


@pytest.mark.parametrize("fault", ["hang", "crash", "truncate", "empty", "garble", "missing"])
def test_broken_tool_passes_nobody(
    fault: str,
    judged: Callable[..., dict[str, Finding]],
    set_faults: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if fault == "hang":
        pytest.skip("the recorder waits a minute for `nvidia-smi -q -x`: test_gpu_telemetry.py has a tool that hangs")
    set_faults(tool_faults={"nvidia-smi": fault})
    assert {finding.verdict for finding in judged().values()} <= {"incomplete"}
