"""Rounds of Slurm jobs: one exclusive job for each group of nodes, all at the same time, each to its deadline."""

from __future__ import annotations

import grp
import math
import os
import pwd
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Protocol

from ..host.host import Output
from ..host.host_lists import fold, in_order
from ..host.waiting import poll, wait_until
from ..words.errors import MusterError

# Slurm answers in milliseconds; a controller that needs longer than this is not one to measure with.
SLURM_SECONDS = 20
POLL_SECONDS = 0.2
# What srun needs to end once its job is cancelled.
CANCEL_SECONDS = 15
# How often a round that waits looks for jobs of strangers before its own, and how many it cancels at one look.
STRANGERS_SECONDS = 10.0
STRANGERS_AT_ONCE = 500


# Linux' MAX_ARG_STRLEN.
ARGUMENT_LIMIT_BYTES = 128 * 1024
# What can still hold nodes. One that is completing cannot be cancelled any more, and may be so for all of KillWait.
LIVE_STATES = "PENDING,CONFIGURING,RUNNING,SUSPENDED,STOPPED,RESIZING,SIGNALING"
# Older campaigns' jobs are recognised by this beginning of the name.
JOB_PREFIX = "muster-round"
# Slurm states (``sinfo %T``) in which an exclusive job can start now, or by itself soon: "completing" ends with the job
# before, until when Slurm keeps the next one pending; "planned" is an idle node that the scheduler had in mind for a
# job, often our own of the round before.
USABLE_STATES = ("idle", "completing", "planned")
# States of a node on which somebody's job runs.
BUSY_STATES = ("allocated", "mixed")
# States that a node leaves by itself when its slurmd was started a moment ago. "*": it does not answer slurmctld yet.
PASSING_STATES = ("*", "unk", "boot", "powering_up")
_LAUNCH_FAILED = re.compile(
    r"(?:launch (?:for StepId=\S+ )?failed on node|Node failure on|Unable to contact slurm daemon on|"
    r"Couldn't launch .* on node) ([A-Za-z0-9._-]+)",
    re.IGNORECASE,
)


class SlurmError(MusterError):
    """Slurm could not be asked; says which tool and what it answered."""


@dataclass(frozen=True)
class Patience:
    """For which nodes, should users' jobs be on them, a round waits in Slurm's queue, and how many seconds."""

    nodes: frozenset[str] = frozenset()
    seconds: int = 0


@dataclass(frozen=True)
class Job:
    """One group's job. Its first node listens on ``port``; ``addresses`` by node, where its name does not resolve."""

    name: str
    group: tuple[str, ...]
    addresses: Mapping[str, str]
    port: int


@dataclass(frozen=True)
class NodeShare:
    """What a job has on each of its nodes: processes, and those of its GPUs that Slurm hands out."""

    tasks: int
    gpus: int


NO_PATIENCE = Patience()


class Work(Protocol):
    """What all jobs of a round do; ``round_job.RoundJob`` is it."""

    @property
    def deadline_seconds(self) -> int: ...

    def argv(self, job: Job) -> list[str]:
        """Return the whole command of one group's job, beginning with srun."""

    def observe(self, group: Sequence[str], output: Output, states: Mapping[str, str]) -> dict[str, Any]:
        """Return what a job that was started showed; see ``not_started`` for the keys that all observations have."""


class Slurm:
    """Slurm's commands, run as the unprivileged user unless a method says otherwise."""

    def __init__(self, user: str, partition: str, environment: dict[str, str]) -> None:
        account = pwd.getpwnam(user)
        self.user = user
        self.partition = partition
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", **environment}
        # Whom Slurm lets use the partition (AllowGroups).
        self.members = {"root", user, *grp.getgrgid(account.pw_gid).gr_mem}
        self.identity: dict[str, Any] = {}
        if os.geteuid() != account.pw_uid:
            groups = os.getgrouplist(user, account.pw_gid)
            self.identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}

    def ask(self, *argv: str, as_root: bool = False) -> str:
        """Return what a short command prints, run as the user unless ``as_root``; raises SlurmError."""
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SLURM_SECONDS,
                env=self.environment,
                cwd="/",
                check=False,
                **({} if as_root else self.identity),
            )
        except (OSError, subprocess.SubprocessError) as exc:
            raise SlurmError(f"{argv[0]}: {exc}") from exc
        if done.returncode:
            raise SlurmError(f"{argv[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode(errors="replace")

    def states(self) -> dict[str, str]:
        """Return the state of every node of the partition."""
        return parse_states(
            self.ask("sinfo", "--noheader", "--Node", f"--partition={self.partition}", "--format=%N|%T")
        )

    def settled_states(self, nodes: list[str], seconds: float) -> dict[str, str]:
        """Return the states of the partition's nodes once none of ``nodes`` is on its way, or after ``seconds``.

        Nodes may also wait for another round's job, such as that of a run which was killed.
        """

        def settled(states: Mapping[str, str]) -> bool:
            unusable = unavailable_nodes(nodes, states).values()
            if any(may_recover(state) for state in unusable):
                return False
            return "allocated" not in unusable or not held_by(self._own_jobs())

        states = poll(self.states, settled, seconds, 5 * POLL_SECONDS)
        # A job that ended between the two answers held its nodes in the first, and was gone in the second.
        return self.states() if "allocated" in unavailable_nodes(nodes, states).values() else states

    def jobs(self, campaign: str) -> list[str]:
        """Return the ids of a campaign's jobs that are pending or running."""
        return parse_jobs(self._own_jobs(), campaign)

    def pending(self) -> dict[str, str]:
        """Return why each pending job of the user waits, by job name."""
        lines = self._squeue("PENDING", "%j|%r")
        return dict(line.strip().split("|", 1) for line in lines.splitlines() if "|" in line)

    def cancel(self, campaign: str) -> list[str]:
        """Cancel a campaign's jobs, wait until they are ending and return their ids; raises SlurmError."""
        cancelled = self.jobs(campaign)
        if cancelled:
            # With --user it fails where one of them has ended meanwhile.
            self.ask("scancel", *cancelled)
            if not wait_until(lambda: not self.jobs(campaign), CANCEL_SECONDS, POLL_SECONDS):
                raise SlurmError(f"jobs {', '.join(cancelled)} of an earlier attempt did not end when cancelled")
        return cancelled

    def cancel_strangers(self) -> None:
        """Cancel the jobs that wait in the partition and whose users may not use it.

        Slurm before 23.11 refuses them. Since then it lets them wait and plans nodes for them, for which the user's own
        jobs would wait in turn. Raises SlurmError if Slurm does not answer.
        """
        filters = f"--partition={self.partition}", "--states=PENDING"
        waiting = self.ask("squeue", "--noheader", "--all", *filters, "--format=%A|%u", as_root=True)
        if strangers := parse_strangers(waiting, self.members):
            # It fails where one of them has ended meanwhile. What stays shows: a job of the round does not start.
            with suppress(SlurmError):
                self.ask("scancel", "--state=PENDING", *strangers[:STRANGERS_AT_ONCE], as_root=True)

    def _own_jobs(self) -> str:
        return self._squeue(LIVE_STATES, "%i|%j")

    def _squeue(self, states: str, form: str) -> str:
        # Without --all squeue is silent about a hidden partition, to all but root and Slurm's own user.
        filters = f"--user={self.user}", f"--states={states}"
        return self.ask("squeue", "--noheader", "--all", *filters, f"--format={form}")


class Running:
    """One started srun; its output goes to files, so that none of many can block on a full pipe."""

    def __init__(self, slurm: Slurm, job: Job, work: Work) -> None:
        self.job = job
        self.started = False
        self.cancelled = False
        self.out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process that writes it
        self.err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            work.argv(job),
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.err,
            env=slurm.environment,
            cwd="/",
            start_new_session=True,
            **slurm.identity,
        )

    def finish(self) -> Output:
        """Return what srun printed and its exit status, None if it had to be ended."""
        rc = self.process.poll()
        if rc is None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(CANCEL_SECONDS)
            if self.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        # Once its job is cancelled srun may be quick to end by itself; its exit status says nothing of the group then.
        return Output(texts[0], texts[1], None if self.cancelled and rc else rc)


def run_round(
    slurm: Slurm, jobs: list[Job], work: Work, start_seconds: int, patience: Patience = NO_PATIENCE
) -> list[dict[str, Any]]:
    """Run all jobs at once and return one observation per job; raises SlurmError if Slurm stops answering."""
    states = slurm.settled_states([node for job in jobs for node in job.group], start_seconds)
    slurm.cancel_strangers()
    observations: dict[str, dict[str, Any]] = {}
    running: list[Running] = []
    for job in jobs:
        unusable = unavailable_nodes(job.group, states)
        if patience.seconds:
            unusable = {
                node: state
                for node, state in unusable.items()
                if node not in patience.nodes or state not in BUSY_STATES
            }
        if unusable:
            said = ", ".join(f"{node} is {state}" for node, state in unusable.items())
            observations[job.name] = not_started(job.group, f"not started: {said}", unusable)
        else:
            running.append(Running(slurm, job, work))
    if any(states.get(node) in BUSY_STATES for node in patience.nodes):
        # Slurm starts their jobs once those who were there first have ended; it preempts nobody.
        start_seconds += patience.seconds
    begin = time.monotonic()
    waiting = wait_to_start(slurm, running, begin + start_seconds)
    # A job that still waits for its nodes says nothing about them; one that runs has its own deadline.
    pending = slurm.pending() if waiting else {}
    for item in waiting:
        item.started = item.job.name not in pending
        if not item.started:
            slurm.ask("scancel", f"--user={slurm.user}", f"--name={item.job.name}")
    late = wait_for([item for item in waiting if item.started], begin + start_seconds + work.deadline_seconds)
    for item in late:
        item.cancelled = True
        slurm.ask("scancel", f"--user={slurm.user}", f"--name={item.job.name}")
    after = slurm.states()
    for item in running:
        output = item.finish()
        if item.job.name in pending:
            why = f"not started within {start_seconds} s: {pending[item.job.name]}"
            unusable = unavailable_nodes(item.job.group, after)
            observations[item.job.name] = not_started(item.job.group, why, unusable)
        elif "Unable to allocate resources" in output.stderr:
            observations[item.job.name] = not_started(item.job.group, output.stderr.strip()[:400])
        else:
            observations[item.job.name] = work.observe(item.job.group, output, after)
    return [observations[job.name] for job in jobs]


def wait_to_start(slurm: Slurm, items: list[Running], end: float) -> list[Running]:
    """Return those that still run at ``end`` (monotonic seconds); meanwhile no stranger's job comes before theirs."""
    while items := wait_for(items, min(time.monotonic() + STRANGERS_SECONDS, end)):
        if time.monotonic() >= end:
            break
        # They go on without it.
        with suppress(SlurmError):
            slurm.cancel_strangers()
    return items


def wait_for(items: list[Running], end: float) -> list[Running]:
    """Return those that still run at ``end`` (monotonic seconds)."""
    for item in items:
        with suppress(subprocess.TimeoutExpired):
            item.process.wait(max(0.0, end - time.monotonic()))
    return [item for item in items if item.process.poll() is None]


def job_name(campaign: str, round_number: int, index: int, attempt: str) -> str:
    """Return the name that this group's job has in this attempt and no other, so that cancelling hits no later one."""
    return f"{JOB_PREFIX}-{campaign}-{round_number}-{index}-{attempt}"


def srun_argv(job: Job, partition: str, each: NodeShare, deadline_seconds: int, command: Sequence[str]) -> list[str]:
    """Return the command that runs ``command`` on one group's nodes in an allocation of its own.

    ``command`` may begin with options of srun, which stand above those given here. Raises SlurmError for names that
    Linux does not take in one argument.
    """
    nodes = len(job.group)
    # Slurm sorts the nodes of a job itself (srun(1), --nodelist), so that the group's order is lost in any case.
    names = fold(in_order(job.group))
    if len(names) >= ARGUMENT_LIMIT_BYTES - len("--nodelist="):
        raise SlurmError(
            f"the names of {nodes} nodes are {len(names)} bytes as a host list, one argument is at most "
            f"{ARGUMENT_LIMIT_BYTES}: Slurm folds the number at the end of a name only"
        )
    return [
        "srun",
        f"--job-name={job.name}",
        f"--partition={partition}",
        "--exclusive",
        f"--nodes={nodes}",
        # An exclusive job has all GPUs of its nodes, its step those alone that were asked for (srun(1), --gres).
        *([f"--gres=gpu:{each.gpus}"] if each.gpus else []),
        f"--ntasks={nodes * each.tasks}",
        f"--ntasks-per-node={each.tasks}",
        "--distribution=block",
        # The whole node is ours: communication threads need more than the one CPU that a task is bound to.
        "--cpu-bind=none",
        "--mem=0",
        f"--nodelist={names}",
        f"--time={math.ceil(deadline_seconds / 60) + 1}",
        # When Slurm loses a node, or a task fails, the others go on and tell what they measured (srun(1)).
        "--no-kill",
        "--kill-on-bad-exit=0",
        # The tasks report a hang themselves; one that ended has nothing more to wait for.
        "--wait=15",
        "--mpi=none",
        "--chdir=/",
        "--input=none",
        *command,
    ]


def parse_strangers(output: str, members: Collection[str]) -> list[str]:
    """Return the jobs whose users are none of ``members``, from ``squeue --format=%A|%u``."""
    pairs = [line.strip().partition("|") for line in output.splitlines()]
    return list(dict.fromkeys(number for number, bar, user in pairs if bar and user not in members))


def parse_states(output: str) -> dict[str, str]:
    """Return each node's Slurm state from ``sinfo --noheader --Node --format=%N|%T`` (``gpu-01|idle``)."""
    states: dict[str, str] = {}
    for line in output.splitlines():
        name, bar, state = line.strip().partition("|")
        if bar and name:
            states[name] = state.strip().lower()
    return states


def parse_jobs(output: str, campaign: str) -> list[str]:
    """Return the ids of a campaign's jobs from ``squeue --noheader --format=%i|%j``."""
    begin = f"{JOB_PREFIX}-{campaign}-"
    pairs = (line.strip().partition("|") for line in output.splitlines())
    return [number for number, bar, name in pairs if bar and name.startswith(begin)]


def unavailable_nodes(group: Iterable[str], states: Mapping[str, str]) -> dict[str, str]:
    """Return the members on which no exclusive job can start now, with what Slurm calls their state."""
    return {
        node: states.get(node, "unknown to the partition")
        for node in group
        if states.get(node, "") not in USABLE_STATES
    }


def held_by(output: str) -> bool:
    """Return whether ``squeue --noheader --format=%i|%j`` lists a job of any campaign."""
    return any(line.partition("|")[2].startswith(f"{JOB_PREFIX}-") for line in output.splitlines())


def may_recover(state: str) -> bool:
    """Return whether a node in this state may become usable without anybody's doing."""
    return any(mark in state for mark in PASSING_STATES)


def not_started(group: Sequence[str], error: str, unavailable: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the observation of a group whose job never ran."""
    return {
        "group": list(group),
        "ok": False,
        "started": False,
        "error": error,
        "missing": list(group),
        "unavailable": dict(unavailable or {}),
    }


def trouble_of(output: Output, missing: Sequence[str], states: Mapping[str, str]) -> dict[str, str]:
    """Return which of the nodes without an answer Slurm has lost, and why: gone rather than slow."""
    gone = {
        node: f"lost by Slurm: {said(output.stderr)}"
        for node in _LAUNCH_FAILED.findall(output.stderr)
        if node in missing
    }
    gone.update(
        {node: states[node] for node in missing if node in states and ("down" in states[node] or "*" in states[node])}
    )
    return gone


def ending_of(output: Output, deadline_seconds: int, told: bool) -> list[str]:
    """Return what is wrong with how srun ended; ``told``: the tasks have said more than it could."""
    if output.rc is None:
        return [f"not finished after {deadline_seconds} s, cancelled"]
    if output.rc != 0:
        return [f"srun ended with {output.rc}" + ("" if told else f": {said(output.stderr)}")]
    return []


def said(stderr: str) -> str:
    """Return the end of what srun printed, in one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return "; ".join(lines[-3:])[:400] or "nothing printed"
