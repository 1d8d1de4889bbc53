"""What srun's output says about a group: only whole, correct and complete output is ok."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils import collective_job, slurm_round
from ansible_collections.muster.cluster.plugins.module_utils.collective import encode
from ansible_collections.muster.cluster.plugins.module_utils.host import Output

GROUP = ("gpu-01", "gpu-02")
SETTINGS = collective_job.Settings(
    "acceptance", "/usr/bin/python3", "/usr/libexec/muster/muster", "gloo", 1, (64, 128), 2, 1, 90, 30
)
STATES = {"gpu-01": "idle", "gpu-02": "idle"}


def record(rank: int, **change: Any) -> dict[str, Any]:
    sizes = [{"bytes": size, "seconds": [0.5, 0.6], "correct": True, "wrong": 0} for size in (64, 128)]
    return {"node": GROUP[rank], "rank": rank, "sizes": sizes, "error": "", "phase": "end", **change}


def lines(*records: dict[str, Any]) -> str:
    return "".join(encode(item) + "\n" for item in records)


def test_complete_output_is_ok() -> None:
    seen = collective_job.observe(GROUP, SETTINGS, Output(lines(record(1), record(0)), "", 0), STATES)
    assert seen["ok"]
    assert seen["error"] == ""
    assert [rank["node"] for rank in seen["ranks"]] == list(GROUP)
    assert seen["missing"] == []


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"torch": "2.6.0+cpu", "nccl": "2.21.5"}, {"torch": "2.6.0+cpu", "nccl": "2.21.5"}),
        ({"torch": 2, "nccl": ["2.21.5"], "other": "1"}, {}),
        ({"torch": "2" * 1000}, {"torch": "2" * 80}),
        ("2.6.0", {}),
        (None, {}),
    ],
)
def test_versions_of_a_rank_are_kept(said: Any, kept: dict[str, str]) -> None:
    output = Output(lines(record(0, versions=said), record(1)), "", 0)
    seen = collective_job.observe(GROUP, SETTINGS, output, STATES)
    assert [rank["versions"] for rank in seen["ranks"]] == [kept, {}]
    assert seen["ok"]


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (Output("", "", 0), "no result from gpu-01, gpu-02"),
        (Output(lines(record(0)), "", 0), "no result from gpu-02"),
        (Output(lines(record(0), record(1)), "boom\n", 1), "srun ended with 1: boom"),
        (Output(lines(record(0), record(1)), "", None), "not finished after 90 s, cancelled"),
        (Output(lines(record(0), record(1))[:-20], "", 0), "cut or mixed"),
        (Output(lines(record(0), record(0)), "", 0), "rank 0 on 'gpu-01' that nobody asked for"),
        (Output(lines(record(0), record(1, node="gpu-09")), "", 0), "'gpu-09' that nobody asked for"),
        (Output(lines(record(0), record(1, error="TimeoutError")), "", 0), "rank 1 on gpu-02: TimeoutError"),
        (Output(lines(record(0), record(1, sizes=[])), "", 0), "sizes [], expected [64, 128]"),
        (Output(lines(record(0), record(1, sizes=None)), "", 0), "sizes [], expected [64, 128]"),
    ],
)
def test_anything_less_is_an_error(output: Output, error: str) -> None:
    seen = collective_job.observe(GROUP, SETTINGS, output, STATES)
    assert not seen["ok"]
    assert error in seen["error"]


@pytest.mark.parametrize(
    ("size", "error"),
    [
        ({"seconds": [0.5]}, "1 iterations of 128 bytes, expected 2"),
        ({"seconds": [0.5, 0.0]}, "unreadable measurement"),
        ({"seconds": [0.5, "fast"]}, "unreadable measurement"),
        ({"seconds": [0.5, 1e400]}, "unreadable measurement"),
        ({"bytes": "128"}, "unreadable measurement"),
        ({"correct": False, "wrong": 7}, "rank 1 on gpu-02: 7 wrong elements in 128 bytes"),
        ({"correct": None}, "wrong elements in 128 bytes"),
    ],
)
def test_one_wrong_measurement_is_an_error(size: dict[str, Any], error: str) -> None:
    bad = record(1)
    bad["sizes"][1].update(size)
    seen = collective_job.observe(GROUP, SETTINGS, Output(lines(record(0), bad), "", 0), STATES)
    assert not seen["ok"]
    assert error in seen["error"]


@pytest.mark.parametrize(
    ("stderr", "states"),
    [
        ("srun: error: Task launch for StepId=7.0 failed on node gpu-02: Communication connection failure\n", STATES),
        ("", {**STATES, "gpu-02": "down*"}),
        ("", {**STATES, "gpu-02": "idle*"}),
    ],
)
def test_node_that_slurm_lost_is_unavailable_rather_than_slow(stderr: str, states: dict[str, str]) -> None:
    seen = collective_job.observe(GROUP, SETTINGS, Output(lines(record(0)), stderr, 1), states)
    assert list(seen["unavailable"]) == ["gpu-02"]


def test_node_that_answered_is_never_unavailable() -> None:
    stderr = "srun: error: Task launch for StepId=7.0 failed on node gpu-02: Communication connection failure\n"
    seen = collective_job.observe(GROUP, SETTINGS, Output(lines(record(0), record(1)), stderr, 1), STATES)
    assert seen["unavailable"] == {}


def test_srun_gets_the_whole_nodes_and_every_setting() -> None:
    job = slurm_round.Job("muster-round-c-3-0", GROUP, {"gpu-01": "10.0.0.1", "gpu-02": "10.0.0.2"}, 29401)
    argv = SETTINGS.argv(job)
    assert argv[0] == "srun"
    assert {
        "--exclusive",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--nodelist=gpu-01,gpu-02",
        "--time=3",
    } <= set(argv)
    assert argv[argv.index("collective") - 2 :][:2] == ["/usr/bin/python3", "/usr/libexec/muster/muster"]
    assert "--addresses=gpu-01=10.0.0.1,gpu-02=10.0.0.2" in argv


def test_states_and_unusable_nodes() -> None:
    states = slurm_round.parse_states(
        "gpu-01|idle\ngpu-02|drained\ngpu-03|completing\ngpu-06|planned\ngpu-04|down*\nnonsense\n"
    )
    unusable = slurm_round.unavailable_nodes([f"gpu-0{number}" for number in range(1, 7)], states)
    assert unusable == {"gpu-02": "drained", "gpu-04": "down*", "gpu-05": "unknown to the partition"}


def test_only_jobs_of_the_campaign_are_left_over() -> None:
    jobs = "7|muster-round-abc-1-0\n8|muster-round-abd-1-0\n9|somebody\n10|muster-round-abc-2-1\n"
    assert slurm_round.parse_jobs(jobs, "abc") == ["7", "10"]
