"""Controllers and database are lost with all that was on them: a copy brings jobs' history, drains and keys back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import (
    CONTROLLERS,
    DATABASE,
    LEADING,
    LOGIN,
    NODES,
    PLACE,
    PROJECT,
    accounted,
    admit,
    answering,
    lab,
    node_state,
    now,
    on,
    open_nodes,
    play,
    submit,
    try_to_play,
    usable,
    wait_for,
    wait_for_job,
)

DRAINED = "gpu-02"
REASON = "fan noise, Jo"


@pytest.fixture
def copy() -> Iterator[Path]:
    """Return a place for the copy, which holds the cluster's keys."""
    place = PROJECT / "build/molecule/slurm-backup"
    shutil.rmtree(place, ignore_errors=True)
    yield place
    shutil.rmtree(place)


def test_fresh_hosts_become_what_was_lost_and_half_a_copy_is_refused(copy: Path) -> None:
    began = now()
    number = submit("sleep 2", "--nodelist=gpu-01")
    wait_for_job(number, "COMPLETED")
    wait_for(f"job {number} in accounting", lambda: number in completed_since(began))
    on(LEADING, f"scontrol update NodeName={DRAINED} State=DRAIN Reason='{REASON}'")
    where = ("-e", f"slurm_backup_directory={copy}")
    play("slurm_backup", *where)
    assert (copy.stat().st_mode & 0o777, copy.joinpath("munge.key").stat().st_mode & 0o777) == (0o700, 0o600)

    for host in (*CONTROLLERS, DATABASE):
        lab("discard", host)
    for entry in (PLACE / "shared").iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    lab("up")
    assert not answering()

    play("slurm_restore", *where)
    play("provision")
    wait_for("a controller", answering)
    assert not open_nodes(), "a controller that knows no verdict opened nodes"
    admit()
    assert open_nodes() == set(NODES)
    assert number in completed_since(began)
    assert "drain" in node_state(DRAINED)
    assert on(LOGIN, f"sinfo -h -R -n {DRAINED} -o %E").strip() == REASON
    on(LEADING, f"scontrol update NodeName={DRAINED} State=RESUME")
    for node in NODES:
        wait_for(f"{node} usable", lambda node=node: usable(node))
    after = submit("sleep 1", f"--nodelist={DRAINED}")
    assert int(after) > int(number), "numbers of jobs began anew"
    wait_for_job(after, "COMPLETED")

    # What is half a copy is refused before anything stops.
    (copy / "backup.json").unlink()
    run = try_to_play("slurm_restore", *where)
    assert run.rc != 0
    assert "is not a complete backup of cluster slurmlab" in run.output, run.output[-3000:]
    assert answering()


def completed_since(began: str) -> list[str]:
    """Return the numbers of the jobs that ended well."""
    return [row.number for row in accounted(began) if row.state == "COMPLETED"]
