"""What the jobs of Muster's own rounds are given: all GPUs of the node, because they ask for them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import read_program
from ansible_collections.muster.cluster.plugins.module_utils.rounds.collective_job import CollectiveCodec
from ansible_collections.muster.cluster.plugins.module_utils.rounds.fabric_job import FabricCodec
from ansible_collections.muster.cluster.plugins.module_utils.rounds.nccl_tests_job import NcclTestsCodec
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_job import Codec
from ansible_collections.muster.cluster.plugins.module_utils.rounds.storage_job import StorageCodec
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.cohort import Cohort, Request
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Round
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.stage import StageWork
from machines import CONTROLLER, FLEET, MAY, MAY_NOT, NODE, idle, on, wait_for
from rounds import GROUP, RANKS, command

# Takes the place of what a round starts, whatever it is called with: tells which GPUs it may open.
LOOK = "/usr/local/bin/look"
LOOKS = "#!/bin/sh\nfor n in 0 1; do cat /dev/nvidia$n 2>&1; done; true\n"
MOVE = {"name": "all", "kind": "inside", "collective": "all_reduce", "sizes": [8], "iterations": 1, "warmup": 0}
PROGRAM = {"moves": [{**MOVE, "seconds": 5}]}


@pytest.fixture(scope="module", autouse=True)
def looking() -> None:
    """The node has the program that tells what it may open, and no other job."""
    wait_for("an idle node", idle)
    on(NODE, f"printf %s {shlex.quote(LOOKS)} >{LOOK} && chmod 755 {LOOK}")


def asked() -> int:
    """Return how many GPUs a round asks for on each node of this scenario's fleet."""
    cohort = Cohort("vm_gpu", GROUP, (), {}, FLEET.classes["vm_gpu"])
    told = StageWork(Request(FLEET, GROUP), cohort).meeting(Round(1, "inside", (GROUP,), {}), 60)
    return int(told["gpus_per_node"])


CODECS: Mapping[str, Codec] = {
    "acceptance": CollectiveCodec(LOOK, LOOK, "nccl", RANKS, PROGRAM, 30),
    "acceptance by nccl-tests": NcclTestsCodec(RANKS, read_program(PROGRAM, 1)[0], LOOK),
    "fabric": FabricCodec(LOOK, {NODE: {}}, {}, 30),
    "storage": StorageCodec(LOOK, {}, 30),
}


def said(codec: Codec, gpus: int) -> list[str]:
    """Return what the processes of a round's job print."""
    return on(CONTROLLER, command(codec, gpus)).splitlines()


@pytest.mark.parametrize("stage", CODECS)
def test_each_process_of_a_round_reaches_all_gpus(stage: str) -> None:
    lines = said(CODECS[stage], asked())
    assert len(lines) == 2 * CODECS[stage].tasks_per_node, lines
    assert all(MAY in line for line in lines), lines


def test_without_the_request_it_reaches_none() -> None:
    lines = said(CODECS["fabric"], 0)
    assert len(lines) == 2 and all(MAY_NOT in line for line in lines), lines
