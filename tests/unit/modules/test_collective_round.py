"""A round against stand-ins for Slurm's commands: real processes, real deadlines, no cluster."""

from __future__ import annotations

import getpass
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives import collective_program
from ansible_collections.muster.cluster.plugins.module_utils.host import host_lists
from ansible_collections.muster.cluster.plugins.module_utils.rounds.collective_job import CollectiveCodec
from ansible_collections.muster.cluster.plugins.module_utils.rounds.collective_phases import (
    CollectiveRequest,
    run_phases,
    steps,
)
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_job import RoundJob
from ansible_collections.muster.cluster.plugins.module_utils.rounds.slurm_round import (
    NO_PATIENCE,
    Job,
    Patience,
    Slurm,
    SlurmError,
    run_round,
)
from ansible_collections.muster.cluster.plugins.module_utils.words import answer_lines

from tests import nccl_tests_report
from tests.nccl_tests_report import report
from tests.run_module import run_module

ROOT = Path(__file__).resolve().parents[3]
# srun does what its nodes' names ask for; jobs are files, so that scancel can end them.
SRUN = f"""#!{sys.executable}
import os, sys, time
sys.path[:0] = {[str(ROOT / "collections"), str(ROOT)]!r}
import json
import {answer_lines.__name__} as answer_lines
import {collective_program.__name__} as program
from {host_lists.__name__} import expand
from {nccl_tests_report.__name__} import report
given = dict(word.split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
nodes, jobs = expand(given["--nodelist"]), os.environ["JOBS"]
mine = os.path.join(jobs, given["--job-name"])
if "refused" in nodes:
    sys.exit("srun: error: Unable to allocate resources: Invalid account")
open(mine, "w").write("PENDING" if "busy" in nodes else "RUNNING")
while "hang" in nodes or "busy" in nodes:
    time.sleep(0.02)
    if not os.path.exists(mine):
        sys.exit("srun: error: job was cancelled")
if any(word.endswith("_perf") for word in sys.argv):
    hosts = [os.environ.get("HOST_OF_" + node, node) for node in nodes]
    for node, host in zip(nodes, hosts) if "watch-links" in sys.argv else ():
        if node != os.environ.get("SILENT"):
            changed = dict(eth0=[2, 4]) if node == "b" else dict()
            print(answer_lines.pack(dict(node=node, host=host + ".example", links=dict(eth0=changed))), end="")
    own = os.path.join(jobs, "../nccl_tests")
    wrong = int(os.environ.get("WRONG", 0))
    print(open(own).read() if os.path.exists(own) else report(hosts, 1, dict([(64, 24.38)]), wrong=wrong))
else:
    moves = program.unpack_spec([given["--spec"]])["program"]["moves"]
    told = dict(ns=[5], ns_p99=[6], wrong=[0])
    last = dict(pairs=dict(), groups=dict(last=[1]), inside=dict(last=[1]))
    results = dict((move["name"], dict(told, **last[move["kind"]])) for move in moves)
    for rank, node in enumerate(nodes):
        answer = dict(node=node, rank=rank, local_rank=0, results=results, error="", phase="end")
        stalls = dict((move["name"], dict(waited=[[0, 64, 1, 90000000]])) for move in moves if move["kind"] != "groups")
        answer.update(stalls=stalls, links=dict(eth0=dict(eth0=[2, 4])))
        print(answer_lines.pack(answer), end="")
with open(os.path.join(jobs, "../started"), "a") as file:
    file.write(json.dumps(sys.argv[1:]) + chr(10))
with open(os.path.join(jobs, "../secrets"), "a") as file:
    file.write(os.environ.get("MUSTER_ROUND_SECRET", "") + chr(10))
os.unlink(mine)
"""
# As a user's, whose jobs are in a hidden partition. A job's file holds its states, of which each answer shows the next;
# its inode is the job's id. Other users' jobs are lines of a file of their own.
SQUEUE = f"""#!{sys.executable}
import os, sys
given = dict(word.split("=", 1) for word in sys.argv if "=" in word)
if "--user" not in given:
    others = os.path.join(os.environ["JOBS"], "../others")
    sys.exit(print(open(others).read()) if os.path.exists(others) else 0)
for name in sorted(os.listdir(os.environ["JOBS"])) if "--all" in sys.argv else ():
    path = os.path.join(os.environ["JOBS"], name)
    state, *later = open(path).read().split() or [""]
    if later:
        open(path, "w").write(" ".join(later))
    if state in given.get("--states", "PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING").split(","):
        print(name + "|Resources" if given["--format"] == "%j|%r" else str(os.stat(path).st_ino) + "|" + name)
"""
# With a user's name it takes no id of a job that has ended.
SCANCEL = f"""#!{sys.executable}
import os, sys
jobs = os.environ["JOBS"]
given = set(sys.argv[1:])
if "--state=PENDING" in given:
    sys.exit(print(*sys.argv[2:], file=open(os.path.join(jobs, "../turned_away"), "w")))
for name in os.listdir(jobs):
    path = os.path.join(jobs, name)
    number = str(os.stat(path).st_ino)
    if given.isdisjoint([number, "--name=" + name]):
        continue
    if open(path).read() in ("PENDING", "RUNNING"):
        open(path, "w").write("COMPLETING") if "stubborn" in name else os.unlink(path)
    elif not all(word.isdigit() for word in given) and number in given:
        sys.exit("scancel: error: Kill job error on job id " + number + ": Invalid job id specified")
"""
SINFO = """#!/bin/sh
for node in a b c d hang busy refused; do echo "$node|idle"; done
echo "drained|drained"
"""
MEASURE = {"sizes": [64], "iterations": 2, "warmup": 1, "seconds": 5}
WALK = {"name": "walk", "kind": "pairs", "collective": "sendrecv", **MEASURE, "shifts": [0]}
GROUPS = {"name": "all", "kind": "groups", "collective": "all_reduce", **MEASURE, "groups": [[0, 1]]}
INSIDE = {"name": "inside", "kind": "inside", "collective": "all_reduce", **MEASURE}
CODEC = CollectiveCodec("python3", "muster", "gloo", 1, {"moves": [WALK]}, 1, ("eth0",))


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    for name, text in {"srun": SRUN, "squeue": SQUEUE, "scancel": SCANCEL, "sinfo": SINFO}.items():
        tool = tmp_path / name
        tool.write_text(text)
        tool.chmod(0o755)
    (tmp_path / "jobs").mkdir()
    return Slurm(getpass.getuser(), "acceptance", {"PATH": f"{tmp_path}:/usr/bin:/bin", "JOBS": str(tmp_path / "jobs")})


def play(
    slurm: Slurm,
    *groups: tuple[str, ...],
    start_seconds: int = 20,
    deadline_seconds: int = 20,
    patience: Patience = NO_PATIENCE,
) -> list[dict[str, Any]]:
    jobs = [Job(f"muster-round-c-1-{index}", group, {}, 29400) for index, group in enumerate(groups)]
    return run_round(slurm, jobs, RoundJob("acceptance", 8, deadline_seconds, CODEC), start_seconds, patience)


def test_groups_run_at_once_and_come_back_in_order(slurm: Slurm) -> None:
    seen = play(slurm, ("a", "b"), ("c", "d"))
    assert [(each["group"], each["ok"], each["started"]) for each in seen] == [
        (["a", "b"], True, True),
        (["c", "d"], True, True),
    ]


def test_hanging_group_is_cancelled_at_its_deadline_and_others_are_unaffected(slurm: Slurm, tmp_path: Path) -> None:
    hung, fine = play(slurm, ("a", "hang"), ("c", "d"), start_seconds=6, deadline_seconds=3)
    assert fine["ok"]
    assert (hung["ok"], hung["started"], hung["missing"]) == (False, True, ["a", "hang"])
    assert "not finished after 3 s, cancelled" in hung["error"]
    assert list((tmp_path / "jobs").iterdir()) == []


def test_job_that_waits_for_its_nodes_is_cancelled_and_blames_nobody(slurm: Slurm, tmp_path: Path) -> None:
    (seen,) = play(slurm, ("a", "busy"), start_seconds=1)
    assert (seen["ok"], seen["started"]) == (False, False)
    assert seen["error"] == "not started within 1 s: Resources"
    assert list((tmp_path / "jobs").iterdir()) == []


def test_job_that_slurm_refuses_did_not_start(slurm: Slurm) -> None:
    (seen,) = play(slurm, ("a", "refused"))
    assert (seen["ok"], seen["started"], seen["unavailable"]) == (False, False, {})
    assert "Invalid account" in seen["error"]


def test_drained_node_is_not_launched_on(slurm: Slurm) -> None:
    (seen,) = play(slurm, ("a", "drained"))
    assert (seen["ok"], seen["started"], seen["unavailable"]) == (False, False, {"drained": "drained"})
    assert seen["error"] == "not started: drained is drained"


def test_node_whose_slurmd_is_on_its_way_is_waited_for(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "sinfo").write_text(f"#!/bin/sh\ncat {tmp_path}/states\necho 'a|idle\nb|idle' > {tmp_path}/states\n")
    (tmp_path / "states").write_text("a|idle\nb|unk*\n")
    (seen,) = play(slurm, ("a", "b"), start_seconds=5)
    assert seen["ok"]


def test_node_that_never_answers_is_gone(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'a|idle\nb|down*'\n")
    (seen,) = play(slurm, ("a", "b"), start_seconds=0)
    assert seen["unavailable"] == {"b": "down*"}


def left_over(tmp_path: Path, **states: str) -> list[str]:
    """Return the ids of jobs whose names end so, and of which squeue shows these states one after the other."""
    paths = [tmp_path / "jobs" / f"muster-round-{name}" for name in states]
    for path, shown in zip(paths, states.values(), strict=True):
        path.write_text(shown)
    return [str(path.stat().st_ino) for path in paths]


def test_left_over_jobs_of_the_campaign_are_cancelled_and_no_others(slurm: Slurm, tmp_path: Path) -> None:
    own, _other = left_over(tmp_path, **{"c-1-0": "RUNNING", "other-1-0": "RUNNING"})
    assert slurm.cancel("c") == [own]
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["muster-round-other-1-0"]
    assert slurm.cancel("c") == []


def test_job_that_ends_while_it_is_cancelled_is_no_error(slurm: Slurm, tmp_path: Path) -> None:
    numbers = left_over(tmp_path, **{"c-1-0": "RUNNING COMPLETING", "c-1-1": "RUNNING COMPLETING"})
    assert sorted(slurm.cancel("c")) == sorted(numbers)


def test_jobs_that_are_completing_are_neither_cancelled_nor_waited_for(slurm: Slurm, tmp_path: Path) -> None:
    # For as long as KillWait, where its processes ignore SIGTERM.
    stubborn, _over = left_over(tmp_path, **{"c-1-stubborn": "RUNNING", "c-1-over": "COMPLETING"})
    assert slurm.cancel("c") == [stubborn]
    assert slurm.cancel("c") == []


def test_group_whose_node_is_still_completing_waits_and_nothing_is_told_of_it(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'a|idle\nbusy|completing'\n")
    left_over(tmp_path, **{"c-0-0": "COMPLETING"})
    (seen,) = play(slurm, ("a", "busy"), start_seconds=1)
    assert (seen["ok"], seen["started"], seen["unavailable"]) == (False, False, {})
    assert (seen["error"], seen["missing"]) == ("not started within 1 s: Resources", ["a", "busy"])


def test_job_of_another_round_is_waited_for_until_it_is_completing(slurm: Slurm, tmp_path: Path) -> None:
    states = tmp_path / "states"
    states.write_text("".join(f"a|idle,b|{state}\n" for state in ("allocated", "allocated", "completing")))
    (tmp_path / "sinfo").write_text(f"#!/bin/sh\nsed -n '1p' {states} | tr , '\\n'\nsed -i '1{{$!d}}' {states}\n")
    # It ends between sinfo's second answer and squeue's.
    left_over(tmp_path, **{"other-1-0": "RUNNING COMPLETING"})
    (seen,) = play(slurm, ("a", "b"), start_seconds=5)
    assert seen["ok"], seen["error"]


def test_jobs_of_users_who_may_not_use_the_partition_are_cancelled_before_a_round(slurm: Slurm, tmp_path: Path) -> None:
    others = ["39|alice", "40|root", "41|bob", "41|bob", f"42|{getpass.getuser()}", ""]
    (tmp_path / "others").write_text("\n".join(others))
    assert play(slurm, ("a", "b"))[0]["ok"]
    assert (tmp_path / "turned_away").read_text().split() == ["39", "41"]


def test_nothing_is_cancelled_where_nobody_else_waits(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "others").write_text("40|root\n")
    assert play(slurm, ("a", "b"))[0]["ok"]
    assert not (tmp_path / "turned_away").exists()


def test_slurm_that_does_not_answer_is_an_error_about_slurm(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'sinfo: error: Unable to contact slurm controller' >&2\nexit 1\n")
    with pytest.raises(SlurmError, match="sinfo ended with 1: sinfo: error: Unable to contact slurm controller"):
        play(slurm, ("a", "b"))
    (tmp_path / "sinfo").unlink()
    with pytest.raises(SlurmError, match="sinfo"):
        Slurm(getpass.getuser(), "acceptance", {"PATH": str(tmp_path)}).states()


def test_partner_with_a_job_of_users_is_waited_for_in_the_queue(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'a|idle\nb|allocated'\n")
    (seen,) = play(slurm, ("a", "b"), patience=Patience(frozenset("b"), 5))
    assert seen["ok"], seen["error"]
    (seen,) = play(slurm, ("a", "b"), start_seconds=0)
    assert (seen["started"], seen["unavailable"]) == (False, {"b": "allocated"})


def test_partner_that_does_not_get_free_is_given_up(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'a|idle\nbusy|allocated'\n")
    (seen,) = play(slurm, ("a", "busy"), start_seconds=0, patience=Patience(frozenset({"busy"}), 1))
    assert (seen["started"], seen["unavailable"]) == (False, {"busy": "allocated"})
    assert seen["error"] == "not started within 1 s: Resources"
    assert list((tmp_path / "jobs").iterdir()) == []


def walk(slurm: Slurm, *phases: dict[str, Any], driver: str = "torch", container: str | None = None) -> dict[str, Any]:
    image = container, "/image/python3"
    asked = CollectiveRequest(driver, *image, "acceptance", 8, 20, replace(CODEC, program={"moves": list(phases)}))
    (seen,) = run_phases(slurm, [Job("muster-round-c-1-0", ("a", "b"), {}, 29400)], asked, 5)
    return seen


def started(tmp_path: Path) -> list[list[str]]:
    return [json.loads(line) for line in (tmp_path / "started").read_text().splitlines()]


def test_program_of_one_driver_is_one_step(slurm: Slurm, tmp_path: Path) -> None:
    seen = walk(slurm, INSIDE, WALK, GROUPS)
    assert seen["ok"], seen["error"]
    assert [each["move"] for each in seen["results"]] == ["inside", "walk", "all"]
    assert len(started(tmp_path)) == 1


def test_what_is_inside_nodes_runs_in_the_declared_image_once(slurm: Slurm, tmp_path: Path) -> None:
    seen = walk(slurm, INSIDE, WALK, GROUPS, container="image.sqsh")
    assert seen["ok"], seen["error"]
    assert [each["move"] for each in seen["results"]] == ["inside", "walk", "all"]
    # What each step told of stalls, and of the links of each node, is one after the other.
    assert [(each["move"], each["nodes"]) for each in seen["stalls"]] == [
        *(("inside", [node]) for node in "ab"),
        ("walk", ["a", "b"]),
    ]
    assert seen["links"] == {node: [{"eth0": {"eth0": [2, 4]}}] * 2 for node in "ab"}
    inside, rest = started(tmp_path)
    assert "--container-image=image.sqsh" in inside
    # An image has a Python of its own.
    assert "/image/python3" in inside and "python3" not in inside
    assert "python3" in rest and "/image/python3" not in rest
    assert not [word for word in rest if word.startswith("--container")]


def test_nccl_tests_measures_groups_and_pytorch_pairs(slurm: Slurm, tmp_path: Path) -> None:
    seen = walk(slurm, WALK, GROUPS, driver="nccl_tests")
    assert seen["ok"], seen["error"]
    assert [each["move"] for each in seen["results"]] == ["walk", "all"]
    assert seen["results"][1] == {
        **{"move": "all", "step": 0, "bytes": 64, "ns": [[24380], [24380]], "ns_p99": [None, None], "wrong": {}}
    }
    torch, group = started(tmp_path)
    assert "collective" in torch
    at = group.index("muster")
    assert group[at + 1 :] == [
        *("watch-links", "--link=eth0", "--", "all_reduce_perf"),
        *("-b", "64", "-e", "64", "-f", "2", "-g", "1", "-d", "float", "-n", "2", "-w", "1", "-c", "1"),
    ]
    assert [word for word in group if word.startswith("--mpi=")][-1] == "--mpi=pmix"


def test_links_are_watched_during_nccl_tests_too_and_nothing_is_told_of_stalls(slurm: Slurm, tmp_path: Path) -> None:
    seen = walk(slurm, GROUPS, driver="nccl_tests")
    assert seen["ok"], seen["error"]
    # Those of the first all stayed.
    assert seen["links"] == {"b": [{"eth0": {"eth0": [2, 4]}}]}
    assert "stalls" not in seen
    both = walk(slurm, WALK, GROUPS, driver="nccl_tests")
    assert both["links"] == {"a": [{"eth0": {"eth0": [2, 4]}}], "b": [{"eth0": {"eth0": [2, 4]}}] * 2}
    assert [each["move"] for each in both["stalls"]] == ["walk"]


def test_links_that_no_step_watched_are_not_told_to_have_stayed(slurm: Slurm, tmp_path: Path) -> None:
    # An image need not have what it takes.
    seen = walk(slurm, INSIDE, driver="nccl_tests", container="image.sqsh")
    assert seen["ok"] and "watch-links" not in started(tmp_path)[0]
    assert seen["links"] == {"a": [], "b": []}
    # Of one in no group of a program nothing was seen either.
    seen = walk(slurm, {**GROUPS, "groups": [[0]]}, driver="nccl_tests")
    assert seen["links"] == {"b": []}
    slurm.environment["SILENT"] = "a"
    seen = walk(slurm, GROUPS, driver="nccl_tests")
    assert (seen["ok"], seen["missing"]) == (False, ["a"])
    assert "nothing told of the links of a" in seen["error"]
    assert seen["links"]["a"] == []


def test_nccl_tests_of_several_groups_become_one_result(slurm: Slurm, tmp_path: Path) -> None:
    slurm.environment["WRONG"] = "3"
    seen = walk(slurm, {**GROUPS, "groups": [[1], [0]]}, driver="nccl_tests")
    assert not seen["ok"]
    assert "wrong elements in 64 bytes" in seen["error"]
    (result,) = seen["results"]
    assert (result["ns"], result["wrong"]) == ([[24380], [24380]], {"a": [0], "b": [0]})
    assert len(started(tmp_path)) == 2


PAIR, ALONE = report(["a", "b"], 1, {64: 24.38}), report(["a"], 1, {64: 1.02})


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ("", "no header of columns"),
        ("unhandled cuda error", "no header of columns"),
        (PAIR[: PAIR.index("# Out")], "the report ends before"),
        (
            ALONE + ALONE.replace("on          a", "on          b"),
            "2 reports of one rank each, expected one of 2 ranks: ",
        ),
        (PAIR + PAIR, "2 reports of 4 ranks in all, expected one of 2 ranks"),
        (PAIR.replace("Rank  1", "Rank  0"), "2 ranks are named, expected 0 to 1, each once; missing: 1"),
        (PAIR.replace("on          b", "on          c"), "ranks by host: b 0, expected 1, c 1, expected 0"),
    ],
)
def test_output_of_nccl_tests_that_is_no_whole_report_of_the_group_measures_nothing(
    slurm: Slurm, tmp_path: Path, output: str, error: str
) -> None:
    (tmp_path / "nccl_tests").write_text(output)
    seen = walk(slurm, GROUPS, driver="nccl_tests")
    assert (seen["ok"], seen["started"], seen["results"], seen["missing"]) == (False, True, [], ["a", "b"])
    assert f"nccl-tests: {error}" in seen["error"]


def test_host_that_has_another_name_than_its_node_is_told_by_its_own(slurm: Slurm) -> None:
    slurm.environment |= {"HOST_OF_a": "ip-10-0-0-1", "HOST_OF_b": "ip-10-0-0-2"}
    assert walk(slurm, GROUPS, driver="nccl_tests")["ok"]
    # Inside an image nobody tells it.
    inside = walk(slurm, INSIDE, driver="nccl_tests", container="image.sqsh")
    assert "ranks by host: a 0, expected 1, ip-10-0-0-1 1, expected 0" in inside["error"]


def test_size_whose_columns_disagree_is_not_measured(slurm: Slurm, tmp_path: Path) -> None:
    sizes = [64, 2**20]
    output = report(["a", "b"], 1, {64: 24.38, 2**20: 100.0}).replace("10.49   10.49", "10.49    0.00", 1)
    (tmp_path / "nccl_tests").write_text(output)
    seen = walk(slurm, {**GROUPS, "sizes": sizes}, driver="nccl_tests")
    assert (seen["ok"], [each["bytes"] for each in seen["results"]]) == (False, [64])
    assert "nccl-tests: 1048576 bytes cannot be read: busbw is 0.00 GB/s, expected 10.49" in seen["error"]


def test_sizes_that_nccl_tests_cannot_walk_are_refused(slurm: Slurm) -> None:
    with pytest.raises(ValueError, match="expected doublings of the least"):
        walk(slurm, {**GROUPS, "sizes": [64, 192]}, driver="nccl_tests")


def test_nothing_follows_a_step_that_ended_early(slurm: Slurm, tmp_path: Path) -> None:
    asked = CollectiveRequest(
        "torch", "image", "/image/python3", "acceptance", 8, 7, replace(CODEC, program={"moves": [INSIDE, WALK]})
    )
    jobs = [Job("muster-round-c-1-0", ("a", "hang"), {}, 29400), Job("muster-round-c-1-1", ("c", "d"), {}, 29401)]
    hung, fine = run_phases(slurm, jobs, asked, 1)
    assert (hung["ok"], hung["missing"]) == (False, ["a", "hang"]), hung
    assert [step.jobs for step in steps(asked, jobs)] == [tuple(jobs), tuple(jobs)]
    assert fine["group"] == ["c", "d"]


HUNG = {**WALK, "name": "hung", "jobs": [1]}
OF_FIRST = ({**INSIDE, "jobs": [0]}, {**WALK, "jobs": [0]}, {**GROUPS, "jobs": [0]})


@pytest.mark.parametrize(
    ("driver", "container", "parts"), [("torch", None, 2), ("torch", "image.sqsh", 3), ("nccl_tests", None, 5)]
)
def test_each_job_runs_the_phases_that_are_for_it(
    slurm: Slurm, tmp_path: Path, driver: str, container: str | None, parts: int
) -> None:
    groups = (("a", "b"), ("c", "d"))
    codec = replace(CODEC, program={"moves": [*OF_FIRST, HUNG]}, groups=groups)
    asked = CollectiveRequest(driver, container, "/image/python3", "acceptance", 8, 20, codec)
    jobs = [Job(f"muster-round-c-1-{at}", group, {}, 29400 + at) for at, group in enumerate(groups)]
    for job in jobs:
        asked.check(job.group)
    first, second = run_phases(slurm, jobs, asked, 5)
    assert (first["ok"], second["ok"]) == (True, True), (first["error"], second["error"])
    assert [each["move"] for each in first["results"]] == ["inside", "walk", "all"]
    assert [each["move"] for each in second["results"]] == ["hung"]
    assert len(started(tmp_path)) == parts


def test_job_that_no_phase_is_for_is_refused() -> None:
    codec = replace(CODEC, program={"moves": [{**WALK, "jobs": [0]}]}, groups=(("a", "b"), ("c", "d")))
    assert [phase.name for phase in codec.program_for(("a", "b"))] == ["walk"]
    with pytest.raises(ValueError, match=r"program\.moves"):
        codec.program_for(("c", "d"))


def test_first_observation_says_which_partners_are_idle(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", slurm.environment["PATH"])
    (tmp_path / "sinfo").write_text("#!/bin/sh\nprintf 'a|idle\\nb|idle\\nc|planned\\nd|mixed\\ne|drained\\n'\n")
    answer = run_module(
        "collective_round",
        **{"campaign": "c", "number": 1, "groups": [["a", "b"]], "port": 29400, "addresses": {}},
        **{"user": slurm.user, "environment": slurm.environment, "partners": ["d", "c", "e", "z"]},
        **{"program": {"moves": [WALK]}, "deadline_seconds": 20, "gpus_per_node": 0, "python": "python3"},
        collective={
            **{"driver": "torch", "container": None, "container_python": "/image/python3"},
            **{"backend": "gloo", "ranks_per_node": 1},
        },
    )
    assert [each["idle"] for each in answer["observations"]] == [["c"]]


def test_each_round_has_a_secret_that_no_command_line_shows(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", slurm.environment["PATH"])
    for number in (1, 2):
        answer = run_module(
            "collective_round",
            **{"campaign": "c", "number": number, "groups": [["a", "b"], ["c", "d"]], "port": 29400, "addresses": {}},
            **{"user": slurm.user, "environment": {**slurm.environment, "MUSTER_ROUND_SECRET": "from outside"}},
            **{"program": {"moves": [WALK]}, "deadline_seconds": 20, "gpus_per_node": 0},
            collective={
                **{"driver": "torch", "container": None, "container_python": "/image/python3"},
                **{"backend": "gloo", "ranks_per_node": 1},
            },
            python="python3",
        )
        assert [each["error"] for each in answer["observations"]] == ["", ""], answer
    told = (tmp_path / "secrets").read_text().split()
    assert len(told) == 4 and len(set(told[:2])) == len(set(told[2:])) == 1 and told[0] != told[2]
    assert min(map(len, told)) == 32
    assert not [secret for secret in told if secret in (tmp_path / "started").read_text()]
