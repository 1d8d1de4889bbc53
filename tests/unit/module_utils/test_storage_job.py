"""What srun's output says about the nodes of a storage round: only whole answers of whole ways are ok."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_job import RoundJob
from ansible_collections.muster.cluster.plugins.module_utils.rounds.slurm_round import Job
from ansible_collections.muster.cluster.plugins.module_utils.rounds.storage_job import StorageCodec
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import pack

from tests.unit.plugin_utils.storage.test_rounds import answer

GROUP = ("gpu-01", "gpu-02")
WORK = RoundJob("acceptance", 8, 600, StorageCodec("/usr/libexec/muster/muster", {"ranks": 8}, 120))


def whole(node: str, **change: Any) -> str:
    return pack(answer(node, GROUP[node == GROUP[0]], **change))


WHOLE = whole("gpu-01") + whole("gpu-02")


def test_whole_answers_are_ok() -> None:
    seen = WORK.observe(GROUP, Output(WHOLE, "", 0), {})
    assert (seen["ok"], seen["error"], seen["missing"]) == (True, "", [])
    assert [each["node"] for each in seen["answers"]] == list(GROUP)


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (Output("", "", 0), "no result from gpu-01, gpu-02"),
        (Output(whole("gpu-01"), "", 0), "no result from gpu-02"),
        (Output(WHOLE, "boom", 1), "srun ended with 1: boom"),
        (Output(WHOLE, "", None), "not finished after 600 s, cancelled"),
        (Output(WHOLE[:-40], "", 0), "cut or mixed"),
        (Output(WHOLE + whole("gpu-02"), "", 0), "came twice"),
        (Output(WHOLE + whole("gpu-03"), "", 0), "an answer of 'gpu-03' that nobody asked for"),
        (Output(whole("gpu-01", error="stuck") + whole("gpu-02"), "", 1), "gpu-01: stuck"),
        (
            Output(whole("gpu-01", write=3) + whole("gpu-02"), "", 0),
            "gpu-01: an answer that cannot be read: write: found 3",
        ),
        (
            Output(whole("gpu-01", write={"bytes": 1}) + whole("gpu-02"), "", 0),
            "write.seconds: found nothing, expected a number",
        ),
        (
            Output(whole("gpu-01", read={"of": "x"}) + whole("gpu-02"), "", 0),
            "read.wrong: found nothing, expected a value",
        ),
        (Output(whole("gpu-01", blocked=None) + whole("gpu-02"), "", 0), "blocked: found nothing, expected a list"),
    ],
)
def test_anything_less_is_not_ok(output: Output, error: str) -> None:
    seen = WORK.observe(GROUP, output, {})
    assert not seen["ok"]
    assert error in seen["error"]


def test_read_that_was_not_possible_says_why_instead() -> None:
    text = whole("gpu-01", read={"of": "gpu-02", "error": "gpu-02 was lost"}) + whole("gpu-02")
    assert WORK.observe(GROUP, Output(text, "", 0), {})["ok"]


def test_node_that_slurm_lost_is_unavailable() -> None:
    seen = WORK.observe(GROUP, Output(whole("gpu-01"), "", 1), {"gpu-01": "idle", "gpu-02": "down*"})
    assert seen["unavailable"] == {"gpu-02": "down*"}


def test_job_meets_at_its_first_node_and_survives_the_loss_of_one() -> None:
    argv = WORK.argv(Job("muster-round-a-1-0-b", GROUP, {"gpu-01": "10.0.0.1"}, 27300))
    spec = json.loads(next(word for word in argv if word.startswith("--spec=")).partition("=")[2])
    assert (spec["hub"], spec["hub_address"], spec["run"]) == (
        "gpu-01",
        "10.0.0.1",
        "muster-round-a-1-0-b",
    )
    # srun takes the last word on each.
    assert argv.index("--wait=0") > argv.index("--wait=15")
    assert "--no-kill" in argv
    assert argv.index("--no-kill") < argv.index("/usr/libexec/muster/muster")
    assert "--ntasks-per-node=1" in argv
