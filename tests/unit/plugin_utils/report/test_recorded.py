from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger, StoredRound
from ansible_collections.muster.cluster.plugins.plugin_utils.report.recorded_campaigns import (
    campaigns_of,
    lost_campaigns,
    plain_summary,
    recorded_campaign,
    summary_by_classes,
)

from tests.fleets import collectives, fleet_of
from tests.placed import PLACED

from ....browser.observed import Sick, Site, rounds

SITE = Site(8, rack=2, pod=4)
COLLECTIVE: dict[str, Any] = {
    "ranks_per_node": 8,
    "step_seconds": 180,
    "pairs": {"sizes_bytes": [65536, 268435456], "iterations": 20, "warmup": 3, "seconds": 1},
    "groups": {"collectives": ["all_reduce"], "sizes_bytes": [65536, 1073741824], "iterations": 20, "warmup": 5},
    "train": None,
    "floors": [
        {"collective": "sendrecv", "nodes_min": 2, "size_bytes": 268435456, "busbw_gb_per_s": 45},
        {"collective": "all_reduce", "nodes_min": 2, "size_bytes": 1073741824, "busbw_gb_per_s": 340},
    ],
    "latency": [],
    "cohort": {"peers": 8, "margin": 0.05, "smallest": 0.1},
    "hold": {"nodes": 2, "share": 0.2},
    "straggler": None,
    "budget_minutes": None,
}
HGX = expectations_of("hgx_h100", PLACED, "test") | {"collective": plain(collectives(COLLECTIVE))}


def plan(campaign: str, started: float, program: bool = True) -> StoredRound:
    moves: dict[str, Any] = {"kind": "walk", "groups": [], **({"program": {"moves": [{}]}} if program else {})}
    return StoredRound(campaign, 1, moves, None, started, started + 1)


def proof(node: str, campaign: str, started: float = 1.0, stage: str = "acceptance") -> Evidence:
    return Evidence(f"{node}-{started}", node, stage, started, 9.0, "b", {}, "ab", (), {"campaign": campaign})


def test_campaigns_that_the_newest_evidence_names_come_first_by_nodes() -> None:
    plans = [plan("old", 1), plan("all", 2), plan("fabric", 3, program=False), plan("one", 4)]
    evidence = {
        "a": [proof("a", "old"), proof("a", "all", 5.0)],
        "b": [proof("b", "all"), proof("b", "fabric", 9.0, "fabric")],
        "c": [proof("c", "one")],
        "d": [proof("d", "gone")],
    }
    assert campaigns_of(evidence, plans) == ["all", "one"]
    assert lost_campaigns(evidence, plans) == (
        "Campaign gone, which the acceptance evidence of 1 node names, has no rounds in the ledger, expected at least "
        "one: nothing of it can be shown.",
    )


def test_a_campaign_without_evidence_is_shown_while_it_is_the_newest() -> None:
    evidence = {"a": [proof("a", "all")]}
    assert campaigns_of(evidence, [plan("all", 2), plan("open", 3)]) == ["all", "open"]
    assert campaigns_of(evidence, [plan("open", 1), plan("all", 2)]) == ["all"]
    assert campaigns_of({}, []) == []


def test_no_more_than_four_campaigns_are_shown() -> None:
    plans = [plan(f"c{number}", number) for number in range(9)]
    evidence = {f"n{number}": [proof(f"n{number}", f"c{number}")] for number in range(9)}
    assert campaigns_of(evidence, plans) == ["c8", "c7", "c6", "c5"]


def test_a_campaign_is_read_without_keeping_its_observations(tmp_path: Path) -> None:
    ledger = Ledger.create(f"sqlite:///{tmp_path}/l.sqlite", "1234", "lab")
    with ledger.writing() as writer:
        for each in rounds(SITE, 7, Sick(), campaign="c-1"):
            writer.save_round(each)
    with ledger.reading() as reader:
        assert [(each.campaign, each.number, each.observations) for each in reader.plans()] == [
            ("c-1", 1, None),
            ("c-1", 2, None),
        ]
        classes = {name: place["hardware_class"] for name, place in SITE.places.items()}
        found = recorded_campaign(reader, "c-1", classes, None, plain_summary)
    assert found.hardware_class == "hgx_h100" and not found.measured.empty
    assert all(each.observations is None and each.finished is not None for each in found.rounds)
    assert found.told == {1: "1 of 1 job went through", 2: "1 of 1 job went through"}


def test_a_round_is_told_by_what_its_class_expects() -> None:
    fleet = {"nodes": SITE.places, "classes": {"hgx_h100": HGX}}
    walk, _ = rounds(SITE, 7, Sick({"gpu-0003": 2.0}))
    told = summary_by_classes(fleet_of(fleet))(walk)
    assert "28 exchanges" in told and "gpu-0003" in told


@pytest.mark.parametrize("fleet", [{"nodes": SITE.places}, {"classes": {"hgx_h100": HGX}}])
def test_of_nodes_that_the_fleet_has_no_more_the_jobs_speak_for_themselves(fleet: Any) -> None:
    walk, _ = rounds(SITE, 7)
    assert summary_by_classes(fleet_of(fleet))(walk) == "1 of 1 job went through"


@pytest.mark.parametrize("observations", [[None], ["x"], [{"group": 3}], [{}], None])
def test_garbled_observations_are_told_as_far_as_they_can_be(observations: Any) -> None:
    fleet = {"nodes": SITE.places, "classes": {"hgx_h100": HGX}}
    walk, _ = rounds(SITE, 7)
    assert isinstance(summary_by_classes(fleet_of(fleet))(replace(walk, observations=observations)), str)


def test_who_never_came_and_why_a_job_failed_is_told() -> None:
    walk, _ = rounds(SITE, 7)
    item = {
        "ok": False,
        "error": "timed out",
        "reached": {"gpu-0002": ["walk", 3, "absent"], "gpu-0001": ["walk", 3, "arrived"], "x": 7},
    }
    told = plain_summary(replace(walk, observations=[item]))
    assert told == "0 of 1 job went through; never came: gpu-0002; timed out"
