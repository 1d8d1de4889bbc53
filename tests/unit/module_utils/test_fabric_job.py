"""What srun's output says about a group of a fabric round: only whole answers of whole walks are ok."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.rail_counters import growth, parse_ethtool
from ansible_collections.muster.cluster.plugins.module_utils.rounds.fabric_job import FabricCodec
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_job import RoundJob
from ansible_collections.muster.cluster.plugins.module_utils.rounds.slurm_round import Job
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import pack, unpack

GROUP = ("gpu-01", "gpu-02")
NODES = {node: {"address": f"10.0.0.{index}", "rails": {}} for index, node in enumerate((*GROUP, "gpu-03"), 1)}
WORK = RoundJob("acceptance", 8, 90, FabricCodec("/usr/libexec/muster/muster", NODES, {"rails": []}, 30))
TEST = {
    **{"phase": "single", "tool": "ib_write_bw", "rail": "rail0", "server": "gpu-02", "client": "gpu-01"},
    **{"value": 391.5, "bytes": 1, "error": ""},
}


def answer(node: str, **change: Any) -> dict[str, Any]:
    counters = {"rail0": {"single": {"grown": {"out_of_sequence": 3}, "missing": []}}}
    told = {"tests": [TEST], "servers": [], "counters": counters, "links": {}}
    return {"node": node, "rank": 0, "error": "", **told, **change}


WHOLE = pack(answer("gpu-01")) + pack(answer("gpu-02"))


def test_whole_answers_are_ok() -> None:
    seen = WORK.observe(GROUP, Output(WHOLE, "", 0), {})
    assert (seen["ok"], seen["error"], seen["missing"]) == (True, "", [])
    assert [each["node"] for each in seen["answers"]] == list(GROUP)


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (Output("", "", 0), "no result from gpu-01, gpu-02"),
        (Output(pack(answer("gpu-01")), "", 0), "no result from gpu-02"),
        (Output(WHOLE, "boom", 1), "srun ended with 1: boom"),
        (Output(WHOLE, "", None), "not finished after 90 s, cancelled"),
        (Output(WHOLE[:-40], "", 0), "cut or mixed"),
        (Output(WHOLE + pack(answer("gpu-02")), "", 0), "came twice"),
        (Output(WHOLE + pack(answer("gpu-03")), "", 0), "an answer of 'gpu-03' that nobody asked for"),
        (Output(pack(answer("gpu-01", error="hung")) + pack(answer("gpu-02")), "", 1), "gpu-01: hung"),
        (
            Output(pack(answer("gpu-01", tests="?")) + pack(answer("gpu-02")), "", 0),
            'cannot be read: tests: found "?", expected a list',
        ),
        (Output(pack(answer("gpu-01", tests=[{}])) + pack(answer("gpu-02")), "", 0), "tests[0].phase: found nothing"),
        (Output(pack(answer("gpu-01", counters={"rail0": {"single": 1}})) + WHOLE, "", 0), "came twice"),
    ],
)
def test_anything_less_is_not_ok(output: Output, error: str) -> None:
    seen = WORK.observe(GROUP, output, {})
    assert not seen["ok"]
    assert error in seen["error"]


def test_node_that_slurm_lost_is_unavailable() -> None:
    seen = WORK.observe(GROUP, Output(pack(answer("gpu-01")), "", 1), {"gpu-01": "idle", "gpu-02": "down*"})
    assert seen["unavailable"] == {"gpu-02": "down*"}


def test_answer_of_any_size_goes_in_lines_that_srun_keeps_whole() -> None:
    large = answer("gpu-01", tests=[{**TEST, "error": f"{number * 7919 % 10007}" * 9} for number in range(300)])
    text = pack(large)
    assert max(map(len, text.splitlines())) < 1024
    assert unpack(text) == ([large], [])
    mixed = text.splitlines(keepends=True)
    assert unpack("".join(reversed(mixed))) == ([large], [])
    assert unpack("".join(mixed[1:]))[0] == []


def test_job_gets_its_own_nodes_alone() -> None:
    argv = WORK.argv(Job("j", GROUP, {}, 28300))
    spec = json.loads(next(word for word in argv if word.startswith("--spec=")).partition("=")[2])
    assert sorted(spec["nodes"]) == list(GROUP)
    assert "--ntasks-per-node=1" in argv


def test_counter_that_is_missing_or_went_back_did_not_just_stay() -> None:
    found = growth(["a", "b", "c", "d"], {"a": 1, "b": 5, "c": 3}, {"a": 4, "b": 5, "c": 2, "d": 1})
    assert found == {"grown": {"a": 3}, "missing": ["c", "d"]}


def test_priorities_are_read_from_ethtool() -> None:
    text = "NIC statistics:\n  rx_packets: 7\n  rx_prio3_bytes: 1024\n  tx_prio3_pause: 5\n  tx_prio3_bytes: x\n"
    assert parse_ethtool(text) == {"rx_prio3_bytes": 1024, "tx_prio3_pause": 5}
