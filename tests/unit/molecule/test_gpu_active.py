"""The lab's dcgmi and nvbandwidth: against what the real ones print, and through the stresses to findings."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import judge
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS, STRESS_CHECKS, STRESSES
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from lab_state import StateError, declared

from tests.placed import PLACED
from tests.typed import typed

ROOT = Path(__file__).resolve().parents[3]
HEALTHY = ROOT / "tests" / "healthy"
SETTINGS: dict[str, dict[str, Any]] = {"dcgm_diag": {"level": 4}, "nvbandwidth": {}}

Run = Callable[..., subprocess.CompletedProcess[bytes]]
SetFaults = Callable[..., None]
Load = Callable[..., dict[str, Finding]]


def keys(data: Any, place: str = "") -> set[str]:
    """Return the path of every key in a document; the elements of a list are one."""
    if isinstance(data, Mapping):
        return {f"{place}/{key}" for key in data} | {
            path for key, value in data.items() for path in keys(value, f"{place}/{key}")
        }
    return {path for item in data for path in keys(item, place)} if isinstance(data, list) else set()


def collected(place: Path, stress: str, seconds: float = 20) -> Output:
    expect, module = expectations_of("hgx_h100", PLACED, "lab"), STRESSES[stress]
    settings = read(module.SETTINGS, SETTINGS[stress])
    return module.collect(LocalHost(f"{place}/bin:/usr/bin:/bin"), typed(expect), seconds, settings)


@pytest.fixture
def load(host_place: Path) -> Load:
    """Run a stress on the lab host and judge it; findings by slot, or "host"."""

    def run(stress: str, seconds: float = 20) -> dict[str, Finding]:
        outputs = {stress: collected(host_place, stress, seconds)}
        expect = expectations_of("hgx_h100", PLACED, "lab")
        checks = [CHECKS[name] for name in STRESS_CHECKS[stress]]
        findings = judge(outputs, {stress: STRESSES[stress]}, checks, typed(expect)).findings
        return {finding.subject.split()[-2] if " " in finding.subject else "host": finding for finding in findings}

    return run


def others(findings: Mapping[str, Finding], *slots: str) -> set[str]:
    return {finding.verdict for slot, finding in findings.items() if slot not in slots}


@pytest.mark.parametrize("stress", sorted(SETTINGS))
def test_healthy_host_passes_and_is_what_the_fuzzing_starts_from(
    host_place: Path, load: Load, set_faults: Callable[..., None], stress: str
) -> None:
    set_faults(driver="570.86.15")
    assert {finding.verdict for finding in load(stress).values()} == {"pass"}
    assert collected(host_place, stress).stdout == (HEALTHY / f"{stress}.txt").read_text()


def test_dcgmi_diag_has_the_keys_and_layout_of_a_recorded_one(tool: Run, set_faults: SetFaults, recorded: Path) -> None:
    def shape(text: str) -> set[str]:
        return {re.sub(r"(?<= : ).*", "", line.rstrip(",")) for line in text.splitlines()}

    warning = {"status": "Fail", "warning": "Persistence mode for GPU {gpu} is disabled.", "error_severity": 5}
    set_faults(dcgm_results={"all": {"software": warning}})
    done = tool("dcgmi", "diag", "-r", "1", "-j")
    ours = done.stdout.decode()
    real = (recorded / "dcgmi" / "diag-json-4.2.3-r1-gb10-persistence-fail.json").read_text()
    assert done.returncode == 226
    # The recorded run also could not read a threshold, and says so.
    info = "/DCGM Diagnostic/test_categories/tests/test_summary/info"
    assert keys(json.loads(real)) - {info} == keys(json.loads(ours))
    assert shape(ours) <= shape(real)


def test_dcgmi_discovery_has_the_lines_of_a_recorded_one(tool: Run, set_faults: SetFaults, recorded: Path) -> None:
    def shape(text: str) -> list[str]:
        return [re.sub(r"(?<=: ).*? *\|$", "|", line) for line in text.strip().splitlines()]

    set_faults(gpus_missing=[f"SXM{slot}" for slot in range(2, 9)])
    real = (recorded / "dcgmi" / "discovery-l-v100.txt").read_text().split("\n", 1)[1]
    ours = tool("dcgmi", "discovery", "-l").stdout.decode()
    assert shape(ours) == shape(real)
    widths = [{len(line) for line in text.splitlines() if "|" in line} for text in (ours, real)]
    assert widths[0] == widths[1]


def test_dcgmi_nvlink_has_the_keys_of_a_recorded_one(tool: Run, recorded: Path) -> None:
    real = json.loads((recorded / "dcgmi" / "nvlink-errors-json-pass.json").read_text())
    ours = json.loads(tool("dcgmi", "nvlink", "-e", "-g", "0", "-j").stdout)
    # The recorded one is cut down to two links.
    links = {name: ours["body"].pop(name) for name in list(ours["body"]) if name not in real["body"]}
    assert (ours, len(links)) == (real, 16)


def test_nvbandwidth_has_the_keys_and_layout_of_a_recorded_one(
    tool: Run, set_faults: SetFaults, recorded: Path
) -> None:
    set_faults(gpus_missing=[f"SXM{slot}" for slot in range(2, 9)])
    ours = tool(
        "nvbandwidth", "-j", "-t", "host_to_device_memcpy_ce", "device_to_device_memcpy_read_ce"
    ).stdout.decode()
    real = (recorded / "other" / "nvbandwidth-json-single-gpu-gen3.json").read_text()
    # Least, greatest and mean are printed with -v; the list of devices is newer.
    verbose = {f"/nvbandwidth/testcases/{name}" for name in ("average", "max", "min")}
    assert keys(json.loads(ours)) - {"/nvbandwidth/GPU Device list"} == keys(json.loads(real)) - verbose
    first = [re.sub(r"\d[\d.]*", "9", line) for line in ours[ours.index("bandwidth_description") :].splitlines()[:7]]
    theirs = [re.sub(r"\d[\d.]*", "9", line) for line in real[real.index("bandwidth_description") :].splitlines()[:7]]
    assert first == theirs
    statuses = {case["name"]: case["status"] for case in json.loads(ours)["nvbandwidth"]["testcases"]}
    assert statuses == {
        case["name"]: case["status"]
        for case in json.loads(real)["nvbandwidth"]["testcases"]
        if case["name"] in statuses
    }


def test_gpu_that_fails_a_test_is_named_by_slot_whatever_dcgmi_calls_it(load: Load, set_faults: SetFaults) -> None:
    warning = "Max power of 524.1 did not reach desired power minimum of 630.0 for GPU {gpu}"
    set_faults(dcgm_results={"SXM6": {"targeted_power": {"status": "Fail", "warning": warning}}})
    findings = load("dcgm_diag")
    assert (findings["SXM6"].verdict, findings["SXM6"].action) == ("fail", "investigate")
    assert "for GPU 5" in findings["SXM6"].reason
    assert others(findings, "SXM6") == {"pass"}


def test_skipped_test_is_incomplete(load: Load, set_faults: SetFaults) -> None:
    set_faults(dcgm_results={"SXM2": {"memory": "Skip"}})
    findings = load("dcgm_diag")
    assert findings["SXM2"].verdict == "incomplete" and "memory is required and was skipped" in findings["SXM2"].reason
    assert others(findings, "SXM2") == {"pass"}


def test_fabric_manager_that_is_down_sends_no_gpu_back(load: Load, set_faults: SetFaults) -> None:
    warning = "GPU {gpu} Error using CUDA API cuInit: 'system not yet initialized'"
    set_faults(dcgm_results={"all": {"memory": {"status": "Fail", "warning": warning}, "pcie": "Skip"}})
    findings = load("dcgm_diag")
    findings.pop("host")
    assert {(finding.verdict, finding.action) for finding in findings.values()} == {("fail", "investigate")}


@pytest.mark.parametrize(
    "faults",
    [
        {"dcgm_runtime_error": "Error: Diagnostic could not be run while DCGM is paused."},
        {"gpus_missing": [f"SXM{slot}" for slot in range(1, 9)]},
        *({"tool_faults": {"dcgmi": fault}} for fault in ("empty", "crash", "truncate", "garble", "missing")),
    ],
)
def test_diagnostic_without_a_report_passes_nobody(load: Load, set_faults: SetFaults, faults: dict[str, Any]) -> None:
    set_faults(**faults)
    assert others(load("dcgm_diag")) == {"incomplete"}


def test_missing_gpu_was_not_diagnosed(load: Load, set_faults: SetFaults) -> None:
    set_faults(gpus_missing=["SXM3"])
    for stress in SETTINGS:
        findings = load(stress)
        assert findings["SXM3"].verdict == "incomplete"
        assert others(findings, "SXM3") == {"pass"}


def test_diagnostic_that_takes_longer_than_its_time_is_stopped(load: Load, set_faults: SetFaults) -> None:
    set_faults(tool_seconds={"dcgmi": 30})
    findings = load("dcgm_diag", seconds=0.5)
    assert others(findings) == {"incomplete"}
    assert "stopped at its time limit" in findings["host"].reason


def test_slow_gpu_is_named(load: Load, set_faults: SetFaults) -> None:
    set_faults(
        gpu_bandwidths={
            "host_to_device_memcpy_ce": {"SXM1": 26.1},
            "device_to_host_memcpy_ce": {"SXM2": 50},
            "device_to_device_memcpy_read_ce": {"SXM6": 120},
        }
    )
    findings = load("nvbandwidth")
    assert (findings["SXM1"].measured, findings["SXM1"].action) == (26.1, "reseat")
    assert "spread across the node's GPUs" in findings["SXM2"].reason
    assert (findings["SXM6"].measured, findings["SXM6"].action) == (120, "investigate")
    assert [findings[slot].verdict for slot in ("SXM1", "SXM2", "SXM6")] == ["fail"] * 3
    assert others(findings, "SXM1", "SXM2", "SXM6") == {"pass"}


def test_wrong_data_after_a_copy_fail(load: Load, set_faults: SetFaults) -> None:
    set_faults(nvbandwidth_error="wrong data")
    findings = load("nvbandwidth")
    assert (findings["host"].verdict, findings["host"].measured) == ("fail", "wrong data")
    assert others(findings, "host") == {"incomplete"}


def test_nvbandwidth_without_cuda_passes_nobody(load: Load, set_faults: SetFaults) -> None:
    set_faults(nvbandwidth_error="not initialized")
    findings = load("nvbandwidth")
    assert others(findings) == {"incomplete"}
    assert "system not yet initialized" in findings["SXM1"].reason


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({"dcgm_results": {"SXM9": {"memory": "Fail"}}}, "dcgm_results: found SXM9"),
        ({"dcgm_results": {"SXM1": {"memory": "Broken"}}}, "dcgm_results.SXM1.memory: found 'Broken'"),
        ({"nvlink_errors": {"SXM9": {}}}, "nvlink_errors: found SXM9"),
        ({"gpu_bandwidths": {"host_to_device_memcpy_ce": {"SXM9": 1}}}, "found SXM9"),
        ({"gpu_bandwidths": {"host_to_device_memcpy_ce": {"SXM1": "slow"}}}, "expected numbers"),
        ({"nvbandwidth_error": "fire"}, "nvbandwidth_error: found 'fire'"),
        ({"tool_seconds": {"dcgmi": -1}}, "tool_seconds: found"),
    ],
)
def test_fault_that_cannot_be_shown_is_refused(faults: dict[str, Any], said: str) -> None:
    with pytest.raises(StateError, match=said):
        declared("gpu-01", None, faults)
