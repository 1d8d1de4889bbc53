"""A program of somebody else's runs as it would by itself, and one rank of its node tells what links did meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives import watched_program
from ansible_collections.muster.cluster.plugins.module_utils.words.answer_lines import unpack

TOLD = [{"node": "gpu-01", "host": os.uname().nodename, "links": {"lo": {}}}]


def started(*program: str, local: int = 0) -> subprocess.Popen[str]:
    code = f"import sys; from {watched_program.__name__} import main; sys.exit(main())"
    environment = {
        **os.environ,
        **{"SLURM_PROCID": str(local), "SLURM_LOCALID": str(local), "SLURM_NTASKS": "2", "SLURMD_NODENAME": "gpu-01"},
        **{"SLURM_STEP_NODELIST": "gpu-01", "MUSTER_ROUND_SECRET": "0123456789abcdef"},
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    words = [sys.executable, "-c", code, "--link=lo", "--", *program]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, env=environment, start_new_session=True, **pipes)


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str], list[dict[str, Any]], str]:
    stdout, stderr = process.communicate(timeout=30)
    answers, errors = unpack(stdout)
    assert not errors
    return process.returncode, [line for line in stdout.splitlines() if line and "muster" not in line], answers, stderr


def test_program_is_given_its_options_and_its_output_stands_beside_what_links_did() -> None:
    assert ended(started("printf", "%s\n", "-b", "8")) == (0, ["-b", "8"], TOLD, "")


def test_one_rank_of_a_node_tells_for_all() -> None:
    assert ended(started("echo", "report", local=1)) == (0, ["report"], [], "")


@pytest.mark.parametrize(("ends", "status"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_program_that_fails_keeps_its_status_and_links_are_told(ends: str, status: int) -> None:
    # What it was printing has no end of line.
    assert ended(started("sh", "-c", f"printf half; {ends}")) == (status, ["half"], TOLD, "")


def test_links_are_told_where_slurm_ends_a_program_that_hangs() -> None:
    process = started("sh", "-c", "echo begun; exec sleep 600")
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    os.killpg(process.pid, signal.SIGTERM)
    assert ended(process) == (143, [], TOLD, "")


def test_program_that_is_not_there_is_named() -> None:
    status, _, answers, said = ended(started("no_such_perf"))
    assert (status, answers) == (127, [])
    assert said == "muster watch-links: no_such_perf: No such file or directory\n"
