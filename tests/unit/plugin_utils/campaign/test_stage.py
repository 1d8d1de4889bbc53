"""What each round's module is told: its jobs ask for the GPUs that Slurm hands out."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Cohort, Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Round
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.stage import StageWork
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

from tests.unit.plugin_utils.slurm.clusters import FILE, site

PAIR = ("gpu-01", "gpu-02")


@pytest.mark.parametrize(
    ("scheduler", "gpus"),
    [
        ({}, 8),
        ({"gres": "nvml"}, 8),
        ({"gres": "none"}, 0),
        ({"node_parameters": {"hgx_h100": {"Gres": "gpu:h100:8(S:0-1),nic:8"}}}, 8),
        ({"node_parameters": {"hgx_h100": {"gres": "gpu:a:3,gpu:b:5"}}}, 8),
        # A Slurm that is not Muster's, with a gres.conf of its own.
        ({"gres": "none", "node_parameters": {"hgx_h100": {"Gres": "gpu:8"}}}, 8),
        ({"node_parameters": {"hgx_h100": {"Gres": None}}}, 0),
        ({"node_parameters": {"hgx_h100": {"Gres": "nic:8"}}}, 0),
    ],
)
def test_jobs_ask_for_the_gpus_that_slurm_hands_out(scheduler: dict[str, Any], gpus: int) -> None:
    declared = Fleet.from_data(site(scheduler), FILE)
    cohort = Cohort("hgx_h100", PAIR, (), {}, declared.classes["hgx_h100"])
    work = StageWork(Request(declared, PAIR), cohort)
    assert work.meeting(Round(1, "pairs", (PAIR,), {}), 60)["gpus_per_node"] == gpus
