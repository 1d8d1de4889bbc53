"""The leading controller's machine is lost: jobs go on, nobody gets in where the gate is closed, and it comes back."""

from __future__ import annotations

import time

from cluster import (
    CONTROLLERS,
    LEADING,
    LOGIN,
    NODES,
    STANDBY,
    admit,
    answering,
    decide,
    job,
    lab,
    on,
    open_nodes,
    ssh,
    submit,
    wait_for,
    wait_for_job,
)
from judges import nothing_runs_on

CLOSED = "gpu-03"
# Slurm saves a job's state up to 5 s after it has begun.
SAVED_SECONDS = 10


def leading() -> str:
    """Return which controller leads, by what scontrol ping says; empty if none."""
    for line in ssh(LOGIN, "scontrol ping").stdout.splitlines():
        # Slurmctld(primary) at ctl is UP
        words = line.split()
        if words[-1] == "UP":
            return words[2]
    return ""


def test_the_standby_takes_over_with_jobs_and_gate_as_they_were() -> None:
    assert leading() == LEADING
    running = submit("sleep 90", "--partition=interactive", "--nodelist=gpu-01", "--exclusive")
    waiting = submit("true", "--partition=interactive", "--nodelist=gpu-01", "--exclusive")
    wait_for_job(running, "RUNNING")
    began = time.monotonic()
    # Closed a moment before: what the leading controller last saved may still have the node.
    decide(CLOSED, "quarantined")
    time.sleep(max(0.0, SAVED_SECONDS - (time.monotonic() - began)))
    try:
        with nothing_runs_on(CLOSED):
            lab("stop", LEADING)
            wait_for("the standby leading", lambda: leading() == STANDBY)
            wait_for("an answer", answering)
            assert open_nodes() == set(NODES) - {CLOSED}
            assert job(running)["JobState"] == "RUNNING"
            assert job(waiting)["JobState"] == "PENDING"
        wait_for_job(running, "COMPLETED")
        assert job(running)["Restarts"] == "0"
        wait_for_job(waiting, "COMPLETED")
    finally:
        lab("start", LEADING)
    wait_for("the leading controller back", lambda: leading() == LEADING)
    assert open_nodes() == set(NODES) - {CLOSED}
    assert job(waiting)["JobState"] == "COMPLETED"
    for host in CONTROLLERS:
        assert on(host, "systemctl is-active slurmctld").strip() == "active"
    decide(CLOSED, "release")
    admit(CLOSED)
    assert open_nodes() == set(NODES)
