"""What the kernel gives a job: its GPUs and no other, its memory and no more, and an end to all that it started."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
CONTROLLER, NODE, USER = "vm-ctl", "vm-01", "alice"
# Emulated processors take their time.
PATIENCE = 120.0
# Without a driver behind it, a device that may be opened does not answer.
MAY, MAY_NOT = "No such device or address", "Operation not permitted"


def ask(host: str, command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
    """Run a shell command on a machine."""
    argv = ["ssh", "-F", str(PROJECT / "build/vm/slurm_vm/ssh_config"), "-l", user, host, command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE)


def on(host: str, command: str, user: str = "root") -> str:
    """Return what a shell command prints on a machine; it must succeed."""
    done = ask(host, command, user)
    assert done.returncode == 0, f"{user}@{host}: {command}\nended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def wait_for(what: str, condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not seen within {PATIENCE:g} s: {what}; last was {answer!r}"
        time.sleep(1)


def submit(body: str, *options: str) -> str:
    """Submit a user's job and return its number."""
    words = ["sbatch", "--parsable", "--chdir=/tmp", "--output=/tmp/out-%j", *options, f"--wrap={body}"]
    return on(CONTROLLER, shlex.join(words), USER).strip()


def state(number: str) -> str:
    """Return the state of a job."""
    return re.findall(r"JobState=(\w+)", on(CONTROLLER, f"scontrol show job {number}"))[0]


def ended(number: str) -> str:
    """Wait for the end of a job and return its state."""
    wait_for(f"job {number} ended", lambda: state(number) not in ("PENDING", "RUNNING", "COMPLETING"))
    return state(number)


def written(number: str) -> str:
    """Return what a job wrote."""
    return on(NODE, f"cat /tmp/out-{number}")


@pytest.fixture(scope="module", autouse=True)
def opened() -> Iterator[None]:
    """The partition has the node, as after an admission."""
    wait_for("an idle node", lambda: on(CONTROLLER, f"sinfo -h -a -n {NODE} -o %t").split()[:1] == ["idle"])
    on(CONTROLLER, f"scontrol update PartitionName=batch Nodes={NODE}")
    yield
    ask(CONTROLLER, f"scancel --user={USER}")


def refused() -> str:
    """Return what a login to the node is told that was refused; empty if it was not."""
    done = ask(NODE, "true", USER)
    return done.stderr if done.returncode == 255 else ""


OPEN = "for n in 0 1; do cat /dev/nvidia$n 2>&1; done; echo given ${CUDA_VISIBLE_DEVICES:-none}"


def test_a_job_reaches_its_own_gpu_and_no_other() -> None:
    number = submit(OPEN, "--gres=gpu:1")
    assert ended(number) == "COMPLETED"
    first, second, given = written(number).splitlines()
    assert (MAY in first, MAY_NOT in second, given) == (True, True, "given 0"), written(number)


def test_a_job_that_asked_for_no_gpu_reaches_none() -> None:
    number = submit(OPEN)
    assert ended(number) == "COMPLETED"
    first, second, given = written(number).splitlines()
    assert (MAY_NOT in first, MAY_NOT in second) == (True, True), written(number)
    assert given in ("given none", "given NoDevFiles")


def test_a_job_has_the_memory_that_it_asked_for_and_no_more() -> None:
    body = "python3 -c 'print(len(bytearray({} << 20)))'"
    enough, more = submit(body.format(50), "--mem=150"), submit(body.format(400), "--mem=150")
    assert ended(enough) == "COMPLETED", written(enough)
    assert ended(more) == "OUT_OF_MEMORY", written(more)


def test_what_a_job_started_ends_with_it() -> None:
    number = submit("setsid sleep 7717 </dev/null >/dev/null 2>&1 & echo started")
    assert ended(number) == "COMPLETED"
    assert "started" in written(number)
    assert ask(NODE, "pgrep -f '^sleep 7717'").returncode == 1


def test_ssh_follows_the_job_into_its_cgroup_and_out_again() -> None:
    # The key is the right one: it opens the controller.
    on(CONTROLLER, "true", USER)
    assert "pam_slurm_adopt" in refused(), refused()
    number = submit("sleep 600", "--gres=gpu:1")
    wait_for("the job running", lambda: state(number) == "RUNNING")
    assert f"job_{number}" in on(NODE, "cat /proc/self/cgroup", USER)
    assert MAY in ask(NODE, "cat /dev/nvidia0", USER).stderr
    assert MAY_NOT in ask(NODE, "cat /dev/nvidia1", USER).stderr
    on(NODE, "setsid sleep 7718 </dev/null >/dev/null 2>&1 & sleep 1", USER)
    on(CONTROLLER, f"scancel {number}", USER)
    ended(number)
    wait_for("the login's process gone", lambda: ask(NODE, "pgrep -f '^sleep 7718'").returncode == 1)
    assert "pam_slurm_adopt" in refused(), refused()
