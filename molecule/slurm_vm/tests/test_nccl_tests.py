"""Processes that Slurm starts by PMIx are ranks of one MPI; those that are not measure nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import read_program
from ansible_collections.muster.cluster.plugins.module_utils.rounds.nccl_tests_job import NcclTestsCodec
from ansible_collections.muster.cluster.plugins.module_utils.rounds.round_job import Reading
from machines import CONTROLLER, NODE, PROJECT, ask, idle, on, wait_for
from rounds import GROUP, RANKS, command

PROGRAM = "/usr/local/bin/all_reduce_perf"
LAYOUT = "/usr/local/lib/muster-lab/nccl_tests_report.py"
SIZES = (1024, 65536)
MOVE = {"name": "all", "kind": "inside", "collective": "all_reduce", "iterations": 5, "warmup": 1, "seconds": 5}
PHASE = read_program({"moves": [{**MOVE, "sizes": [*SIZES]}]}, 1)[0]
CODEC = NcclTestsCodec(RANKS, PHASE, "/usr/libexec/muster/muster")


def put(path: str, text: str) -> None:
    """Write a program on the node."""
    on(NODE, f"mkdir -p {Path(path).parent} && printf %s {shlex.quote(text)} >{path} && chmod 755 {path}")


@pytest.fixture(autouse=True)
def built() -> str:
    """The node has a stand-in for nccl-tests that was built with MPI, and no job; returns its text."""
    wait_for("an idle node", idle)
    program = Path(__file__).with_name("all_reduce_perf").read_text(encoding="utf-8")
    put(LAYOUT, (PROJECT / "tests/nccl_tests_report.py").read_text(encoding="utf-8"))
    put(PROGRAM, program)
    return program


def reading(change: str = "", by: str = "") -> Reading:
    """Return what a round makes of its job, with a word of its command exchanged."""
    done = ask(CONTROLLER, command(CODEC, RANKS).replace(change, by))
    print(done.stdout, done.stderr)
    return CODEC.read(GROUP, done.stdout)


def test_processes_are_ranks_of_one_report() -> None:
    seen = reading()
    assert (seen.errors, seen.missing) == ([], [])
    assert [each["bytes"] for each in seen.found["results"]] == [*SIZES]
    assert all(each["ns"] == [[each["ns"][0][0]] * RANKS] and not each["wrong"] for each in seen.found["results"])


def test_without_mpi_nothing_is_measured(built: str) -> None:
    put(PROGRAM, built.replace("WITH_MPI = True", "WITH_MPI = False"))
    seen = reading()
    assert (seen.found["results"], seen.missing) == ([], [NODE])
    assert [error for error in seen.errors if "2 reports of one rank each, expected one of 2 ranks" in error]


def test_without_pmix_nothing_is_measured() -> None:
    seen = reading("--mpi=pmix", "--mpi=none")
    assert (seen.found["results"], seen.missing) == ([], [NODE])
    assert seen.errors
