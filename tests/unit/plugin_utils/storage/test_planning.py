"""What a fleet's plan takes from where: declaration, ledger and evidence, the ledger a real one."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan import DAY_SECONDS, FailureRate
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan_table import (
    duration,
    plan_lines,
    rate,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.measured_plan import (
    PlanningError,
    Wishes,
    fleet_plan,
    gpus_per_node,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger

from tests.fleets import fleet_of

LAB = expectations_of("lab_h100", {}, "test")
FLEET: dict[str, Any] = {
    "cluster": "lab",
    "nodes": {
        "ctl": {"role": "controller", "hardware_class": None},
        **{f"n{number:02}": {"role": "compute", "hardware_class": "h100"} for number in range(20)},
    },
    "classes": {
        "h100": LAB,
        "small": {**LAB, "gpu": {**LAB["gpu"], "count": 4, "parts": LAB["gpu"]["parts"][:4]}},
        "none": {**LAB, "gpu": None, "gpu_stack": None},
    },
    "storage": {
        "tiers": [{"name": "checkpoints", "kind": "existing", "path": "/weka", "filesystem": "wekafs"}],
        "checkpoint": {
            "tier": "checkpoints",
            "model": {"parameters": 70_000_000_000, "ranks": 160, "bytes_per_parameter": 14},
            "target_seconds": 60,
            "interval_seconds": None,
            "failures_per_1000_node_days": 6.5,
        },
    },
}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(f"sqlite:///{tmp_path}/ledger.sqlite", "ledger-1", "lab", now=0.0)
    with made.writing() as writer:
        writer.declare(dict.fromkeys((name for name in FLEET["nodes"] if name != "ctl"), "h100"), 0.0)
    return made


def with_checkpoint(**changes: Any) -> dict[str, Any]:
    fleet = deepcopy(FLEET)
    fleet["storage"]["checkpoint"] |= changes
    return fleet


def test_without_a_ledger_the_declaration_alone_is_planned() -> None:
    plan = fleet_plan(fleet_of(FLEET), None, 0.0)
    assert [row.gpus for row in plan.rows][:3] == [160, 1024, 2048]
    assert plan.job.rate == FailureRate(6.5, "Meta's RSC-1 (arXiv 2410.21680); there is no ledger yet")
    assert plan.job.save.source == "declared target, not measured"
    assert plan.target_gb_per_s == pytest.approx(20.4, rel=0.001)


@pytest.mark.parametrize(("faults", "rate"), [(9, 6.5), (10, 1000 * 10 / (10 * 50 + 10 * 100))])
def test_ten_faults_that_the_ledger_saw_in_service_are_the_rate(ledger: Ledger, faults: int, rate: float) -> None:
    names = [name for name in FLEET["nodes"] if name != "ctl"]
    with ledger.writing() as writer:
        writer.move(dict.fromkeys(names, ("admitted", "acceptance", "passed")), "me", 0.0, compared=True)
        for name in names[: faults - 1]:
            writer.move({name: ("rejected", "preflight", "gone")}, "me", 50 * DAY_SECONDS, compared=True)
        # Its own health check.
        writer.decide(names[faults - 1], "quarantined", "Xid 79", "health", 50 * DAY_SECONDS)
    with ledger.reading() as reader:
        plan = fleet_plan(fleet_of(FLEET), reader, 100 * DAY_SECONDS)
        given = fleet_plan(fleet_of(FLEET), reader, 100 * DAY_SECONDS, Wishes(failures_per_1000_node_days=3))
    assert plan.job.rate.per_1000_node_days == pytest.approx(rate)
    assert f"{faults} faults in" in plan.job.rate.source
    assert given.job.rate == FailureRate(3, "given for this plan")


def measured(node: str, gb_per_s: float | None, reason: str) -> Evidence:
    verdict = "incomplete" if gb_per_s is None else "pass"
    findings = (
        Finding("storage_write", "storage", "pass", 99.0, 4.0, "GB/s"),
        Finding("storage_target", "storage", verdict, gb_per_s, 20.4, "GB/s", reason),
    )
    return Evidence(f"e-{node}", node, "storage", 10.0, 20.0, "b", {}, "d", findings)


def test_the_fastest_save_that_stage_storage_measured_is_planned_with(ledger: Ledger) -> None:
    evidence = [
        measured("n00", 9.8, "9.8 GB/s by 20 nodes"),
        # Tested again, alone but for three others.
        measured("n01", 1.5, "1.5 GB/s by 4 nodes"),
        measured("n02", None, "no save that could be measured"),
    ]
    with ledger.writing() as writer:
        assert writer.add_evidence(evidence, 30.0) == []
    with ledger.reading() as reader:
        save = fleet_plan(fleet_of(FLEET), reader, 100.0).job.save
        behind = fleet_plan(fleet_of(FLEET), reader, 100.0, Wishes(blocking_seconds=5)).job.save
    assert (save.blocking_seconds, save.complete_seconds) == (pytest.approx(100), pytest.approx(100))
    assert save.source == "stage storage, evidence e-n00: 9.8 GB/s by 20 nodes"
    assert (behind.blocking_seconds, behind.complete_seconds) == (5, pytest.approx(100))


def test_newer_evidence_of_a_node_takes_the_place_of_older(ledger: Ledger) -> None:
    older, newer = measured("n00", 9.8, "fast"), measured("n00", 4.9, "slow")
    with ledger.writing() as writer:
        writer.add_evidence([older, replace(newer, id="e-newer")], 30.0)
    with ledger.reading() as reader:
        assert fleet_plan(fleet_of(FLEET), reader, 100.0).job.save.complete_seconds == pytest.approx(200)


def test_evidence_without_a_figure_leaves_the_declared_target(ledger: Ledger) -> None:
    with ledger.writing() as writer:
        writer.add_evidence(
            [measured("n00", None, "not measured"), measured("gone", 9.8, "no node of the fleet")], 30.0
        )
    with ledger.reading() as reader:
        assert fleet_plan(fleet_of(FLEET), reader, 100.0).job.save.source == "declared target, not measured"


def test_a_declared_rate_and_a_declared_interval_are_planned_with() -> None:
    plan = fleet_plan(fleet_of(with_checkpoint(failures_per_1000_node_days=2.34, interval_seconds=3600)), None, 0.0)
    assert plan.job.rate == FailureRate(2.34, "declared; there is no ledger yet")
    at_16k = next(row for row in plan.rows if row.gpus == 16384)
    assert at_16k.declared_loss_percent is not None and at_16k.declared_loss_percent > at_16k.loss_percent
    assert "saved every 60 min: lost" in plan_lines(plan)[0]


def test_a_save_that_is_written_behind_the_job_stops_it_for_less() -> None:
    plan = fleet_plan(fleet_of(FLEET), None, 0.0, Wishes(blocking_seconds=5))
    assert (plan.job.save.blocking_seconds, plan.job.save.complete_seconds) == (5, 60)
    whole = fleet_plan(fleet_of(FLEET), None, 0.0)
    assert all(row.loss_percent < other.loss_percent for row, other in zip(plan.rows, whole.rows, strict=True))


def test_the_more_common_number_of_gpus_counts() -> None:
    fleet = deepcopy(FLEET)
    fleet["nodes"]["n00"]["hardware_class"] = "small"
    assert gpus_per_node(fleet_of(fleet)) == 8


@pytest.mark.parametrize(
    ("fleet", "wishes", "says"),
    [
        ({**FLEET, "storage": {}}, {}, "storage.checkpoint: found nothing"),
        ({**FLEET, "storage": {"tiers": [], "checkpoint": None}}, {}, "storage.checkpoint: found nothing"),
        (FLEET, {"restart_seconds": -1}, "restart_seconds: found -1, expected at least 0"),
        (FLEET, {"wanted_loss_percent": 0}, "wanted_loss_percent: found 0, expected above 0"),
        (FLEET, {"blocking_seconds": 0}, "blocking_seconds: found 0, expected above 0"),
        (FLEET, {"failures_per_1000_node_days": 0}, "failures_per_1000_node_days: found 0, expected above 0"),
        (FLEET, {"wanted_loss_percent": 50}, "wanted_loss_percent: found 50, expected above 0 and below 50"),
        (
            {**FLEET, "nodes": {"n1": {"role": "compute", "hardware_class": "none"}}},
            {},
            "gpu.count: found no GPUs in the classes of the compute nodes",
        ),
    ],
)
def test_what_cannot_be_planned_is_named(fleet: dict[str, Any], wishes: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanningError, match=says):
        fleet_plan(fleet_of(fleet), None, 0.0, Wishes(**wishes))


def test_lines_are_a_table_with_its_sources() -> None:
    lines = plan_lines(fleet_plan(fleet_of(FLEET), None, 0.0))
    assert "16384   2048          1.8 h      14 min  13.0 %        16.9 %" in lines[2 + 5]
    text = "\n".join(lines)
    for source in (
        "arXiv 2410.21680",
        "CACM 17(9), 1974",
        "FGCS 22(3), 2006",
        "declared target, not measured",
        "980 GB",
    ):
        assert source in text, source
    assert len({len(line) for line in lines[:11]}) == 1


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(0.5, "0.5 s"), (99.9, "99.9 s"), (100, "1.67 min"), (5999, "100 min"), (6490, "1.8 h"), (103846, "28.8 h")],
)
def test_duration(seconds: float, says: str) -> None:
    assert duration(seconds) == says


@pytest.mark.parametrize(
    ("gb_per_s", "says"), [(0.0000195, "0.0195 MB/s"), (0.0999, "99.9 MB/s"), (0.1, "0.1 GB/s"), (1167.5, "1168 GB/s")]
)
def test_rate(gb_per_s: float, says: str) -> None:
    assert rate(gb_per_s) == says
