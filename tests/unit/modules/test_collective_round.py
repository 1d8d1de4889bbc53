"""A round against stand-ins for Slurm's commands: real processes, real deadlines, no cluster."""

from __future__ import annotations

import getpass
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils import collective
from ansible_collections.muster.cluster.plugins.module_utils.collective_job import Settings
from ansible_collections.muster.cluster.plugins.module_utils.slurm_round import Job, Slurm, SlurmError, run_round

COLLECTIONS = Path(__file__).resolve().parents[3] / "collections"
# srun does what its nodes' names ask for; jobs are files, so that scancel can end them.
SRUN = f"""#!{sys.executable}
import os, sys, time
sys.path.insert(0, {str(COLLECTIONS)!r})
import {collective.__name__} as collective
given = dict(word.split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
nodes, jobs = given["--nodelist"].split(","), os.environ["JOBS"]
mine = os.path.join(jobs, given["--job-name"])
if "refused" in nodes:
    sys.exit("srun: error: Unable to allocate resources: Invalid account")
open(mine, "w").write("PENDING" if "busy" in nodes else "RUNNING")
while "hang" in nodes or "busy" in nodes:
    time.sleep(0.02)
    if not os.path.exists(mine):
        sys.exit("srun: error: job was cancelled")
sizes = [dict(bytes=int(text), seconds=[0.1, 0.2], correct=True, wrong=0) for text in given["--sizes"].split(",")]
for rank, node in enumerate(nodes):
    print(collective.encode(dict(node=node, rank=rank, sizes=sizes, error="", phase="end")))
os.unlink(mine)
"""
SQUEUE = f"""#!{sys.executable}
import os, sys
pending = "--states=PENDING" in sys.argv
for name in sorted(os.listdir(os.environ["JOBS"])):
    state = open(os.path.join(os.environ["JOBS"], name)).read()
    if pending and state == "PENDING":
        print(name + "|Resources")
    elif not pending:
        print(name + "|" + name)
"""
SCANCEL = f"""#!{sys.executable}
import os, sys
for word in sys.argv[1:]:
    name = word.removeprefix("--name=")
    if not name.startswith("--user="):
        os.unlink(os.path.join(os.environ["JOBS"], name))
"""
SINFO = """#!/bin/sh
for node in a b c d hang busy refused; do echo "$node|idle"; done
echo "drained|drained"
"""
SETTINGS = Settings("acceptance", "python3", "muster", "gloo", 1, (64, 128), 2, 1, 1, 1)


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    for name, text in {"srun": SRUN, "squeue": SQUEUE, "scancel": SCANCEL, "sinfo": SINFO}.items():
        tool = tmp_path / name
        tool.write_text(text)
        tool.chmod(0o755)
    (tmp_path / "jobs").mkdir()
    return Slurm(getpass.getuser(), "acceptance", {"PATH": f"{tmp_path}:/usr/bin:/bin", "JOBS": str(tmp_path / "jobs")})


def play(
    slurm: Slurm, *groups: tuple[str, ...], start_seconds: int = 20, deadline_seconds: int = 20
) -> list[dict[str, Any]]:
    jobs = [Job(f"muster-round-c-1-{index}", group, {}, 29400) for index, group in enumerate(groups)]
    return run_round(slurm, jobs, replace(SETTINGS, deadline_seconds=deadline_seconds), start_seconds)


def test_groups_run_at_once_and_come_back_in_order(slurm: Slurm) -> None:
    seen = play(slurm, ("a", "b"), ("c", "d"))
    assert [(each["group"], each["ok"], each["started"]) for each in seen] == [
        (["a", "b"], True, True),
        (["c", "d"], True, True),
    ]


def test_hanging_group_is_cancelled_at_its_deadline_and_others_are_unaffected(slurm: Slurm, tmp_path: Path) -> None:
    hung, fine = play(slurm, ("a", "hang"), ("c", "d"), deadline_seconds=3)
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


def test_left_over_jobs_of_the_campaign_are_cancelled_and_no_others(slurm: Slurm, tmp_path: Path) -> None:
    for name in ("muster-round-c-1-0", "muster-round-other-1-0"):
        (tmp_path / "jobs" / name).write_text("RUNNING")
    assert slurm.cancel("c") == ["muster-round-c-1-0"]
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["muster-round-other-1-0"]
    assert slurm.cancel("c") == []


def test_slurm_that_does_not_answer_is_an_error_about_slurm(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'sinfo: error: Unable to contact slurm controller' >&2\nexit 1\n")
    with pytest.raises(SlurmError, match="sinfo ended with 1: sinfo: error: Unable to contact slurm controller"):
        play(slurm, ("a", "b"))
    (tmp_path / "sinfo").unlink()
    with pytest.raises(SlurmError, match="sinfo"):
        Slurm(getpass.getuser(), "acceptance", {"PATH": str(tmp_path)}).states()
