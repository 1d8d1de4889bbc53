#!/usr/bin/python
"""Run one round of acceptance collectives through Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: collective_round
short_description: Run one round of acceptance collectives through Slurm
version_added: 0.1.0
description:
  - Runs on a host that can submit Slurm jobs, as root. Starts one exclusive job per group of nodes, all at the same
    time, as an unprivileged user, and waits until each has ended or has reached its deadline.
  - What a group does never fails the module, it is an observation. The module fails only where Slurm itself does not
    answer.
  - Jobs of the same campaign that an interrupted run left behind are cancelled first; jobs past their deadline are
    cancelled too.
options:
  campaign:
    description: Identity of the acceptance campaign; part of every job name.
    type: str
    required: true
  number:
    description: Number of the round within the campaign.
    type: int
    required: true
  groups:
    description: Disjoint lists of node names; each list is one collective.
    type: list
    elements: list
    required: true
  addresses:
    description: Address by node name, used for the rendezvous. A node that is not listed must resolve by name.
    type: dict
    default: {}
  collective:
    description: >-
      The hardware class' collective settings. Used here are C(backend), C(ranks_per_node), C(python), C(sizes_bytes),
      C(iterations) and C(warmup).
    type: dict
    required: true
  environment:
    description: Variables that the ranks get, beyond a plain PATH.
    type: dict
    default: {}
  port:
    description: Port on which the first group's rank 0 listens; each further group takes the next one, of a hundred.
    type: int
    required: true
  partition:
    description: Slurm partition that only the user may use.
    type: str
    default: acceptance
  user:
    description: User as whom the jobs run.
    type: str
    default: muster
  program:
    description: Path of the muster program on the nodes.
    type: str
    default: /usr/libexec/muster/muster
  start_seconds:
    description: How long a job may wait until Slurm starts it, and nodes until their slurmd answers.
    type: int
    default: 30
  timeout_seconds:
    description: How long ranks wait for each other, at the start and in each collective.
    type: int
    default: 60
  deadline_seconds:
    description: How long a rank may take in all.
    type: int
    default: 300
author:
  - The Muster developers (@muster-cluster)
"""

EXAMPLES = r"""
- name: Measure two pairs at the same time
  muster.cluster.collective_round:
    campaign: 5f2a9c
    number: 1
    groups: [[gpu-01, gpu-02], [gpu-03, gpu-04]]
    port: 29400
    collective:
      backend: gloo
      ranks_per_node: 1
      python: /usr/bin/python3
      sizes_bytes: [65536, 8388608]
      iterations: 10
      warmup: 3
    environment:
      GLOO_SOCKET_IFNAME: eth0
"""

RETURN = r"""
observations:
  description: One entry per group, in the order of I(groups).
  returned: always
  type: list
  elements: dict
  sample:
    - group: [gpu-01, gpu-02]
      ok: true
      started: true
      error: ""
      missing: []
      unavailable: {}
      ranks:
        - node: gpu-01
          rank: 0
          error: ""
          phase: end
          versions: {torch: 2.6.0+cpu}
          sizes: [{bytes: 8388608, seconds: [0.0163], correct: true, wrong: 0}]
cancelled:
  description: Ids of jobs left behind by an earlier attempt.
  returned: always
  type: list
  elements: str
  sample: []
"""

import os
import pwd
import signal
import subprocess
import tempfile
import time
import uuid
from contextlib import suppress
from typing import IO, Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.collective_job import (
    Job,
    Settings,
    held_by,
    job_name,
    may_recover,
    not_started,
    observe,
    parse_jobs,
    parse_states,
    srun_argv,
    unavailable_nodes,
)
from ansible_collections.muster.cluster.plugins.module_utils.host import Output

# Slurm answers in milliseconds; a controller that needs longer than this is not one to measure with.
SLURM_SECONDS = 20
POLL_SECONDS = 0.2
# What srun needs to end once its job is cancelled.
CANCEL_SECONDS = 15


class SlurmError(Exception):
    """Slurm could not be asked; says which tool and what it answered."""


class Slurm:
    """Slurm's commands, run as the unprivileged user."""

    def __init__(self, user: str, partition: str, environment: dict[str, str]) -> None:
        account = pwd.getpwnam(user)
        self.user = user
        self.partition = partition
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", **environment}
        self.identity: dict[str, Any] = {}
        if os.geteuid() != account.pw_uid:
            groups = os.getgrouplist(user, account.pw_gid)
            self.identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}

    def ask(self, *argv: str) -> str:
        """Return what a short command prints; raises SlurmError."""
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SLURM_SECONDS,
                env=self.environment,
                cwd="/",
                check=False,
                **self.identity,
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

        Nodes may also wait for another acceptance job, such as that of a run which was killed.
        """
        end = time.monotonic() + seconds
        while True:
            states = self.states()
            unusable = unavailable_nodes(nodes, states).values()
            waits = any(may_recover(state) for state in unusable) or (
                "allocated" in unusable
                and held_by(self.ask("squeue", "--noheader", f"--user={self.user}", "--format=%i|%j"))
            )
            if not waits or time.monotonic() >= end:
                return states
            time.sleep(5 * POLL_SECONDS)

    def jobs(self, campaign: str) -> list[str]:
        """Return the ids of a campaign's jobs that are pending, running or completing."""
        return parse_jobs(self.ask("squeue", "--noheader", f"--user={self.user}", "--format=%i|%j"), campaign)

    def pending(self) -> dict[str, str]:
        """Return why each pending job of the user waits, by job name."""
        lines = self.ask("squeue", "--noheader", f"--user={self.user}", "--states=PENDING", "--format=%j|%r")
        return dict(line.strip().split("|", 1) for line in lines.splitlines() if "|" in line)

    def cancel(self, campaign: str) -> list[str]:
        """Cancel a campaign's jobs, wait until they are gone and return their ids; raises SlurmError."""
        cancelled = self.jobs(campaign)
        if cancelled:
            self.ask("scancel", f"--user={self.user}", *cancelled)
            end = time.monotonic() + CANCEL_SECONDS
            while self.jobs(campaign):
                if time.monotonic() > end:
                    raise SlurmError(f"jobs {', '.join(cancelled)} of an earlier attempt did not end when cancelled")
                time.sleep(POLL_SECONDS)
        return cancelled


class Running:
    """One started srun; its output goes to files, so that none of many can block on a full pipe."""

    def __init__(self, slurm: Slurm, job: Job, settings: Settings) -> None:
        self.job = job
        self.started = False
        self.out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process that writes it
        self.err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            srun_argv(job, settings),
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
        return Output(texts[0], texts[1], rc)


def run_round(slurm: Slurm, jobs: list[Job], settings: Settings, start_seconds: int) -> list[dict[str, Any]]:
    """Run all jobs at once and return one observation per job; raises SlurmError if Slurm stops answering."""
    states = slurm.settled_states([node for job in jobs for node in job.group], start_seconds)
    observations: dict[str, dict[str, Any]] = {}
    running: list[Running] = []
    for job in jobs:
        unusable = unavailable_nodes(job.group, states)
        if unusable:
            said = ", ".join(f"{node} is {state}" for node, state in unusable.items())
            observations[job.name] = not_started(job.group, f"not started: {said}", unusable)
        else:
            running.append(Running(slurm, job, settings))
    begin = time.monotonic()
    waiting = wait_for(running, begin + start_seconds)
    # A job that still waits for its nodes says nothing about them; one that runs has its own deadline.
    pending = slurm.pending() if waiting else {}
    for item in waiting:
        item.started = item.job.name not in pending
        if not item.started:
            slurm.ask("scancel", f"--user={slurm.user}", f"--name={item.job.name}")
    late = wait_for([item for item in waiting if item.started], begin + start_seconds + settings.deadline_seconds)
    for item in late:
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
            observations[item.job.name] = observe(item.job.group, settings, output, after)
    return [observations[job.name] for job in jobs]


def wait_for(items: list[Running], end: float) -> list[Running]:
    """Return those that still run at ``end`` (monotonic seconds)."""
    while True:
        left = [item for item in items if item.process.poll() is None]
        if not left or time.monotonic() >= end:
            return left
        time.sleep(POLL_SECONDS)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "campaign": {"type": "str", "required": True},
            "number": {"type": "int", "required": True},
            "groups": {"type": "list", "elements": "list", "required": True},
            "addresses": {"type": "dict", "default": {}},
            "collective": {"type": "dict", "required": True},
            "environment": {"type": "dict", "default": {}},
            "port": {"type": "int", "required": True},
            "partition": {"type": "str", "default": "acceptance"},
            "user": {"type": "str", "default": "muster"},
            "program": {"type": "str", "default": "/usr/libexec/muster/muster"},
            "start_seconds": {"type": "int", "default": 30},
            "timeout_seconds": {"type": "int", "default": 60},
            "deadline_seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        settings = Settings(
            partition=given["partition"],
            python=str(given["collective"]["python"]),
            program=given["program"],
            backend=str(given["collective"]["backend"]),
            ranks_per_node=int(given["collective"]["ranks_per_node"]),
            sizes=tuple(int(size) for size in given["collective"]["sizes_bytes"]),
            iterations=int(given["collective"]["iterations"]),
            warmup=int(given["collective"]["warmup"]),
            deadline_seconds=given["deadline_seconds"],
            timeout_seconds=given["timeout_seconds"],
        )
    except (KeyError, TypeError, ValueError) as exc:
        module.fail_json(msg=f"collective: {type(exc).__name__} {exc}, expected the class' collective settings")
    attempt = uuid.uuid4().hex[:8]
    jobs = [
        Job(
            name=job_name(given["campaign"], given["number"], index, attempt),
            group=tuple(group),
            addresses=given["addresses"],
            port=given["port"] + index % 100,
        )
        for index, group in enumerate(given["groups"])
    ]
    for tool in ("srun", "sinfo", "squeue", "scancel"):
        module.get_bin_path(tool, required=True)
    try:
        pwd.getpwnam(given["user"])
    except KeyError:
        module.fail_json(msg=f"user {given['user']} does not exist here; acceptance jobs run as that user")
    if module.check_mode:
        module.exit_json(changed=False, observations=[], cancelled=[])
    environment = {key: str(value) for key, value in given["environment"].items()}
    try:
        slurm = Slurm(given["user"], given["partition"], environment)
        cancelled = slurm.cancel(given["campaign"])
        observations = run_round(slurm, jobs, settings, given["start_seconds"])
    except SlurmError as exc:
        module.fail_json(msg=f"Slurm did not answer: {exc}")
    module.exit_json(changed=False, observations=observations, cancelled=cancelled)


if __name__ == "__main__":
    main()
