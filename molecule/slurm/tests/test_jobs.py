"""What a user's job is given, and what becomes of it when its node dies."""

from __future__ import annotations

import pytest
from cluster import (
    LOGIN,
    NODES,
    OTHER_USER,
    PATIENCE,
    USER,
    accounted,
    admit,
    expand,
    job,
    lab,
    node_state,
    now,
    on,
    run_as,
    ssh,
    submit,
    usable,
    wait_for,
    wait_for_job,
)

RACK = ("gpu-01", "gpu-02")


def given_to(number: str) -> str:
    """Return what a job wrote down of its GPUs; empty if it has not yet."""
    return ssh("gpu-01", f"cat /tmp/given-{number}").stdout.strip()


@pytest.mark.main_road
def test_gpus_asked_for_are_gpus_given() -> None:
    began = now()
    script = "echo $CUDA_VISIBLE_DEVICES >/tmp/given-$SLURM_JOB_ID; sleep 600"
    numbers = [submit(script, "--nodelist=gpu-01", "--gres=gpu:3") for _ in range(2)]
    try:
        for number in numbers:
            wait_for_job(number, "RUNNING")
        given = [
            set(wait_for(f"the GPUs of job {number}", lambda n=number: given_to(n)).split(",")) for number in numbers
        ]
    finally:
        on(LOGIN, f"scancel {' '.join(numbers)}")
    assert [len(each) for each in given] == [3, 3], given
    assert not given[0] & given[1], given
    assert set.union(*given) <= set(map(str, range(8))), given
    none = run_as(USER, ["srun", "sh", "-c", "echo ${CUDA_VISIBLE_DEVICES:-none}"])
    assert none.stdout.strip() in ("none", "NoDevFiles"), none
    told = on(LOGIN, f"sacct -a -X -n -P -S {began} -j {','.join(numbers)} -o AllocTRES")
    assert told.count("gres/gpu=3") == 2, told


@pytest.mark.main_road
def test_more_gpus_than_a_node_has_are_refused() -> None:
    done = run_as(USER, ["srun", "--immediate=5", "--gres=gpu:9", "true"])
    assert done.returncode != 0


def test_a_job_on_one_switch_waits_for_one_rack() -> None:
    jobs = [submit("sleep 600", "--nodelist=gpu-01", "--exclusive")]
    try:
        wait_for_job(jobs[0], "RUNNING")
        jobs.append(submit("sleep 5", "--nodes=2", "--exclusive", "--switches=1@60:00"))
        # It runs in both racks at once, which shows that the other one could have, too.
        spread = submit("true", "--nodes=2", "--exclusive")
        assert set(expand(wait_for_job(spread, "COMPLETED")["NodeList"])) == {"gpu-02", "gpu-03"}
        assert job(jobs[1])["JobState"] == "PENDING"
        on(LOGIN, f"scancel {jobs[0]}")
        assert set(expand(wait_for_job(jobs[1], "COMPLETED")["NodeList"])) == set(RACK)
    finally:
        on(LOGIN, f"scancel {' '.join(jobs)}")


@pytest.mark.main_road
def test_accounting_knows_who_ran_where_and_lets_nobody_use_a_foreign_account() -> None:
    began = now()
    number = submit("sleep 2", "--account=operations", user=OTHER_USER)
    wait_for_job(number, "COMPLETED")
    rows = wait_for(
        f"job {number} in accounting",
        lambda: [row for row in accounted(began) if row.number == number and row.state == "COMPLETED"],
    )
    assert (rows[0].user, rows[0].account, rows[0].nodes in NODES, rows[0].seconds > 0) == (
        OTHER_USER,
        "operations",
        True,
        True,
    )
    refused = run_as(USER, ["sbatch", "--account=operations", "--wrap=true"])
    assert refused.returncode != 0
    assert "account" in refused.stderr, refused.stderr


def test_a_job_whose_node_dies_starts_again_in_the_same_rack() -> None:
    number = submit("hostname >>/tmp/again; sleep 30", "--exclude=gpu-03")
    first = wait_for_job(number, "RUNNING")["NodeList"]
    other = next(node for node in RACK if node != first)
    wait_for("the job's begin on its node", lambda: ssh(first, "cat /tmp/again").returncode == 0)
    lab("stop", first)
    try:
        wait_for(f"{first} down", lambda: "down" in node_state(first))
        # Slurm lets two minutes pass before it starts such a job again.
        again = wait_for_job(number, "COMPLETED", seconds=PATIENCE + 150)
        assert (again["NodeList"], again["Restarts"]) == (other, "1")
        assert on(other, "cat /tmp/again").split() == [other]
    finally:
        lab("start", first)
    # It rebooted unasked: it stays down until its new boot has been examined.
    admit(first)
    wait_for(f"{first} usable", lambda: usable(first))
