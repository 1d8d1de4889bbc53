"""What a user's last job on a node leaves running, such as a login by ssh, and its end.

Ended are processes of people, but not of operators, who may log in without a job, nor of a user with a job here. The
host and the controller say whether that is so; they are asked only where something is left. An answer that cannot be
read ends nobody's processes: the node is drained, and its health check tries again.

What starts later (by cron, at or mail) no epilog sees. The health check looks for such strays of users who had a job
here and ends them in the same way.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..host.host import Host, Output, Unreadable
from ..host.waiting import wait_until
from ..host.whole_files import replace_file
from ..slurm.scontrol_output import NodeJob, SlurmGateError, parse_node_jobs
from ..words.finding import FAIL, INCOMPLETE, Finding

NAME = "leftover_processes"
LOGIN_DEFINITIONS = "/etc/login.defs"
# Where login.defs(5) does not say: numbers of people.
UID_LEAST, UID_MOST = 1000, 60000
# Not a person, but what its jobs leave would spoil the next test of the node.
MUSTER = "muster"
# What getent, id and squeue may take: a directory server and a controller that are busy, not dead.
ASK_SECONDS = 5.0
# slurmctld waits for the epilog; the health check asks again.
ASK_TIMES = 2
ASK_AGAIN_SECONDS = 1.0
# What a process may take to end by itself. Then it is killed, until none is left or the time is over: one that pinned
# much memory takes seconds to be gone.
TERM_SECONDS = 2.0
KILL_SECONDS = 0.5
END_SECONDS = 12.0
# Where ssh lets in users without a job, theirs are no strays.
SSH_RULES = "/etc/pam.d/sshd"
JOB_RULE = re.compile(r"^account\s.*\bpam_slurm(_adopt)?\.so\b", re.MULTILINE)
# Slurm's states of a job in which its steps may still be ending.
ENDING = ("COMPLETING", "STAGE_OUT")
# Debian calls the program slurmstepd-wlm where it is not started by its link.
_STEP_DAEMON = "slurmstepd"
_STATUS = re.compile(r"^(Name|PPid|Uid):\t(.*)$", re.MULTILINE)
_STEP = re.compile(rf"{_STEP_DAEMON}[\w-]*: \[(\d+)[.+]")

Kill = Callable[[int, int], None]
# The groups of operators; raises Unreadable where they are not known.
Operators = Callable[[], Collection[str]]


@dataclass(frozen=True)
class Job:
    """A job that is over, its user, and the node as Slurm calls it."""

    id: str
    uid: int
    node: str


@dataclass(frozen=True)
class Process:
    """A process; ``began`` (clock ticks since boot) tells it from a later one of the same number."""

    pid: int
    began: str
    name: str = field(default="", compare=False)


def end_leftovers(
    host: Host, job: Job, operators: Operators, kill: Kill = os.kill, seconds: float = END_SECONDS
) -> list[Finding]:
    """End what the user of a job left behind, and return a finding if something is still there that should not be."""
    deadline = time.monotonic() + seconds
    # Seen before Slurm said that their user has no job here: a later one may be of a job that has begun since.
    ours: set[Process] = set()
    number, pause, tries = signal.SIGTERM, TERM_SECONDS, ASK_TIMES
    while left := processes_of(host, job.uid):
        try:
            if not ours.issuperset(left):
                if not may_end(host, job, operators, deadline):
                    return []
                ours.update(left)
        except (Unreadable, SlurmGateError) as exc:
            tries -= 1
            if not tries:
                return _still_there(job, left, ours, str(exc))
            time.sleep(ASK_AGAIN_SECONDS)
            continue
        for process in left:
            if _there(host, process):
                with suppress(ProcessLookupError):
                    kill(process.pid, number)
        _wait(host, left, pause)
        if time.monotonic() >= deadline and number == signal.SIGKILL:
            return _still_there(job, processes_of(host, job.uid), ours, "")
        number, pause = signal.SIGKILL, KILL_SECONDS
    return []


def may_end(host: Host, job: Job, operators: Operators, deadline: float) -> bool:
    """Return whether processes of the job's user may be ended; raises Unreadable or SlurmGateError."""
    least, most = parse_uid_range(_text(host.read(LOGIN_DEFINITIONS), LOGIN_DEFINITIONS))
    name = _ask(host, deadline, "getent", "passwd", str(job.uid)).partition(":")[0]
    if job.uid < least and name != MUSTER:
        return False
    if job.uid > most:
        # Whoever they are, jobs are theirs: to pass them over in silence would leave them on the node.
        raise Unreadable(f"uid {job.uid} is above UID_MAX of {LOGIN_DEFINITIONS}, expected at most {most} of a person")
    groups = operators()
    if groups:
        # A group that the host does not know, or not at present, cannot be told from one without the user.
        _ask(host, deadline, "getent", "group", *groups)
        if set(groups) & set(_ask(host, deadline, "id", "--groups", "--name", "--zero", name).split("\0")):
            return False
    steps = steps_here(host)
    answer = _ask(
        host, deadline, "squeue", "--all", f"--nodelist={job.node}", "--states=all", "--noheader", "--format=%A|%U|%T"
    )
    return not keeper(parse_node_jobs(answer), steps, job)


def keeper(jobs: Iterable[NodeJob], steps: Collection[str], job: Job) -> str:
    """Return the number of a job that processes of the user may belong to, nothing if there is none.

    ``steps`` are the jobs whose step daemons ran here before Slurm was asked for ``jobs``; an answer that lacks one of
    them is about something else: raises Unreadable. A job that is ending counts as long as its steps run, as they may
    be saving their work. The job itself counts if it is not over at all.
    """
    listed = {each.id: each for each in jobs}
    if unknown := sorted(set(steps) - {job.id} - set(listed)):
        raise Unreadable(f"squeue names no job {unknown[0]} on {job.node}, whose step daemon runs here")
    for each in listed.values():
        if each.uid != job.uid or each.over:
            continue
        if each.state not in ENDING or (each.id != job.id and each.id in steps):
            return each.id
    return ""


def parse_uid_range(text: str) -> tuple[int, int]:
    """Return UID_MIN and UID_MAX of login.defs(5); raises Unreadable."""
    found = {"UID_MIN": UID_LEAST, "UID_MAX": UID_MOST}
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in found:
            if len(words) < 2 or not words[1].isdecimal():
                raise Unreadable(f"{LOGIN_DEFINITIONS}: {line.strip()!r}, expected a number")
            found[words[0]] = int(words[1])
    return found["UID_MIN"], found["UID_MAX"]


def processes_of(host: Host, uid: int) -> list[Process]:
    """Return the processes of a user, by their real user number; one that ends meanwhile is none, nor is a zombie."""
    found = []
    for path, keys in _statuses(host):
        if _user(keys) == str(uid):
            pid = int(path.split("/")[2])
            if began := _began(host, pid):
                found.append(Process(pid, began, re.sub(r"[^ -~]", "?", keys.get("Name", ""))))
    return found


def steps_here(host: Host) -> set[str]:
    """Return the jobs whose step daemons run here, by the titles of root's: a user's process may have any title."""
    titles = [
        host.read(path.replace("/status", "/cmdline")).stdout for path, keys in _statuses(host) if _is_step_daemon(keys)
    ]
    return {match.group(1) for title in titles if (match := _STEP.match(title))}


def users_outside_steps(host: Host) -> set[str]:
    """Return the numbers of the users who have processes, none of which descends from a step daemon."""
    found = {path.split("/")[2]: keys for path, keys in _statuses(host)}
    daemons = {pid for pid, keys in found.items() if _is_step_daemon(keys)}
    inside = {_user(keys) for pid, keys in found.items() if _descends(pid, daemons, found)}
    return {_user(keys) for keys in found.values()} - inside


def note_user(state_directory: str, job: Job) -> None:
    """Keep that a user had a job here, for the health check to look for strays of; raises OSError."""
    replace_file(_users(state_directory) / str(job.uid), f"{job.id}\n", 0o600)


def end_strays(  # noqa: PLR0913, PLR0917 -- those of end_leftovers
    host: Host, node: str, state_directory: str, operators: Operators, seconds: float, kill: Kill = os.kill
) -> None:
    """End processes of users who had a job here and have none, and remember what cannot be killed.

    Slurm is asked only where no process of such a user is a job step's; without an answer nothing is ended, and nothing
    is held against the node, as a user with a job may have logged in. Raises OSError or ValueError.
    """
    noted = {path.name: path for path in _users(state_directory).glob("[0-9]*")}
    if not noted or not JOB_RULE.search(host.read(SSH_RULES).stdout):
        return
    for uid in sorted(set(noted) & users_outside_steps(host)):
        # Not that job: it may be here again.
        findings = end_leftovers(host, Job("", int(uid), node), operators, kill, seconds)
        if any(each.verdict == FAIL for each in findings):
            remember(state_directory, Job(noted[uid].read_text("ascii").strip(), int(uid), node))


def remember(state_directory: str, job: Job) -> None:
    """Keep that processes of a job's user were left, for the health check to try again; raises OSError."""
    replace_file(_records(state_directory) / job.id, f"{job.uid}\n", 0o600)


def remembered(state_directory: str) -> list[str]:
    """Return the jobs of whose users processes were left."""
    return sorted(path.name for path in _records(state_directory).glob("[0-9]*"))


def end_remembered(  # noqa: PLR0913, PLR0917 -- those of end_leftovers
    host: Host, node: str, state_directory: str, operators: Operators, seconds: float, kill: Kill = os.kill
) -> None:
    """Try again to end what was left, and forget what is done; raises OSError or ValueError."""
    for number in remembered(state_directory):
        path = _records(state_directory) / number
        if not end_leftovers(host, Job(number, int(path.read_text("ascii")), node), operators, kill, seconds):
            path.unlink(missing_ok=True)


def left_from_before(state_directory: str) -> list[Finding]:
    """Return a finding if processes that were left may still be here."""
    jobs = remembered(state_directory)
    why = f"processes of users of ended jobs may be left, and could not be ended: jobs {', '.join(jobs[:5])}"
    return [Finding(NAME, "host", INCOMPLETE, len(jobs), 0, "jobs", why, "investigate")] if jobs else []


def _still_there(job: Job, left: Sequence[Process], ours: Collection[Process], trouble: str) -> list[Finding]:
    if not left:
        return []
    names = ", ".join(f"{each.name} ({each.pid})" for each in left[:5])
    what = f"{len(left)} processes of uid {job.uid} are left after job {job.id}: {names}"
    if trouble:
        why, verdict, action = f"{what}; none was ended: {trouble}", INCOMPLETE, "investigate"
    elif all(each in ours for each in left):
        why, verdict, action = f"{what}; they cannot be killed", FAIL, "reboot"
    else:
        why, verdict, action = f"{what}; new ones begin while others are killed", INCOMPLETE, "investigate"
    return [Finding(NAME, "host", verdict, len(left), 0, "processes", why, action)]


def _wait(host: Host, left: Iterable[Process], seconds: float) -> None:
    wait_until(lambda: not any(_there(host, process) for process in left), seconds, 0.1)


def _statuses(host: Host) -> Iterator[tuple[str, Mapping[str, str]]]:
    for path in host.paths("/proc/[0-9]*/status"):
        yield path, dict(_STATUS.findall(host.read(path).stdout))


def _is_step_daemon(keys: Mapping[str, str]) -> bool:
    return _user(keys) == "0" and keys.get("Name", "").startswith(_STEP_DAEMON)


def _descends(pid: str, ancestors: Collection[str], found: Mapping[str, Mapping[str, str]]) -> bool:
    # Numbers are used again: of two processes, read one after the other, each may seem the other's parent.
    for _ in found:
        if pid in ancestors or pid not in found:
            break
        pid = found[pid].get("PPid", "")
    return pid in ancestors


def _user(keys: Mapping[str, str]) -> str:
    return keys.get("Uid", "").partition("\t")[0]


def _there(host: Host, process: Process) -> bool:
    return _began(host, process.pid) == process.began


def _began(host: Host, pid: int) -> str:
    """Return when a process began, nothing for one that has ended; a zombie has."""
    # A name may have blanks and brackets in it.
    words = host.read(f"/proc/{pid}/stat").stdout.rpartition(")")[2].split()
    return words[19] if len(words) > 19 and words[0] not in ("Z", "X") else ""


def _ask(host: Host, deadline: float, *argv: str) -> str:
    return _text(host.run(argv, max(0.1, min(ASK_SECONDS, deadline - time.monotonic()))), " ".join(argv))


def _text(output: Output, what: str) -> str:
    if output.rc == 0 and not output.error:
        return output.stdout
    said = output.error or output.stderr or output.stdout
    raise Unreadable(f"{what}: exit status {output.rc}: {' '.join(said.split())[:200] or 'no message'}")


def _users(state_directory: str) -> Path:
    return Path(state_directory) / "job_users"


def _records(state_directory: str) -> Path:
    return Path(state_directory) / "leftovers"
