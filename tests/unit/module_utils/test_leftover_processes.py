"""What a user's last job leaves on a node is ended, and nothing else is."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.in_service import leftover_processes
from ansible_collections.muster.cluster.plugins.module_utils.in_service.leftover_processes import (
    END_SECONDS,
    Job,
    end_leftovers,
    end_remembered,
    end_strays,
    keeper,
    left_from_before,
    note_user,
    parse_uid_range,
    remember,
    remembered,
)
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import (
    NodeJob,
    SlurmGateError,
    parse_node_jobs,
)

from tests.contracts.table import refuse_unknown

USER, OTHER, MUSTER = 2001, 2002, 990
JOB = Job("7", USER, "gpu-01")
OVER = "7|2001|COMPLETING\n"
TERM, KILL = signal.SIGTERM, signal.SIGKILL


class Machine:
    """Processes by number, each with its user, and what the host and the controller say when they are asked."""

    def __init__(self, users: dict[int, int] | None = None, queue: str = OVER) -> None:
        self.users = users or {}
        self.names = {pid: f"p{pid}" for pid in self.users}
        self.titles: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        self.zombies: set[int] = set()
        # Which signals end a process; none of them one that is stuck.
        self.ends_by = {pid: {TERM, KILL} for pid in self.users}
        self.sent: list[tuple[int, int]] = []
        self.answers = {
            "squeue": Output(queue),
            "passwd 2001": Output("alice:x:2001:2001::/home/alice:/bin/sh\n"),
            "passwd 2002": Output("bob:x:2002:2002::/home/bob:/bin/sh\n"),
            "passwd 990": Output("muster:x:990:990::/var/lib/muster:/bin/sh\n"),
            "passwd 0": Output("root:x:0:0:root:/root:/bin/sh\n"),
            "passwd 60001": Output("ldap:x:60001:60001::/home/ldap:/bin/sh\n"),
            "passwd 65534": Output("nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"),
            "group sudo": Output("sudo:x:27:carol\n"),
            "id alice": Output("alice\0users\0"),
            "id bob": Output("bob\0users\0"),
            "id muster": Output("muster\0"),
        }
        self.ssh_rules = Output("account required pam_nologin.so\naccount required pam_slurm.so\n")
        self.definitions = Output("#UID_MIN 5000\nUID_MIN\t\t\t 1000\nUID_MAX\t\t\t60000\n")
        self.asked: list[str] = []

    def daemon(self, pid: int, title: str, uid: int = 0) -> None:
        """Add a step daemon, or what calls itself one."""
        self.users[pid], self.names[pid], self.titles[pid] = uid, title.partition(":")[0], title

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        refuse_unknown(argv)
        assert 0 < timeout_seconds <= leftover_processes.ASK_SECONDS
        self.asked.append(" ".join(argv))
        key = {"getent": " ".join(argv[1:]), "id": f"id {argv[-1]}"}.get(argv[0], argv[0])
        return self.answers.get(key, Output(rc=2))

    def paths(self, *patterns: str) -> list[str]:
        assert patterns == ("/proc/[0-9]*/status",)
        return [f"/proc/{pid}/status" for pid in self.users]

    def read(self, path: str) -> Output:
        if path == "/etc/login.defs":
            return self.definitions
        if path == "/etc/pam.d/sshd":
            return self.ssh_rules
        _, _, number, what = path.split("/")
        pid = int(number)
        if pid not in self.users:
            return Output(rc=None, error="gone")
        state = "Z" if pid in self.zombies else "S"
        return Output(
            {
                "status": f"Name:\t{self.names[pid]}\nState:\t{state}\nPid:\t{pid}\nPPid:\t{self.parents.get(pid, 1)}\n"
                f"Uid:\t{self.users[pid]}\t0\t0\t0\n",
                "stat": f"{pid} (a ) b) {state} {' '.join(str(field) for field in range(4, 22))} {pid * 100} 0 0\n",
                "cmdline": self.titles.get(pid, "") + "\0",
            }[what]
        )

    def kill(self, pid: int, number: int) -> None:
        self.sent.append((pid, number))
        if pid not in self.users:
            raise ProcessLookupError
        if number in self.ends_by.get(pid, set()):
            del self.users[pid]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERM_SECONDS", "KILL_SECONDS", "ASK_AGAIN_SECONDS"):
        monkeypatch.setattr(leftover_processes, name, 0.01)


def end(machine: Machine, job: Job = JOB, operators: tuple[str, ...] = ("sudo",), seconds: float = 0.05) -> list[str]:
    """Return the findings, each as verdict and reason."""
    findings = end_leftovers(machine, job, lambda: operators, machine.kill, seconds)
    return [f"{each.verdict}: {each.reason}" for each in findings]


def test_all_that_the_users_last_job_left_is_ended_first_gently() -> None:
    machine = Machine({50: USER, 51: USER, 52: OTHER, 53: 0})
    machine.ends_by[51] = {KILL}
    assert end(machine) == []
    assert machine.sent == [(50, TERM), (51, TERM), (51, KILL)]
    assert set(machine.users) == {52, 53}


def test_nobody_is_asked_where_nothing_is_left() -> None:
    machine = Machine({50: OTHER, 51: USER})
    machine.zombies.add(51)
    assert end(machine) == [] and machine.asked == [] and machine.sent == []


@pytest.mark.parametrize(
    "queue",
    [
        "7|2001|COMPLETING\n8|2001|RUNNING\n",
        "7|2001|COMPLETING\n8|2001|SUSPENDED\n",
        "7|2001|COMPLETING\n8|2001|CONFIGURING\n",
        # What a later release may call a state counts for the user.
        "7|2001|COMPLETING\n8|2001|HOVERING\n",
        # Somebody ran the hook by hand.
        "7|2001|RUNNING\n",
    ],
)
def test_processes_of_a_user_with_a_job_here_go_on(queue: str) -> None:
    machine = Machine({50: USER}, queue)
    assert end(machine) == [] and machine.sent == []


@pytest.mark.parametrize(
    "queue",
    [
        "7|2001|COMPLETING\n8|2002|RUNNING\n",
        "7|2001|COMPLETING\n8|2001|COMPLETED\n9|2001|PENDING\n",
        "7|2001|COMPLETING\n8|2001|COMPLETING\n",
        "7|2001|CANCELLED\n",
        # The controller has forgotten it.
        "",
    ],
)
def test_jobs_that_are_over_or_of_others_keep_nothing(queue: str) -> None:
    machine = Machine({50: USER}, queue)
    assert end(machine) == [] and machine.sent == [(50, TERM)]


# As seen on Debian 12: started by its link, and by its own name; the blanks are left of a longer command line.
@pytest.mark.parametrize("title", ["slurmstepd: [8.batch]", "slurmstepd-wlm: [8.0]            "])
def test_a_job_that_is_still_saving_its_work_is_let_finish(title: str) -> None:
    machine = Machine({50: USER}, "7|2001|COMPLETING\n8|2001|COMPLETING\n")
    machine.daemon(40, title)
    assert end(machine) == [] and machine.sent == []


def test_a_users_process_is_no_step_daemon_whatever_it_calls_itself() -> None:
    machine = Machine({50: USER}, "7|2001|COMPLETING\n8|2001|COMPLETING\n")
    machine.daemon(40, "slurmstepd: [8.batch]", USER)
    machine.ends_by[40] = {TERM}
    assert end(machine) == [] and machine.sent == [(50, TERM), (40, TERM)]


UNREADABLE = {
    "no controller": ("squeue", Output(rc=1, stderr="slurm_load_jobs error: Unable to contact slurm controller")),
    "no answer in time": ("squeue", Output(rc=None, timed_out=True, error="squeue: no answer within 5 s")),
    "no program": ("squeue", Output(rc=None, error="squeue: not found")),
    "nonsense": ("squeue", Output("No jobs today\n")),
    "half a line": ("squeue", Output("7|2001|COMPLETING\n8|20")),
    "no such user": ("passwd 2001", Output(rc=2)),
    "no such group": ("group sudo", Output(rc=2)),
    "groups unknown": ("id alice", Output("alice\0", rc=1, stderr="id: cannot find name for group ID 5000")),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_an_answer_that_cannot_be_read_ends_nobodys_processes(case: str) -> None:
    machine = Machine({50: USER})
    key, machine.answers[key] = UNREADABLE[case][0], UNREADABLE[case][1]
    (told,) = end(machine)
    assert told.startswith("incomplete: 1 processes of uid 2001 are left after job 7: p50 (50); none was ended: ")
    assert machine.sent == [] and 50 in machine.users


def test_settings_that_cannot_be_read_end_nobodys_processes() -> None:
    machine = Machine({50: USER})

    def unknown() -> tuple[str, ...]:
        raise Unreadable("/etc/muster/hooks.json: no such file")

    (finding,) = end_leftovers(machine, JOB, unknown, machine.kill, 0.0)
    assert finding.verdict == "incomplete" and "hooks.json" in finding.reason and machine.sent == []


@pytest.mark.parametrize(
    "text", [Output("UID_MIN many\n"), Output("UID_MIN\n"), Output(rc=None, error="/etc/login.defs: no such file")]
)
def test_without_the_range_of_people_nobodys_processes_are_ended(text: Output) -> None:
    machine = Machine({50: USER})
    machine.definitions = text
    (told,) = end(machine)
    assert told.startswith("incomplete") and "/etc/login.defs" in told and machine.sent == []


def test_an_answer_about_another_node_is_none() -> None:
    machine = Machine({50: USER})
    machine.daemon(40, "slurmstepd: [8.batch]")
    machine.daemon(41, "slurmstepd: [7.extern]")
    (told,) = end(machine)
    assert "squeue names no job 8 on gpu-01, whose step daemon runs here" in told and machine.sent == []


def test_an_answer_that_comes_later_is_taken() -> None:
    machine = Machine({50: USER})
    answers = iter([Output(rc=1), Output(OVER)])
    run = machine.run

    def slow(argv: Sequence[str], timeout_seconds: float) -> Output:
        return next(answers) if argv[0] == "squeue" else run(argv, timeout_seconds)

    machine.run = slow  # type: ignore[method-assign]
    assert end(machine, seconds=1.0) == [] and machine.sent == [(50, TERM)]


def test_an_operators_session_goes_on() -> None:
    machine = Machine({50: USER})
    machine.answers["id alice"] = Output("alice\0sudo\0users\0")
    assert end(machine) == [] and machine.sent == []
    # Nobody is an operator where no group is declared.
    assert end(machine, operators=()) == [] and machine.sent == [(50, TERM)]


@pytest.mark.parametrize("uid", [0, 999])
def test_a_systems_user_is_left_alone(uid: int) -> None:
    machine = Machine({50: uid})
    machine.answers["passwd 999"] = Output("munge:x:999:999::/:/bin/false\n")
    assert end(machine, Job("7", uid, "gpu-01")) == [] and machine.sent == []


@pytest.mark.parametrize("uid", [60001, 65534])
def test_above_the_range_nothing_is_ended_and_nothing_passes(uid: int) -> None:
    machine = Machine({50: uid})
    (told,) = end(machine, Job("7", uid, "gpu-01"))
    assert told.startswith("incomplete") and "above UID_MAX" in told and machine.sent == []


@pytest.mark.parametrize("uid", [1000, 60000])
def test_the_range_has_both_its_ends(uid: int) -> None:
    machine = Machine({50: uid}, "")
    machine.answers |= {f"passwd {uid}": Output(f"alice:x:{uid}:100::/:/bin/sh\n")}
    assert end(machine, Job("7", uid, "gpu-01")) == [] and machine.sent == [(50, TERM)]


def test_what_musters_own_jobs_leave_is_ended_after_them_only() -> None:
    machine = Machine({50: MUSTER, 51: USER}, "7|990|COMPLETING\n")
    assert end(machine, Job("7", MUSTER, "gpu-01")) == [] and machine.sent == [(50, TERM)]
    machine = Machine({50: MUSTER, 51: USER})
    assert end(machine) == [] and machine.sent == [(51, TERM)]


def test_a_process_of_a_job_that_begins_meanwhile_goes_on() -> None:
    machine = Machine({50: USER})
    machine.ends_by[50] = {KILL}
    kill = machine.kill

    def begins(pid: int, number: int) -> None:
        kill(pid, number)
        machine.answers["squeue"] = Output(f"{OVER}9|2001|RUNNING\n")
        machine.users[60], machine.names[60] = USER, "train"

    machine.kill = begins  # type: ignore[method-assign]
    assert end(machine, seconds=1.0) == []
    assert machine.sent == [(50, TERM)] and 60 in machine.users


def test_a_number_that_has_become_another_process_is_not_signalled() -> None:
    machine = Machine({50: USER})
    read = machine.read

    def reused(path: str) -> Output:
        found = read(path)
        # Between the first look and the signal.
        return Output(found.stdout.replace("5000", "6000")) if path.endswith("stat") and machine.asked else found

    machine.read = reused  # type: ignore[method-assign]
    machine.answers["squeue"] = Output(OVER)
    end(machine, seconds=0.0)
    assert (50, TERM) not in machine.sent


def test_what_cannot_be_killed_fails_the_host() -> None:
    machine = Machine({50: USER})
    machine.ends_by[50] = set()
    (told,) = end(machine)
    assert told.startswith("fail: ") and told.endswith("p50 (50); they cannot be killed")


def test_what_begins_faster_than_it_is_killed_blames_no_host() -> None:
    machine = Machine({50: USER})
    kill = machine.kill

    def forks(pid: int, number: int) -> None:
        kill(pid, number)
        machine.users[pid + 1], machine.names[pid + 1], machine.ends_by[pid + 1] = USER, "bomb", {KILL}

    machine.kill = forks  # type: ignore[method-assign]
    (told,) = end(machine)
    assert told.startswith("incomplete") and "new ones begin" in told


def test_names_of_processes_do_not_reach_a_terminal_as_they_are() -> None:
    machine = Machine({50: USER})
    machine.names[50] = "\x1b[2J"
    machine.ends_by[50] = set()
    assert "?[2J (50)" in end(machine)[0]


def test_squeue_is_asked_for_this_node_and_all_partitions() -> None:
    machine = Machine({50: USER})
    end(machine)
    assert machine.asked[-1] == "squeue --all --nodelist=gpu-01 --states=all --noheader --format=%A|%U|%T"


def test_range_of_people_has_defaults() -> None:
    assert parse_uid_range("") == (1000, 60000)
    assert parse_uid_range("UID_MAX 200000000\n# UID_MIN 1\nSYS_UID_MIN 100\n") == (1000, 200000000)


@pytest.mark.parametrize("text", ["7|2001", "7|alice|RUNNING", "7_1|2001|RUNNING", "7|2001|", "\n"])
def test_lines_that_are_no_jobs_are_refused(text: str) -> None:
    with pytest.raises(SlurmGateError):
        parse_node_jobs(text)


def test_a_step_of_the_job_itself_need_not_be_known() -> None:
    assert keeper([], {"7"}, JOB) == ""
    assert keeper([NodeJob("8", USER, "RUNNING")], {"8"}, JOB) == "8"


def test_what_was_left_is_tried_again_and_shown_until_it_is_gone(tmp_path: Path) -> None:
    state = str(tmp_path)
    assert left_from_before(state) == []
    remember(state, JOB)
    machine = Machine({50: USER})
    machine.answers["squeue"] = Output(rc=1)
    end_remembered(machine, "gpu-01", state, tuple, 0.0, machine.kill)
    (finding,) = left_from_before(state)
    assert (finding.verdict, remembered(state), machine.sent) == ("incomplete", ["7"], [])
    machine.answers["squeue"] = Output("")
    end_remembered(machine, "gpu-01", state, tuple, 1.0, machine.kill)
    assert machine.sent == [(50, TERM)] and left_from_before(state) == []


def sweep(machine: Machine, state: Path, seconds: float = 0.05) -> None:
    """Look for strays where jobs of alice and bob have ended."""
    note_user(str(state), JOB)
    note_user(str(state), Job("6", OTHER, "gpu-01"))
    end_strays(machine, "gpu-01", str(state), lambda: ("sudo",), seconds, machine.kill)


def test_what_starts_a_user_again_after_the_last_job_is_ended(tmp_path: Path) -> None:
    machine = Machine({1: 0, 30: 0, 50: USER, 51: USER, 52: 3000}, "")
    # Of cron, with a child.
    machine.parents |= {30: 1, 50: 30, 51: 50}
    sweep(machine, tmp_path)
    # Who never had a job here may be anybody: a service of the site, say.
    assert machine.sent == [(50, TERM), (51, TERM)] and 52 in machine.users
    assert remembered(str(tmp_path)) == []


def test_slurm_is_not_asked_where_a_step_runs_something_of_the_user(tmp_path: Path) -> None:
    machine = Machine({50: USER, 51: USER, 60: OTHER}, "8|2001|RUNNING\n9|2002|RUNNING\n")
    machine.daemon(40, "slurmstepd: [8.batch]")
    machine.daemon(41, "slurmstepd-wlm: [9.0]")
    machine.parents |= {50: 40, 51: 1, 60: 41}
    sweep(machine, tmp_path)
    assert (machine.asked, machine.sent) == ([], [])


@pytest.mark.parametrize("queue", ["8|2001|RUNNING\n", "7|2001|RUNNING\n", "8|2001|CONFIGURING\n"])
def test_a_login_of_a_user_whose_job_runs_nothing_yet_goes_on(tmp_path: Path, queue: str) -> None:
    machine = Machine({50: USER}, queue)
    sweep(machine, tmp_path)
    assert machine.sent == [] and "squeue" in machine.asked[-1]


def test_a_job_that_is_here_again_is_let_save_its_work(tmp_path: Path) -> None:
    machine = Machine({50: USER}, "7|2001|COMPLETING\n")
    machine.daemon(40, "slurmstepd: [7.batch]")
    sweep(machine, tmp_path)
    assert machine.sent == []


def test_a_users_process_makes_no_step_by_its_name(tmp_path: Path) -> None:
    machine = Machine({50: USER}, "")
    machine.daemon(40, "slurmstepd: [8.batch]", USER)
    machine.parents[50] = 40
    machine.ends_by[40] = {TERM}
    sweep(machine, tmp_path)
    assert machine.sent == [(50, TERM), (40, TERM)]


def test_parents_in_a_circle_are_no_step(tmp_path: Path) -> None:
    machine = Machine({50: USER, 51: USER}, "")
    machine.parents |= {50: 51, 51: 50}
    sweep(machine, tmp_path)
    assert machine.users == {}


@pytest.mark.parametrize("case", UNREADABLE)
def test_an_answer_that_cannot_be_read_ends_no_stray_and_is_not_held_against_the_node(
    tmp_path: Path, case: str
) -> None:
    machine = Machine({50: USER}, "")
    key, machine.answers[key] = UNREADABLE[case][0], UNREADABLE[case][1]
    sweep(machine, tmp_path)
    assert (machine.sent, remembered(str(tmp_path))) == ([], [])


def test_operators_and_systems_users_are_no_strays(tmp_path: Path) -> None:
    machine = Machine({50: USER, 51: 999}, "")
    machine.answers |= {"id alice": Output("alice\0sudo\0"), "passwd 999": Output("munge:x:999:999::/:/bin/false\n")}
    note_user(str(tmp_path), Job("5", 999, "gpu-01"))
    sweep(machine, tmp_path)
    assert machine.sent == [] and not any("squeue" in each for each in machine.asked)


@pytest.mark.parametrize(
    "rules",
    [
        Output("account required pam_nologin.so\n"),
        Output("# account required pam_slurm.so\n"),
        Output(rc=None, error="/etc/pam.d/sshd: no such file"),
    ],
)
def test_where_ssh_needs_no_job_there_are_no_strays(tmp_path: Path, rules: Output) -> None:
    machine = Machine({50: USER}, "")
    machine.ssh_rules = rules
    sweep(machine, tmp_path)
    assert (machine.asked, machine.sent) == ([], [])


def test_a_stray_that_cannot_be_killed_is_remembered_by_its_users_last_job(tmp_path: Path) -> None:
    machine = Machine({50: USER}, "")
    machine.ends_by[50] = set()
    sweep(machine, tmp_path)
    assert remembered(str(tmp_path)) == ["7"] and left_from_before(str(tmp_path))


def test_the_end_leaves_time_for_the_rest_of_the_epilog() -> None:
    assert END_SECONDS + leftover_processes.TERM_SECONDS < 20
