"""What users may do beside their jobs: logins end with the last job, and nobody gets at what is another's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from attacks import COMEBACKS
from cluster import (
    CONTROLLERS,
    DATABASE,
    LOGIN,
    OTHER_USER,
    SSH,
    USER,
    job,
    node_state,
    on,
    run_as,
    ssh,
    submit,
    usable,
    wait_for,
    wait_for_job,
)

NODE = "gpu-01"
SETTINGS = "/etc/muster/hooks.json"
SECRETS = ("/etc/munge/munge.key", "/etc/slurm/jwt_hs256.key", "/etc/slurm/slurmdbd.conf")


def running(*options: str, user: str = USER, body: str = "sleep 600") -> str:
    """Return a job that runs on the node."""
    number = submit(body, f"--nodelist={NODE}", *options, user=user)
    wait_for_job(number, "RUNNING")
    return number


def processes(user: str = USER) -> list[str]:
    """Return what a user runs on the node."""
    return on(NODE, f"pgrep -u {user} -a || true").splitlines()


def reason() -> str:
    """Return why the node is drained, ``none`` if it is not."""
    return on(LOGIN, f"sinfo --noheader --all --nodes={NODE} --format=%E").strip()


def health_check() -> str:
    """Return when the node's last health check began, by the file that its wrapper touches."""
    return on(NODE, "stat -c %y /var/lib/muster/.health_began").strip()


@contextmanager
def login(user: str = USER) -> Iterator[subprocess.Popen[bytes]]:
    """A login that stays, and something that it has left to init."""
    on(NODE, "setsid sleep 7719 </dev/null >/dev/null 2>&1 & sleep 1", user)
    process = subprocess.Popen([*SSH, "-l", user, NODE, "sleep 7720"], stdout=subprocess.DEVNULL)
    try:
        wait_for("the login", lambda: any("sleep 7720" in line for line in processes(user)))
        yield process
    finally:
        process.kill()
        process.wait()
        ssh(NODE, f"pkill -KILL -u {user}")
        ssh(LOGIN, f"scancel --user={user}")


@pytest.fixture(autouse=True)
def node_as_it_was() -> Iterator[None]:
    yield
    wait_for(f"{NODE} usable", lambda: usable(NODE))


@pytest.mark.main_road
def test_a_login_ends_with_the_users_last_job_on_the_node() -> None:
    first, last = running(), running()
    with login() as session:
        on(LOGIN, f"scancel {first}")
        wait_for_job(first, "CANCELLED")
        assert session.poll() is None and len(processes()) > 2, "a login ended while a job of the user was there"
        on(LOGIN, f"scancel {last}")
        wait_for("the login's end", lambda: session.poll() is not None)
        wait_for("nothing left of the user", lambda: not processes())
        assert ssh(NODE, "true", USER).returncode != 0
    assert "drain" not in node_state(NODE)


def test_a_session_outlives_no_job_whatever_it_ignores_and_calls_itself() -> None:
    number = running()
    body = "trap '' TERM HUP INT; exec -a 'slurmstepd: [999.batch]' sleep 7721"
    on(NODE, f'SLURM_JOB_ID=999 setsid bash -c "{body}" </dev/null >/dev/null 2>&1 & sleep 1', USER)
    assert processes()
    on(LOGIN, f"scancel {number}")
    wait_for("nothing left of the user", lambda: not processes())


def test_an_operators_login_goes_on() -> None:
    on(NODE, f"usermod --append --groups sudo {OTHER_USER}")
    try:
        number = running(user=OTHER_USER)
        with login(OTHER_USER) as session:
            on(LOGIN, f"scancel {number}")
            wait_for_job(number, "CANCELLED")
            wait_for(f"{NODE} free", lambda: node_state(NODE) == "idle")
            assert session.poll() is None and len(processes(OTHER_USER)) > 2
    finally:
        on(NODE, f"gpasswd --delete {OTHER_USER} sudo")


def test_without_slurms_answer_nobody_is_killed_and_the_node_is_kept_off_jobs_until_there_is_one() -> None:
    number = running()
    with login() as session:
        on(NODE, "printf '#!/bin/sh\\nexit 1\\n' >/usr/local/bin/squeue && chmod 755 /usr/local/bin/squeue")
        try:
            on(LOGIN, f"scancel {number}")
            wait_for(f"{NODE} drained", lambda: "drain" in node_state(NODE))
            assert reason().startswith("muster:incomplete:leftover_processes:")
            assert session.poll() is None
        finally:
            on(NODE, "rm -f /usr/local/bin/squeue")
        wait_for("the login's end", lambda: session.poll() is not None)
        wait_for(f"{NODE} given back", lambda: "drain" not in node_state(NODE))


def test_no_user_has_anything_started_later() -> None:
    number = running()
    try:
        done = {each.name: ssh(NODE, each.command, USER) for each in COMEBACKS}
        # Not for want of cron.
        on(NODE, "echo '# nothing' | crontab - && crontab -r")
    finally:
        on(LOGIN, f"scancel {number}")
        wait_for_job(number, "CANCELLED")
    assert not [name for name, told in done.items() if told.returncode == 0], done


def test_what_starts_without_a_job_is_ended_by_the_health_check() -> None:
    number = running()
    on(LOGIN, f"scancel {number}")
    wait_for_job(number, "CANCELLED")
    wait_for(f"{NODE} free", lambda: node_state(NODE) == "idle")
    # As cron would, by a crontab that is older than the role.
    start = f"rm -f /tmp/ended; runuser -u {USER} -- sleep 7722; echo $? >/tmp/ended"
    on(NODE, f"setsid sh -c '{start}' </dev/null >/dev/null 2>&1 &")
    wait_for("the end of what was started", lambda: ssh(NODE, "test -s /tmp/ended").returncode == 0)
    assert on(NODE, "cat /tmp/ended").strip() == "143", "not ended by SIGTERM"
    assert "drain" not in node_state(NODE)


def test_a_login_into_a_job_that_runs_nothing_outlives_health_checks() -> None:
    # Of a user whom the health check looks for.
    number = running()
    on(LOGIN, f"scancel {number}")
    wait_for_job(number, "CANCELLED")
    on(LOGIN, f"salloc --no-shell --nodelist={NODE}", USER)
    with login() as session:
        for _ in range(2):
            before = health_check()
            wait_for("a health check", lambda before=before: health_check() != before)
        assert session.poll() is None and len(processes()) > 2


def test_a_user_with_a_job_blocks_no_burn_in_and_reads_and_writes_nothing_of_musters() -> None:
    lock = "exec 9</var/lib/muster/burn_in/lock && flock --exclusive --nonblock 9"
    evidence = on(NODE, "ls /var/lib/muster/evidence/*/*/evidence.json").split()[0]
    attacks = [lock, f"cat {evidence}"]
    for attack in attacks:
        on(NODE, attack)
    places = on(NODE, "find /etc/muster /usr/libexec/muster /var/lib/muster /run/muster -maxdepth 1 -type d").split()
    number = running()
    try:
        for attack in (*attacks, *(f"touch {place}/mine" for place in places)):
            told = ssh(NODE, attack, USER)
            assert told.returncode != 0 and not told.stdout, (attack, told)
    finally:
        on(LOGIN, f"scancel {number}")
        wait_for_job(number, "CANCELLED")


@pytest.mark.parametrize("host", [NODE, LOGIN, DATABASE, *CONTROLLERS])
def test_no_user_reads_a_secret(host: str) -> None:
    # Where users have no login, what a login would read is read as the user.
    for path in SECRETS:
        if ssh(host, f"test -e {path}").returncode == 0:
            told = ssh(host, f"su -s /bin/sh {USER} -c 'cat {path}'")
            assert told.returncode != 0 and not told.stdout, f"{USER} reads {path} on {host}"


def test_no_job_reads_a_secret() -> None:
    told = run_as(USER, ["srun", f"--nodelist={NODE}", "cat", *SECRETS])
    assert told.returncode != 0 and not told.stdout, told


@pytest.mark.parametrize(
    "command",
    [
        "srun --jobid={job} --overlap touch {trace}",
        "srun --jobid={job} --overlap --uid={other} touch {trace}",
        "sattach {job}.0",
        "scancel {job}",
        "scontrol requeue {job}",
        "scontrol suspend {job}",
        "scontrol update JobId={job} TimeLimit=1",
        "sbcast --jobid={job} /etc/hostname {trace}",
        "ssh -o BatchMode=yes {node} touch {trace}",
    ],
)
def test_a_user_does_not_get_into_anothers_job(command: str) -> None:
    number = running(user=OTHER_USER)
    trace = "/tmp/trace-others"
    try:
        filled = command.format(job=number, trace=trace, other=OTHER_USER, node=NODE)
        told = ssh(LOGIN, f"cd /tmp && timeout 20 {filled}", USER)
        found = job(number)
        assert (found["JobState"], found["Restarts"], found["TimeLimit"]) == ("RUNNING", "0", "UNLIMITED"), told
        assert ssh(NODE, f"test -e {trace}").returncode != 0, told
    finally:
        on(LOGIN, f"scancel {number}")
        wait_for_job(number, "CANCELLED")


def test_nobody_crons_a_job() -> None:
    done = ssh(LOGIN, "echo '* * * * * touch /tmp/crond' | scrontab -", USER)
    assert done.returncode != 0, done


@pytest.fixture
def directories() -> Iterator[str]:
    """The prolog makes a directory of each user below this one; containers are not installed here."""
    before = on(NODE, f"cat {SETTINGS}")
    parent = "/run/attacked"
    settings = {**json.loads(before), "user_directories": [parent]}
    on(NODE, f"echo '{json.dumps(settings)}' >{SETTINGS}")
    yield parent
    on(NODE, f"echo '{before.strip()}' >{SETTINGS}; rm -rf {parent}")


def test_nobody_makes_or_enters_anothers_directory(directories: str) -> None:
    number = running()
    try:
        made = on(NODE, f"stat -c '%U %a' {directories} {directories}/user-2001").split()
        assert made == ["root", "755", USER, "700"]
        for attack in (
            f"mkdir {directories}/user-2002",
            f"ln -s /etc {directories}/user-2002",
            f"mv {directories}/user-2001 {directories}/user-2002",
            f"rmdir {directories}/user-2001",
        ):
            assert ssh(NODE, attack, USER).returncode != 0, attack
        other = running(user=OTHER_USER)
        assert ssh(NODE, f"ls {directories}/user-2002", USER).returncode != 0
        on(LOGIN, f"scancel {other}")
    finally:
        on(LOGIN, f"scancel {number}")


@pytest.mark.parametrize("squat", ["mkdir", "ln -s /home/alice", "touch"])
def test_where_anothers_directory_was_made_first_no_job_of_theirs_starts(directories: str, squat: str) -> None:
    # As it was when everybody could write there.
    on(NODE, f"mkdir -m 1777 {directories}")
    number = running()
    ssh(NODE, f"chmod 1777 {directories}")
    on(NODE, f"{squat} {directories}/user-2002", USER)
    on(LOGIN, f"scancel {number}")
    wait_for_job(number, "CANCELLED")
    wait_for(f"{NODE} free", lambda: usable(NODE))
    before = on(NODE, "stat -c '%u %a' /home/alice").strip()
    try:
        other = submit("touch /tmp/squatted", f"--nodelist={NODE}", user=OTHER_USER)
        wait_for(f"{NODE} drained", lambda: "drain" in node_state(NODE))
        wait_for_job(other, "PENDING")
        assert ssh(NODE, "test -e /tmp/squatted").returncode != 0
        assert on(NODE, "stat -c '%u %a' /home/alice").strip() == before, "something was changed through the link"
    finally:
        ssh(LOGIN, f"scancel --user={OTHER_USER}")
        on(NODE, f"rm -rf {directories}")
        on(LOGIN, f"scontrol update NodeName={NODE} State=RESUME")
