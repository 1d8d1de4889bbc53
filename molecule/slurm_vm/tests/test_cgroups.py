"""What the kernel gives a job: its GPUs and no other, its memory and no more, and an end to all that it started."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from machines import CONTROLLER, MAY, MAY_NOT, NODE, USER, ask, idle, on, wait_for


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
    wait_for("an idle node", idle)
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


def test_each_gpu_comes_with_the_processor_beside_it() -> None:
    opened = f"for n in 0 1; do cat /dev/nvidia$n 2>&1 | grep -q '{MAY}' && echo $n; done"
    look = f"{opened}; sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status"
    numbers = [submit(f"{look}; sleep 20", "--gres=gpu:1", "--mem=100") for _ in range(2)]
    wait_for("both jobs running", lambda: {state(number) for number in numbers} == {"RUNNING"})
    wait_for("what both have", lambda: all(len(written(number).split()) == 2 for number in numbers))
    assert sorted(written(number).split() for number in numbers) == [["0", "0"], ["1", "1"]]
