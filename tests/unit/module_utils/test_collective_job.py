"""What srun's output says about a group: only whole, correct and complete output is ok."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import unpack_spec
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.host_lists import expand
from ansible_collections.muster.cluster.plugins.module_utils.rounds import collective_job, slurm_round
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_job import RoundJob
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import pack

GROUP = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
WALK = {
    **{"name": "walk", "kind": "pairs", "collective": "sendrecv", "sizes": [64, 128], "iterations": 5, "warmup": 1},
    **{"seconds": 10, "shifts": [0, 1]},
}
TOGETHER = {
    **{"name": "all", "kind": "groups", "collective": "all_reduce", "sizes": [64], "iterations": 5, "warmup": 1},
    **{"seconds": 10, "groups": [[0, 1, 2, 3]]},
}
TRAIN = {"name": "train", "kind": "train", "hidden": 8, "layers": 2, "steps": 3, "warmup": 1, "seconds": 10}
PROGRAM = {"moves": [WALK, TOGETHER, TRAIN]}
CODEC = collective_job.CollectiveCodec(
    "/usr/bin/python3", "/usr/libexec/muster/muster", "gloo", 1, PROGRAM, 30, ("eth0",)
)
STATES = dict.fromkeys(GROUP, "idle")
LINKS: dict[str, Any] = {"eth0": {}}
TIMED_OUT = "not finished after 10 s, stuck in walk, step 1 (waiting for others in it)"
CLOSED = "RuntimeError in phase walk: Connection closed by peer [10.0.0.3]:1234"


def results() -> dict[str, Any]:
    return {
        "walk": {"ns": [500, 900, 510, 910], "ns_p99": [600, 950, 610, 960], "wrong": [0, 0, 0, 0]},
        "all": {"ns": [700], "ns_p99": [800], "wrong": [0], "last": [2]},
        "train": {"ns": [900], "ns_p99": [901], "wrong": [0], "last": [1], "compute_ns": [400], "bytes": 4096},
    }


def record(at: int, **change: Any) -> dict[str, Any]:
    base = {"node": GROUP[at], "rank": at, "local_rank": 0, "ranks": 4, "error": "", "phase": "end"}
    return {**base, "results": results(), "stalls": {}, "links": LINKS, **change}


def stuck(rank: int, stood: list[Any], error: str) -> dict[str, Any]:
    walked = {key: values[:2] for key, values in results()["walk"].items()}
    return record(rank, results={"walk": walked}, phase="phase walk", error=error, stood=stood)


def lines(*records: dict[str, Any]) -> str:
    return "".join(pack(item) for item in records)


def argv_of(job: slurm_round.Job, **change: Any) -> list[str]:
    return RoundJob("acceptance", 8, 90, replace(CODEC, **change)).argv(job)


def observe(
    group: Sequence[str], codec: collective_job.CollectiveCodec, output: Output, states: Mapping[str, str]
) -> dict[str, Any]:
    return RoundJob("acceptance", 8, 90, codec).observe(group, output, states)


def seen_of(*records: dict[str, Any], rc: int | None = 0, stderr: str = "") -> dict[str, Any]:
    return observe(GROUP, CODEC, Output(lines(*records), stderr, rc), STATES)


def whole() -> list[dict[str, Any]]:
    return [record(rank) for rank in (2, 0, 3, 1)]


def test_complete_output_is_ok() -> None:
    seen = seen_of(*whole())
    assert (seen["ok"], seen["error"], seen["missing"], "reached" in seen) == (True, "", [], False)
    assert [rank["node"] for rank in seen["ranks"]] == list(GROUP)
    assert [(each["move"], each["step"], each["bytes"]) for each in seen["results"]] == [
        ("walk", 0, 64),
        ("walk", 0, 128),
        ("walk", 1, 64),
        ("walk", 1, 128),
        ("all", 0, 64),
        ("train", 0, 4096),
    ]
    assert seen["results"][1] == {
        **{"move": "walk", "step": 0, "bytes": 128, "ns": [[900]] * 4, "ns_p99": [[950]] * 4, "wrong": {}}
    }
    assert seen["results"][4]["last"] == dict.fromkeys(GROUP, 2)
    assert seen["results"][5]["compute_ns"] == [[400]] * 4


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
    seen = seen_of(record(0, versions=said), *(record(rank) for rank in (1, 2, 3)))
    assert [rank["versions"] for rank in seen["ranks"]] == [kept, {}, {}, {}]
    assert seen["ok"]


def test_what_ranks_lost_and_what_links_did_becomes_the_groups() -> None:
    waited = {"walk": {"waited": [[0, 64, 2, 90_000_000]]}}
    flapped = {"eth0": {"eth0": [2, 4]}}
    # In permutation 0 the first meets the last.
    answers = (record(0, stalls=waited), record(1, links=flapped), record(2), record(3, stalls=waited))
    seen = seen_of(*answers)
    assert seen["ok"], seen["error"]
    assert seen["stalls"] == [{"move": "walk", "nodes": ["gpu-01", "gpu-04"], "meetings": 10, "lost_ns": [90_000_000]}]
    assert seen["links"] == {"gpu-02": [flapped]}


def test_node_whose_first_rank_is_silent_told_nothing_of_its_links() -> None:
    codec = replace(CODEC, tasks_per_node=2)
    answers = [
        record(0, node=node, rank=2 * at + local, local_rank=local)
        for at, node in enumerate(GROUP)
        for local in range(2)
        if (node, local) != ("gpu-03", 0)
    ]
    seen = observe(GROUP, codec, Output(lines(*answers), "", 1), STATES)
    assert (seen["missing"], seen["links"]) == ([], {"gpu-03": []})


@pytest.mark.parametrize(
    ("key", "told", "error"),
    [
        ("stalls", None, "unreadable stalls None"),
        ("stalls", {"walk": {"waited": [[0, 64]]}}, "an unreadable stall [0, 64]"),
        ("links", None, "links: found nothing, expected a mapping"),
        ("links", {}, "nothing told of the links of eth0"),
        ("links", {"eth0": {"eth0": [2]}}, "links.eth0.eth0"),
        ("links", {"eth0": {"eth0": [2, -1]}}, "links.eth0.eth0[1]"),
        ("links", {"eth0": [2, 2]}, "links.eth0"),
    ],
)
def test_rank_that_does_not_tell_of_stalls_or_links_gave_no_whole_answer(key: str, told: Any, error: str) -> None:
    seen = seen_of(record(0), record(1, **{key: told}), record(2), record(3))
    assert not seen["ok"]
    assert error in seen["error"]


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (Output("", "", 0), "no result from gpu-01, gpu-02, gpu-03, gpu-04"),
        (Output(lines(*whole()[1:]), "", 0), "no result from gpu-03"),
        (Output(lines(*whole()), "boom\n", 1), "srun ended with 1: boom"),
        (Output(lines(*whole()), "", None), "not finished after 90 s, cancelled"),
        (Output(lines(*whole())[:-20], "", 0), "cut or mixed"),
        (Output(lines(*whole(), record(0)), "", 0), "came twice"),
        (Output(lines(*whole(), record(0, rank=1, node="gpu-01")), "", 0), "rank 1 on 'gpu-01' that nobody asked for"),
        (Output(lines(*whole()[1:], record(2, node="gpu-09")), "", 0), "'gpu-09' that nobody asked for"),
        (Output(lines(*whole()[1:], record(2, rank=7)), "", 0), "rank 7 on 'gpu-03' that nobody asked for"),
        (Output(lines(*whole()[1:], record(2, local_rank=1)), "", 0), "that nobody asked for"),
        (Output(lines(*whole()[1:], record(2, error="OSError")), "", 0), "gpu-03 rank 2: OSError"),
        (Output(lines(*whole()[1:], record(2, phase="phase all")), "", 0), "ended early without saying why"),
        (Output(lines(*whole()[1:], record(2, results=None)), "", 0), "results that are NoneType"),
        (Output(lines(*whole()[1:], record(2, results={})), "", 0), "no results of walk"),
    ],
)
def test_anything_less_is_an_error(output: Output, error: str) -> None:
    seen = observe(GROUP, CODEC, output, STATES)
    assert not seen["ok"]
    assert error in seen["error"]


@pytest.mark.parametrize(
    ("phase", "key", "values", "error"),
    [
        ("walk", "ns", [500, 900, 510], "3 measurements, expected 4"),
        ("walk", "ns", [500, 900, 510, 910, 1], "expected 4"),
        ("walk", "ns", [500, 900, 510, 0], "measurement 3: unreadable ns 0"),
        ("walk", "ns", [500, 900, 510, None], "measurement 3: unreadable ns None"),
        ("walk", "ns", [500, 900, 510, float("nan")], "measurement 3: unreadable ns nan"),
        ("walk", "ns", [500, 900, 510, True], "measurement 3: unreadable ns True"),
        ("walk", "ns", [500, 900, 510, 1e3], "measurement 3: unreadable ns 1000.0"),
        ("walk", "ns", [500, 900, 510, 10**20], "measurement 3: unreadable ns 1"),
        ("walk", "ns", "fast", "unreadable measurements"),
        ("walk", "ns_p99", [600, 950, 610, 900], "took 900 ns, less than the median of 910 ns"),
        ("walk", "wrong", [0, 0, 0, -1], "unreadable wrong -1"),
        ("all", "last", [6], "the slowest in 6 of 5 iterations"),
        ("train", "bytes", None, "gradients of None bytes"),
        ("train", "compute_ns", [0], "unreadable compute_ns 0"),
    ],
)
def test_one_wrong_measurement_is_an_error(phase: str, key: str, values: Any, error: str) -> None:
    bad = record(1)
    bad["results"][phase][key] = values
    seen = seen_of(record(0), bad, record(2), record(3))
    assert not seen["ok"]
    assert error in seen["error"]
    assert "gpu-02 rank 1" in seen["error"]


def test_results_that_nobody_asked_for_are_an_error() -> None:
    assert "results of more, which nobody" in seen_of(record(0, results={**results(), "more": {}}))["error"]


def test_wrong_data_names_the_rank_that_received_it() -> None:
    bad = record(2, error="7 wrong elements")
    bad["results"]["walk"]["wrong"] = [0, 7, 0, 0]
    seen = seen_of(record(0), record(1), bad, record(3))
    assert not seen["ok"]
    assert "gpu-03 rank 2: 7 wrong elements" in seen["error"]
    assert [each["wrong"] for each in seen["results"][:3]] == [{}, {"gpu-03": [0]}, {}]
    assert "reached" not in seen


def test_node_that_sits_out_has_no_number() -> None:
    group = GROUP[:3]
    codec = replace(CODEC, program={"moves": [{**WALK, "sizes": [64], "shifts": [0, 2]}]})
    rows = [[None, 510], [500, 510], [500, None]]
    records = [
        record(rank, ranks=3, results={"walk": {"ns": row, "ns_p99": row, "wrong": [each and 0 for each in row]}})
        for rank, row in enumerate(rows)
    ]
    seen = observe(group, codec, Output(lines(*records), "", 0), STATES)
    assert seen["ok"], seen["error"]
    assert [each["ns"] for each in seen["results"]] == [[None, [500], [500]], [[510], [510], None]]

    records[0]["results"]["walk"]["ns"][0] = 500
    seen = observe(group, codec, Output(lines(*records), "", 0), STATES)
    assert "walk: measurement 0: took no part" in seen["error"]


def test_hang_tells_who_was_absent_and_who_waited_and_keeps_what_was_measured() -> None:
    # In permutation 1 gpu-03 is stopped; its partner's time runs out, the other two have gone on to wait for all.
    seen = seen_of(
        stuck(0, ["walk", 1, "meeting"], TIMED_OUT),
        stuck(1, ["all", 0, "gathering"], f"told to stop: rank 0 on gpu-01: {TIMED_OUT}"),
        stuck(3, ["all", 0, "gathering"], f"told to stop: rank 0 on gpu-01: {TIMED_OUT}"),
        rc=137,
    )
    assert not seen["ok"]
    assert seen["missing"] == ["gpu-03"]
    assert seen["reached"] == {"gpu-01": ["walk", 1, "arrived"], "gpu-03": ["walk", 1, "absent"]}
    assert seen["error"].startswith("ended early in walk, step 1: absent gpu-03")
    assert [(each["step"], each["bytes"], each["ns"]) for each in seen["results"]] == [
        (0, 64, [[500], [500], None, [500]]),
        (0, 128, [[900], [900], None, [900]]),
    ]


def test_hang_at_the_beginning_of_a_permutation_is_that_of_who_did_not_come() -> None:
    seen = seen_of(
        *(stuck(rank, ["walk", 1, "gathering"], TIMED_OUT) for rank in (0, 1, 3)),
        rc=137,
    )
    assert seen["reached"] == {"gpu-03": ["walk", 1, "absent"]}


def test_pair_that_both_came_and_neither_went_on() -> None:
    seen = seen_of(
        stuck(0, ["walk", 1, "meeting"], TIMED_OUT),
        stuck(2, ["walk", 1, "meeting"], f"told to stop: rank 0 on gpu-01: {TIMED_OUT}"),
        *(stuck(rank, ["all", 0, "gathering"], f"told to stop: rank 0 on gpu-01: {TIMED_OUT}") for rank in (1, 3)),
    )
    assert seen["reached"] == {"gpu-01": ["walk", 1, "arrived"], "gpu-03": ["walk", 1, "arrived"]}


def test_who_was_busy_with_itself_when_time_ran_out_was_absent() -> None:
    seen = seen_of(
        stuck(0, ["walk", 1, "meeting"], TIMED_OUT),
        stuck(2, ["walk", 1, "own"], f"told to stop: rank 0 on gpu-01: {TIMED_OUT}"),
        *(stuck(rank, ["all", 0, "gathering"], f"told to stop: rank 0 on gpu-01: {TIMED_OUT}") for rank in (1, 3)),
    )
    assert seen["reached"] == {"gpu-01": ["walk", 1, "arrived"], "gpu-03": ["walk", 1, "absent"]}


def test_node_that_dies_leaves_those_in_the_middle_of_theirs_alone() -> None:
    seen = seen_of(
        stuck(0, ["walk", 1, "meeting"], CLOSED),
        stuck(1, ["walk", 1, "meeting"], f"told to stop: rank 0 on gpu-01: {CLOSED}"),
        stuck(3, ["walk", 1, "own"], f"told to stop: rank 0 on gpu-01: {CLOSED}"),
        rc=137,
    )
    assert seen["reached"] == {"gpu-01": ["walk", 1, "arrived"], "gpu-03": ["walk", 1, "absent"]}


def test_rank_that_fails_by_itself_was_absent() -> None:
    error = "RuntimeError in phase walk: CUDA error: uncorrectable ECC error encountered"
    seen = seen_of(
        stuck(2, ["walk", 1, "own"], error),
        *(stuck(rank, ["walk", 1, "meeting"], f"told to stop: rank 2 on gpu-03: {error}") for rank in (0, 1, 3)),
    )
    assert seen["reached"] == {"gpu-03": ["walk", 1, "absent"]}


def test_rendezvous_that_one_misses() -> None:
    error = "DistStoreError in rendezvous: Timed out after 31 seconds waiting for clients. 3/4 clients joined."
    seen = seen_of(*(record(rank, results={}, phase="rendezvous", error=error) for rank in (0, 1, 3)))
    assert seen["reached"] == {"gpu-03": ["walk", 0, "absent"]}
    assert seen["results"] == []


def test_silent_group_reached_nothing() -> None:
    assert "reached" not in seen_of(rc=None)


@pytest.mark.parametrize(
    ("stderr", "states"),
    [
        ("srun: error: Task launch for StepId=7.0 failed on node gpu-02: Communication connection failure\n", STATES),
        ("", {**STATES, "gpu-02": "down*"}),
        ("", {**STATES, "gpu-02": "idle*"}),
    ],
)
def test_node_that_slurm_lost_is_unavailable_rather_than_slow(stderr: str, states: dict[str, str]) -> None:
    output = Output(lines(record(0), record(2), record(3)), stderr, 1)
    seen = observe(GROUP, CODEC, output, states)
    assert list(seen["unavailable"]) == ["gpu-02"]


def test_step_that_outlived_a_node_is_read_as_far_as_it_came() -> None:
    # srun itself ends with 0: of the tasks on a failed node it knows no exit status.
    stderr = "srun: error: Node failure on gpu-03\n"
    answers = lines(*(record(rank) for rank in (0, 1, 3)))
    seen = observe(GROUP, CODEC, Output(answers, stderr, 0), {**STATES, "gpu-03": "down*"})
    assert (seen["ok"], seen["missing"], list(seen["unavailable"])) == (False, ["gpu-03"], ["gpu-03"])
    assert seen["results"][0]["ns"] == [[500], [500], None, [500]]


def test_ranks_that_slurm_ended_neither_arrived_nor_were_absent() -> None:
    ended = "told to stop: Slurm ended the step, in walk, step 1 (waiting for others in it)"
    answers = lines(*(stuck(rank, ["walk", 1, "meeting"], ended) for rank in (0, 1, 3)))
    seen = observe(GROUP, CODEC, Output(answers, "", 143), {**STATES, "gpu-03": "down*"})
    assert list(seen["unavailable"]) == ["gpu-03"]
    assert seen["reached"] == {"gpu-03": ["walk", 1, "absent"]}
    assert [each["step"] for each in seen["results"]] == [0, 0]


def test_node_that_answered_is_never_unavailable() -> None:
    stderr = "srun: error: Task launch for StepId=7.0 failed on node gpu-02: Communication connection failure\n"
    assert seen_of(*whole(), stderr=stderr, rc=1)["unavailable"] == {}


def test_srun_gets_the_whole_nodes_and_every_setting() -> None:
    job = slurm_round.Job("muster-round-c-3-0", GROUP, {"gpu-01": "10.0.0.1", "gpu-02": "10.0.0.2"}, 29401)
    argv = argv_of(job)
    assert argv[0] == "srun"
    assert {
        "--exclusive",
        "--nodes=4",
        "--gres=gpu:8",
        "--ntasks=4",
        "--ntasks-per-node=1",
        "--nodelist=gpu-[01-04]",
        "--time=3",
        "--port=29401",
        # When Slurm loses a node, or a rank fails, the others go on.
        "--no-kill",
        "--kill-on-bad-exit=0",
    } <= set(argv)
    assert argv[argv.index("collective") - 2 :][:2] == ["/usr/bin/python3", "/usr/libexec/muster/muster"]
    assert not [word for word in argv if word.startswith("--container")]
    assert [word for word in argv if word.startswith("--wait=")][-1] == "--wait=15"
    spec = unpack_spec([word[len("--spec=") :] for word in argv if word.startswith("--spec=")])
    assert spec["program"] == PROGRAM
    assert spec["nodes"] == [["gpu-01", "10.0.0.1"], ["gpu-02", "10.0.0.2"], ["gpu-03", ""], ["gpu-04", ""]]


def test_no_gpus_are_asked_of_a_slurm_that_knows_of_none() -> None:
    job = slurm_round.Job("muster-round-c-3-0", GROUP, {}, 29401)
    assert not [word for word in RoundJob("acceptance", 0, 90, CODEC).argv(job) if word.startswith("--gres")]


def test_srun_ends_nobody_that_still_waits_for_a_rank_that_is_gone() -> None:
    job = slurm_round.Job("muster-round-c-3-0", GROUP, {}, 29401)
    argv = argv_of(job, backend="nccl")
    # Ten seconds are the longest that its program lets one wait for others.
    assert [word for word in argv if word.startswith("--wait=")][-1] == "--wait=30"


def test_container_is_asked_for_before_the_program() -> None:
    job = slurm_round.Job("muster-round-c-3-0", GROUP, {}, 29401)
    argv = argv_of(job, container="docker://nvcr.io#nvidia/pytorch:25.01-py3")
    at = argv.index("--container-image=docker://nvcr.io#nvidia/pytorch:25.01-py3")
    assert at < argv.index("/usr/bin/python3")
    assert argv[at + 1] == "--container-mounts=/usr/libexec/muster/muster:/usr/libexec/muster/muster:ro"


def test_states_and_unusable_nodes() -> None:
    states = slurm_round.parse_states(
        "gpu-01|idle\ngpu-02|drained\ngpu-03|completing\ngpu-06|planned\ngpu-04|down*\nnonsense\n"
    )
    unusable = slurm_round.unavailable_nodes([f"gpu-0{number}" for number in range(1, 7)], states)
    assert unusable == {"gpu-02": "drained", "gpu-04": "down*", "gpu-05": "unknown to the partition"}


def test_only_jobs_of_the_campaign_are_left_over() -> None:
    jobs = "7|muster-round-abc-1-0\n8|muster-round-abd-1-0\n9|somebody\n10|muster-round-abc-2-1\n"
    assert slurm_round.parse_jobs(jobs, "abc") == ["7", "10"]


def test_arguments_of_thousands_of_nodes_fit_a_command_line() -> None:
    group = tuple(f"gpu-{number:04d}" for number in range(3072))
    addresses = {node: f"10.{64 + number // 256}.{number % 256}.11" for number, node in enumerate(group)}
    pairs = [[[index, 1536 + (index + 97 * step) % 1536] for index in range(1536)] for step in range(8)]
    confirm = {key: value for key, value in WALK.items() if key != "shifts"}
    program = {"moves": [{**WALK, "shifts": list(range(0, 3071, 48))}, {**confirm, "name": "b", "pairs": pairs}]}
    argv = argv_of(slurm_round.Job("j", group, addresses, 29401), program=program)
    assert max(map(len, argv)) < 128 * 1024
    assert sum(map(len, argv)) < 512 * 1024


@pytest.mark.parametrize("name", ["gpu-{0:05d}", "su{1:03d}-dgx-{0:05d}", "g{0:d}"])
def test_one_job_of_twelve_thousand_nodes_fits_a_command_line(name: str) -> None:
    # Every second one of 25,000: no two of the numbers are a range. Linux takes 128 KiB in one argument.
    group = tuple(name.format(number, number // 64) for number in range(1, 25_000, 2))
    assert len(group) == 12_500
    addresses = {node: f"10.{number // 250}.{number % 250}.11" for number, node in enumerate(group)}
    argv = argv_of(slurm_round.Job("j", tuple(reversed(group)), addresses, 29401), program={"moves": [WALK]})
    assert max(len(word.encode()) for word in argv) < 128 * 1024
    (nodes,) = [word for word in argv if word.startswith("--nodelist=")]
    assert expand(nodes.partition("=")[2]) == list(group)


def test_names_that_slurm_cannot_fold_and_linux_not_take_are_named_before_srun_is_started() -> None:
    group = tuple(f"gpu-{number:05d}.cluster.example.com" for number in range(12_500))
    with pytest.raises(slurm_round.SlurmError, match=r"the names of 12500 nodes are 374999 bytes .*at most 131072"):
        argv_of(slurm_round.Job("j", group, {}, 29401), program={"moves": [WALK]})


@pytest.mark.parametrize("nodes", [128])
def test_answers_of_many_ranks_become_one_observation(nodes: int) -> None:
    group = tuple(f"gpu-{number:04d}" for number in range(nodes))
    codec = replace(CODEC, tasks_per_node=8, program={"moves": [{**WALK, "shifts": list(range(32))}]})
    row = list(range(6_000_000, 6_000_064))
    walked = {"ns": row, "ns_p99": row, "wrong": [0] * 64}
    text = lines(
        *(
            record(0, node=node, rank=8 * number + local, local_rank=local, results={"walk": walked})
            for number, node in enumerate(group)
            for local in range(8)
        )
    )
    tracemalloc.start()
    seen = observe(group, codec, Output(text, "", 0), {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seen["ok"], seen["error"]
    assert len(seen["results"]) == 64
    assert seen["results"][3]["ns"][nodes - 1] == [6_000_003] * 8
    assert len(json.dumps(seen["results"])) < 100 * nodes * 64 * 2
    assert peak < 50 * 2**20
