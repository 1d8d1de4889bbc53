"""Thirteen ways in which other systems let a sick node through, each tried on ours from tool to gate.

What a tool printed on a sick or unmeasured host goes through parser, check and admission to the user partition; all
else about the node is as good as it can be. Source of the cases: public code and issues of cluster health checkers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import judge
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CHECKS,
    STRESSES,
    parsers,
    required,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import rules_of
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import COMPONENTS
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS, Finding
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read
from ansible_collections.muster.cluster.plugins.plugin_utils.admission import admission
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.gate import closes_of, wanted_partitions
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_scheduler import Partition
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    expectations_of,
    shipped_classes,
)

from tests.placed import PLACED
from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[1] / "healthy"
EXPECT = expectations_of("hgx_h100", PLACED, "test")
STAGES = ("preflight", "burn_in", "acceptance")
STEPS = [
    {"limit_seconds": 600, "run": {"dcgm_diag": {"level": 3}}},
    {"limit_seconds": 600, "run": {"nvbandwidth": {}}},
    {"seconds": 60},
]
POLICY = read(
    admission.Policy,
    {
        "stages": list(STAGES),
        "burn_in_profile": "p",
        "burn_in_profiles": {"p": {"interval_seconds": 5, "steps": STEPS}},
        "fresh_hours": {},
        "retest": True,
        "heartbeat_seconds": None,
    },
)
FINGERPRINT = dict.fromkeys(COMPONENTS, "1")
PARTITION = [Partition("batch", True)]


def healthy(name: str) -> str:
    (path,) = HEALTHY.glob(f"{name}.*")
    return path.read_text(encoding="utf-8")


def changed(name: str, old: str, new: str) -> Output:
    """Return a healthy output with one thing changed; ``old`` is a regular expression."""
    text, times = re.subn(old, new, healthy(name), count=1)
    assert times == 1, f"{old} is not in the healthy output of {name}"
    return Output(text)


def findings(check: str, outputs: Mapping[str, Output | None]) -> list[Finding]:
    names = CHECKS[check].PROBES
    given = {name: outputs[name] if name in outputs else Output(healthy(name)) for name in names}
    present = {name: output for name, output in given.items() if output is not None}
    return list(judge(present, parsers(names), [CHECKS[check]], typed(EXPECT)).findings)


def outcome(check: str, **outputs: Output | None) -> tuple[str, bool]:
    """Return the state of a node on which ``check`` met these outputs, and whether users reach it.

    It was in service until now, so that closing has to be done and not only left undone.
    """
    return outcome_of(findings(check, outputs))


def outcome_of(given: Sequence[Finding], stages: Sequence[str] = STAGES) -> tuple[str, bool]:
    told = {(finding.check, finding.subject): finding for finding in given}
    owed = {stage: required(stage, typed(EXPECT), ("dcgm_diag", "nvbandwidth")) for stage in STAGES}
    records = [
        admission.Record(evidence(stage, [told.get(pair, Finding(*pair, PASS)) for pair in owed[stage]]), 900.0, order)
        for order, stage in enumerate(stages)
    ]
    digests = {stage: expect_digest_of(stage, EXPECT) for stage in STAGES}
    case = admission.Case("n1", owed, records, FINGERPRINT, digests, admitted_since=850.0)
    state = admission.judge(case, POLICY, 1000.0).state
    wanted = wanted_partitions({"n1": state}, PARTITION, {"n1": "hgx_h100"})
    return state, not closes_of(wanted, {"batch": ["n1"]})


def evidence(stage: str, given: Sequence[Finding]) -> Evidence:
    detail: dict[str, Any] = {"profile": "p", "steps": STEPS, "elapsed_seconds": 60.0} if stage == "burn_in" else {}
    digest = expect_digest_of(stage, EXPECT)
    return Evidence(
        stage,
        "n1",
        stage,
        700.0,
        800.0,
        "b",
        FINGERPRINT,
        digest,
        tuple(given),
        detail,
        rules=rules_of(stage, STRESSES),
    )


def test_healthy_node_stays_open() -> None:
    """Without this the others would prove nothing."""
    assert outcome("gpu_ecc") == outcome("dcgm_diag") == outcome("gpu_bandwidth") == ("admitted", True)


def test_ignored_test_errors() -> None:
    """The diagnostic ended with an error and said nothing; the play went on."""
    text = healthy("dcgm_diag").split("==> dcgmi diag")[0]
    broken = Output(f"{text}==> dcgmi diag -r 3 -j <== (exit status 226: Error)\n")
    assert outcome("dcgm_diag", dcgm_diag=broken) == ("testing", False)


def test_crash_counts_as_a_warning() -> None:
    """The tool died half way through its table."""
    text = healthy("nvbandwidth")
    died = Output(text[: len(text) * 2 // 3], "Segmentation fault", -11)
    assert outcome("gpu_bandwidth", nvbandwidth=died) == ("testing", False)


def test_wrong_grep_token() -> None:
    """What went wrong is said in words that nobody looks for: an Xid that no catalogue has."""
    line = "2026-11-20T09:00:00+0000 h kernel: NVRM: Xid (PCI:0000:85:00): 999, pid=1, new kind of trouble\n"
    assert outcome("xid", kernel_log=Output(healthy("kernel_log") + line)) == ("testing", False)


def test_comparison_that_never_filters() -> None:
    """A limit was compared with the wrong field; and nodes without a multi-node result counted as validated."""
    flag = changed("nvidia_smi", "<remapped_row_failure>No", "<remapped_row_failure>Yes")
    assert outcome("gpu_row_remap", nvidia_smi=flag) == ("rejected", False)
    assert outcome_of([], stages=("preflight", "burn_in")) == ("testing", False)


# What a class cannot be asked, by what its file says.
NOT_OWED = {
    "gb200_nvl72": {
        # They run on the switch trays: what is asked of a tray instead, a test of the class says.
        *("fabric_manager", "fabric_manager_log"),
        # Nobody published what a tray shows of them.
        *("acs", "dimms", "memory_errors", "nic_pcie_settings", "nvme", "nvme_smart"),
    }
}


@pytest.mark.parametrize("name", [name for name in shipped_classes() if name != "lab_h100"])
def test_check_skipped_by_an_else(name: str) -> None:
    """A branch for another kind of host left a check out: here every class owes what the first one owes."""
    other = expectations_of(name, PLACED, "test")
    owed = {check for check, _part in required("burn_in", typed(other), ("dcgm_diag", "nvbandwidth", "gpu_stress"))}
    assert {
        check for check, _part in required("burn_in", typed(EXPECT), ("dcgm_diag", "nvbandwidth", "gpu_stress"))
    } - owed == NOT_OWED.get(name, set())


def test_warnings_not_counted() -> None:
    """Only lines that said ERROR counted; this test says that it warns."""
    warned = changed("dcgm_diag", r'"status"\s*:\s*"Pass"', '"status": "Warn"')
    assert outcome("dcgm_diag", dcgm_diag=warned)[1] is False


@pytest.mark.parametrize("model", ["NVIDIA H100 PCIe", "N/A"])
def test_error_status_and_unknown_hardware_end_with_zero(model: str) -> None:
    """Status ERROR and hardware that the tool did not know both ended with exit status 0."""
    other = changed("nvidia_smi", "<product_name>[^<]*", f"<product_name>{model}")
    assert outcome("gpu_inventory", nvidia_smi=other)[1] is False


def test_not_run_is_a_warning() -> None:
    """The test was never started."""
    assert outcome("dcgm_diag", dcgm_diag=None) == ("testing", False)
    missing = Output(rc=None, error="dcgmi: No such file or directory")
    assert outcome("dcgm_diag", dcgm_diag=missing) == ("testing", False)


def test_low_bandwidth_is_advisory() -> None:
    """Half of PCIe's bandwidth was printed as a remark."""
    assert outcome("gpu_bandwidth", nvbandwidth=changed("nvbandwidth", '"55.4"', '"26.1"')) == ("rejected", False)


def test_low_bandwidth_fails_the_script_and_does_not_drain() -> None:
    """The script ended with an error and the node stayed in service: here the gate of an admitted node closes."""
    low = findings("gpu_bandwidth", {"nvbandwidth": changed("nvbandwidth", '"55.4"', '"26.1"')})
    state, reached = outcome_of(low)
    assert (state, reached) == ("rejected", False)
    assert any(finding.verdict == "fail" and "0000:04:00.0" in finding.subject for finding in low)


def test_throttle_is_only_logged() -> None:
    """A GPU slowed down by its hardware was noted and let through."""
    slow = changed("nvidia_smi", "hw_slowdown>Not Active<", "hw_slowdown>Active<")
    assert outcome("gpu_throttle", nvidia_smi=slow) == ("rejected", False)


@pytest.mark.parametrize("value", ["N/A", "ERR!", ""])
def test_missing_measurement_passes(value: str) -> None:
    """A counter that could not be read counted as nought."""
    unread = changed("nvidia_smi", "<sram_uncorrectable_parity>0<", f"<sram_uncorrectable_parity>{value}<")
    assert outcome("gpu_ecc", nvidia_smi=unread) == ("testing", False)


def test_unsupported_check_is_reported_as_passed() -> None:
    """What the tool cannot ask in this mode was skipped and reported as passed."""
    sentence = "Nvlink queries are not supported for Devices in MIG mode\n"
    unsupported = Output(re.sub(r"(?:\t Link .*\n)+", sentence, healthy("nvlink"), count=1))
    assert outcome("gpu_nvlink", nvlink=unsupported) == ("testing", False)
    skipped = changed("dcgm_diag", r'"status"\s*:\s*"Pass"', '"status": "Skip"')
    assert outcome("dcgm_diag", dcgm_diag=skipped)[1] is False
