"""What the demo calls a difference; the demo itself runs on the lab."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import Verdict
from lab_tasks import tasks_per_node

ROOT = Path(__file__).resolve().parents[3]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"lab_{name}", ROOT / "molecule" / "lab" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


demo = load("demo")

CPU = Finding("cpu", "host", "pass", 96, 96, "cores")
GPU = Finding("gpu_inventory", "gpu SXM6 0000:85:00.0", "fail", "absent", "H100", "", "not listed", "reboot")
XID = Finding("kernel_log", "host", "fail", 79, None, "", "Xid 79", "reboot")
SLOW = Finding("pair_bandwidth", "network", "fail", 0.024, 0.1, "GB/s", "slow", "investigate")


@pytest.fixture(scope="module")
def site() -> Any:
    return demo.site_of(demo.read_inventory("inventory/lab"))


def outcome() -> dict[str, Verdict]:
    verdicts = [
        Verdict("gpu-01", "admitted", "acceptance", (CPU,)),
        Verdict("gpu-02", "admitted", "acceptance", (CPU,)),
        Verdict("gpu-03", "rejected", "burn_in", (CPU, GPU, XID)),
        Verdict("gpu-04", "rejected", "acceptance", (CPU, SLOW)),
    ]
    return {verdict.node: verdict for verdict in verdicts}


def record(node: str, stage: str, started: float) -> Evidence:
    return Evidence("e", node, stage, started, started + 1, "boot", {}, "digest")


def test_lab_declares_the_outcome_of_every_node(site: Any) -> None:
    assert site.controller == "ctl" and site.partition == "batch" and site.status == 2
    assert site.ending("admitted") == ["gpu-01", "gpu-02"]
    assert site.expected["gpu-03"] == demo.Expected("rejected", "burn_in", "gpu SXM6 0000:85:00.0", "reboot")


def test_expected_part_is_one_of_the_hardware_class(site: Any) -> None:
    parts = site.fleet["classes"]["lab_h100"]["gpu"]["parts"]
    assert site.expected["gpu-03"].part in {f"gpu {part['slot']} {part['address']}" for part in parts}


def test_expected_outcome_has_no_differences(site: Any) -> None:
    assert demo.differences(site, list(outcome().values()), {"gpu-03": [record("gpu-03", "burn_in", 10.0)]}, 5.0) == []


@pytest.mark.parametrize(
    ("node", "changes", "says"),
    [
        ("gpu-01", {"state": "testing"}, "gpu-01: testing in acceptance, expected admitted in acceptance"),
        ("gpu-01", {"findings": ()}, "gpu-01: no findings"),
        ("gpu-01", {"findings": (SLOW,)}, "gpu-01: pair_bandwidth on network is fail, expected all to pass"),
        (
            "gpu-01",
            {"findings": (dataclasses.replace(CPU, verdict="incomplete"),)},
            "gpu-01: cpu on host is incomplete, expected all to pass",
        ),
        ("gpu-03", {"stage": "preflight"}, "gpu-03: rejected in preflight, expected rejected in burn_in"),
        ("gpu-03", {"state": "admitted"}, "gpu-03: admitted in burn_in"),
        ("gpu-03", {"findings": (XID,)}, "gpu-03: no failed finding on gpu SXM6 0000:85:00.0"),
        (
            "gpu-03",
            {"findings": (dataclasses.replace(GPU, action="none"),)},
            "gpu-03: gpu SXM6 0000:85:00.0: action none, expected reboot",
        ),
        (
            "gpu-03",
            {"findings": (GPU, dataclasses.replace(GPU, subject="gpu SXM5 0000:8b:00.0"))},
            "gpu-03: blames gpu SXM5 0000:8b:00.0",
        ),
        ("gpu-04", {"findings": (dataclasses.replace(SLOW, expected=None),)}, "lacks measured or expected"),
        ("gpu-04", {"findings": (dataclasses.replace(SLOW, verdict="incomplete"),)}, "no failed finding on network"),
    ],
)
def test_other_outcome_is_a_difference(site: Any, node: str, changes: dict[str, Any], says: str) -> None:
    got = outcome()
    got[node] = dataclasses.replace(got[node], **changes)
    found = demo.differences(site, list(got.values()), {}, 0.0)
    assert any(says in text for text in found), found
    assert all(text.startswith(node) for text in found)


def test_missing_and_surplus_verdicts_are_differences(site: Any) -> None:
    got = outcome()
    got["gpu-09"] = dataclasses.replace(got.pop("gpu-02"), node="gpu-09")
    assert demo.differences(site, list(got.values()), {}, 0.0) == [
        "gpu-09: a verdict, expected none",
        "gpu-02: no verdict, expected admitted",
    ]


@pytest.mark.parametrize(
    ("started", "found"), [(10.0, ["gpu-03: has evidence of acceptance, expected none"]), (1.0, [])]
)
def test_rejected_node_must_not_have_reached_a_later_stage_in_this_run(
    site: Any, started: float, found: list[str]
) -> None:
    evidence = {"gpu-03": [record("gpu-03", "acceptance", started)]}
    assert demo.differences(site, list(outcome().values()), evidence, 5.0) == found


def test_inventory_without_expectations_is_an_error(site: Any) -> None:
    hosts = {"ctl": {"muster_fleet": dict(site.fleet)}, "gpu-01": {}}
    with pytest.raises(demo.DemoError, match="gpu-01 has no lab_expected"):
        demo.site_of({"_meta": {"hostvars": hosts}, "compute": {"hosts": ["gpu-01"]}})
    with pytest.raises(demo.DemoError, match="no host has muster_fleet"):
        demo.site_of({"_meta": {"hostvars": {"gpu-01": {}}}, "compute": {"hosts": ["gpu-01"]}})


def test_tasks_per_node_takes_the_most_of_each_role() -> None:
    counted = {"hosts": {"ctl": {"slurm": 30}, "gpu-01": {"slurm": 9, "nccl": 3}, "gpu-02": {"slurm": 10}}}
    assert tasks_per_node(counted, ["gpu-01", "gpu-02", "gpu-03"]) == {"slurm": 10, "nccl": 3}
