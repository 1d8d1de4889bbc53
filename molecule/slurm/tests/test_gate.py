"""A closed node stays closed to users, whatever they type and whatever happens to controllers, files and operators."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator

import pytest
from attacks import attack
from cluster import (
    CONTROLLERS,
    LEADING,
    LEDGER,
    LOGIN,
    accounted,
    admit,
    answering,
    decide,
    node_state,
    now,
    on,
    open_nodes,
    play,
    ssh,
    start_playing,
    submit,
    try_to_play,
    usable,
    wait_for,
    wait_for_job,
)
from judges import nothing_runs_on

GATE = "/etc/slurm/muster_partitions.conf"
CLOSED = "gpu-03"
OPEN = {"gpu-01", "gpu-02"}


@pytest.fixture(scope="module", autouse=True)
def closed(whole_cluster: None) -> Iterator[None]:
    """An operator has closed one node."""
    decide(CLOSED, "quarantined")
    assert open_nodes() == OPEN
    yield
    decide(CLOSED, "release")
    admit(CLOSED)
    assert open_nodes() == {*OPEN, CLOSED}


def gate() -> str:
    """Return the gate's file as the leading controller has it."""
    return on(LEADING, f"cat {GATE}")


def test_users_are_kept_out_while_the_controller_is_reconfigured() -> None:
    with nothing_runs_on(CLOSED) as watch:
        trying = threading.Thread(target=attack, args=(CLOSED, watch.trace))
        trying.start()
        for _ in range(4):
            on(LEADING, "scontrol reconfigure")
        trying.join()


@pytest.mark.main_road
def test_what_was_opened_by_hand_is_closed_by_the_next_run() -> None:
    on(LEADING, f"scontrol update PartitionName=batch Nodes={','.join(sorted({*OPEN, CLOSED}))}")
    assert CLOSED in open_nodes()
    admit(CLOSED)
    with nothing_runs_on(CLOSED):
        assert open_nodes() == OPEN


def test_jobs_queued_before_the_close_run_elsewhere_and_running_ones_go_on() -> None:
    decide(CLOSED, "release")
    admit(CLOSED)
    on(LOGIN, f"scontrol update PartitionName=batch Nodes={CLOSED}")
    began = now()
    number = submit("sleep 20", "--array=1-4", "--exclusive", "--nodes=1")
    first = wait_for(
        "the first of the array running",
        lambda: [row for row in accounted(began) if row.number.startswith(f"{number}_") and row.state == "RUNNING"],
    )
    assert [row.nodes for row in first] == [CLOSED]
    decide(CLOSED, "quarantined")

    def completed() -> dict[str, str]:
        rows = [row for row in accounted(began) if row.number.startswith(f"{number}_")]
        return {row.number: row.nodes for row in rows if row.state == "COMPLETED"}

    where = wait_for("the whole array in accounting", lambda: completed() if len(completed()) == 4 else {})
    assert [name for name, node in where.items() if node == CLOSED] == [first[0].number], where


@pytest.mark.parametrize("case", ["unreadable", "older", "foreign"])
def test_with_a_wrong_ledger_nothing_opens_and_nothing_closes(case: str) -> None:
    kept = LEDGER.with_suffix(".kept")
    before = gate()
    shutil.copy2(LEDGER, kept)
    try:
        spoil(case)
        run = try_to_play("admit")
        assert run.rc != 0, run.output[-3000:]
        assert "Traceback" not in run.output
        assert (gate(), open_nodes()) == (before, OPEN)
    finally:
        for path in LEDGER.parent.glob(f"{LEDGER.name}*"):
            path.unlink()
        shutil.move(kept, LEDGER)


def spoil(case: str) -> None:
    """Put a wrong ledger in the place of the right one."""
    if case == "unreadable":
        LEDGER.write_bytes(b"no database\n" * 500)
        return
    change = {
        "older": "update meta set generation = generation - 1",
        "foreign": "update meta set ledger_id = '00000000-0000-4000-8000-000000000000'",
    }[case]
    connection = sqlite3.connect(LEDGER, timeout=30)
    with connection:
        connection.execute(change)
    connection.close()


def test_two_operators_at_once_leave_what_both_decided() -> None:
    with nothing_runs_on(CLOSED):
        arguments = ("-e", "decision=quarantined", "-e", "reason=scenario", "-e", "admit_allow_mass_close=true")
        both = [start_playing("decide", "-e", "node=gpu-02", *arguments), start_playing("admit")]
        runs = [one.result() for one in both]
        # The later one may have had to give up; it says so, and a run of its own finds nothing left to do.
        assert any(run.rc == 0 for run in runs), [run.output[-1500:] for run in runs]
        if runs[0].rc:
            play("decide", "-e", "node=gpu-02", *arguments)
        assert open_nodes() == {"gpu-01"}
    decide("gpu-02", "release")
    admit("gpu-02")
    assert open_nodes() == OPEN


def test_a_closed_host_that_takes_an_admitted_name_gets_no_job() -> None:
    with nothing_runs_on(CLOSED):
        on(
            CLOSED,
            "systemctl stop slurmd && systemd-run --unit=impostor $(sed -n 's/^ExecStart=\\(.*\\)/\\1/p' "
            "/etc/systemd/system/slurmd.service.d/muster.conf | tail -n 1 | sed 's/--conf-server .*/-N gpu-01 "
            "--conf-server ctl/')",
        )
        try:
            number = submit("hostname >/tmp/impostor", "--nodelist=gpu-01")
            wait_for_job(number, "COMPLETED")
            assert on("gpu-01", "cat /tmp/impostor").strip() == "gpu-01"
            assert ssh(CLOSED, "cat /tmp/impostor").returncode != 0
        finally:
            on(CLOSED, "systemctl stop impostor; systemctl reset-failed impostor; systemctl start slurmd")
    wait_for(f"{CLOSED} back", lambda: usable(CLOSED))


def test_a_lost_state_directory_opens_nothing_and_loses_no_drain() -> None:
    on(LEADING, "scontrol update NodeName=gpu-02 State=DRAIN Reason='fan noise, Jo'")
    admit("gpu-02")
    with nothing_runs_on(CLOSED):
        place = on(LEADING, "scontrol show config | awk '/^StateSaveLocation/ {print $3}'").strip()
        for host in CONTROLLERS:
            on(host, "systemctl stop slurmctld")
        on(LEADING, f"find {place} -mindepth 1 -delete")
        for host in CONTROLLERS:
            ssh(host, "systemctl start slurmctld")
            assert ssh(host, "systemctl is-active slurmctld").returncode != 0, f"{host} began with nothing"
        assert not answering()
        play("provision", "-e", "slurm_accept_empty_state=true")
        wait_for("a controller", answering)
        assert CLOSED not in open_nodes()
        admit()
        assert open_nodes() == OPEN
        assert "drain" in node_state("gpu-02")
        assert "fan noise, Jo" in on(LOGIN, "sinfo -h -R -n gpu-02 -o %E")
        on(LEADING, "scontrol update NodeName=gpu-02 State=RESUME")
        admit("gpu-02")
        assert "drain" not in node_state("gpu-02")
