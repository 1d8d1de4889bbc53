"""One Slurm job per group of nodes: how it is started, and what its output says about the group."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .collective import decode
from .host import Output

# Older campaigns' jobs are recognised by this beginning of the name.
JOB_PREFIX = "muster-acceptance"
# Slurm states (``sinfo %T``) in which an exclusive job can start now; "completing" ends by itself within seconds,
# "planned" is an idle node that the scheduler had in mind for a job, often our own of the round before.
USABLE_STATES = ("idle", "completing", "planned")
# States that a node leaves by itself when its slurmd was started a moment ago. "*": it does not answer slurmctld yet.
PASSING_STATES = ("*", "unk", "boot", "powering_up")
# What ranks report the versions of.
LIBRARIES = ("torch", "nccl")
_LAUNCH_FAILED = re.compile(
    r"(?:launch (?:for StepId=\S+ )?failed on node|Node failure on|Unable to contact slurm daemon on|"
    r"Couldn't launch .* on node) ([A-Za-z0-9._-]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Job:
    """One group's collective. Rank 0 listens on ``port``; ``addresses`` by node, where its name does not resolve."""

    name: str
    group: tuple[str, ...]
    addresses: Mapping[str, str]
    port: int


@dataclass(frozen=True)
class Settings:
    """What all jobs of a round share. A rank has ``deadline_seconds`` in all, ``timeout_seconds`` for each step."""

    partition: str
    python: str
    program: str
    backend: str
    ranks_per_node: int
    sizes: tuple[int, ...]
    iterations: int
    warmup: int
    deadline_seconds: int
    timeout_seconds: int


def job_name(campaign: str, round_number: int, index: int, attempt: str) -> str:
    """Return the name that this group's job has in this attempt and no other, so that cancelling hits no later one."""
    return f"{JOB_PREFIX}-{campaign}-{round_number}-{index}-{attempt}"


def srun_argv(job: Job, settings: Settings) -> list[str]:
    """Return the command that runs one group's collective in an allocation of its own."""
    nodes = len(job.group)
    return [
        "srun",
        f"--job-name={job.name}",
        f"--partition={settings.partition}",
        "--exclusive",
        f"--nodes={nodes}",
        f"--ntasks={nodes * settings.ranks_per_node}",
        f"--ntasks-per-node={settings.ranks_per_node}",
        "--distribution=block",
        # The whole node is ours: communication threads need more than the one CPU that a task is bound to.
        "--cpu-bind=none",
        "--mem=0",
        f"--nodelist={','.join(job.group)}",
        f"--time={math.ceil(settings.deadline_seconds / 60) + 1}",
        # The ranks report a hang themselves; one that ended has nothing more to wait for.
        "--wait=15",
        "--mpi=none",
        "--chdir=/",
        "--input=none",
        settings.python,
        settings.program,
        "collective",
        f"--backend={settings.backend}",
        f"--addresses={','.join(f'{node}={job.addresses[node]}' for node in job.group if node in job.addresses)}",
        f"--port={job.port}",
        f"--sizes={','.join(str(size) for size in settings.sizes)}",
        f"--iterations={settings.iterations}",
        f"--warmup={settings.warmup}",
        f"--timeout={settings.timeout_seconds}",
        f"--deadline={settings.deadline_seconds}",
    ]


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
    """Return whether ``squeue --noheader --format=%i|%j`` lists any acceptance job, of whichever campaign."""
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
        "ranks": [],
        "missing": list(group),
        "unavailable": dict(unavailable or {}),
    }


def observe(group: Sequence[str], settings: Settings, output: Output, states: Mapping[str, str]) -> dict[str, Any]:
    """Return what one group's job showed. ``output`` is srun's, with ``rc`` None when it was ended at its deadline.

    ``ok`` means that every rank of every node gave one whole line with correct data for every size and iteration, and
    that srun ended with 0. Speed is judged elsewhere. ``states`` are the nodes' Slurm states after the job: a member
    without a line that Slurm has lost is ``unavailable``, gone rather than slow.
    """
    records, faults = decode(output.stdout)
    ranks: list[dict[str, Any]] = []
    errors: list[str] = list(faults)
    seen: set[int] = set()
    per_node = dict.fromkeys(group, 0)
    for record in records:
        rank, node = record.get("rank"), record.get("node")
        if not isinstance(rank, int) or not isinstance(node, str) or node not in per_node or rank in seen:
            errors.append(f"a line of rank {rank!r} on {node!r} that nobody asked for")
            continue
        seen.add(rank)
        sizes, fault = _checked_sizes(record.get("sizes"), settings)
        said = record.get("error")
        if said or fault:
            errors.append(f"rank {rank} on {node}: {said or fault}")
        else:
            per_node[node] += 1
        ranks.append(
            {
                "node": node,
                "rank": rank,
                "sizes": sizes,
                "error": str(said or ""),
                "phase": record.get("phase"),
                "versions": _versions(record.get("versions")),
            }
        )
    answered = {rank["node"] for rank in ranks}
    missing = [node for node in group if node not in answered]
    if missing:
        errors.append(f"no result from {', '.join(missing)}")
    short = [f"{node} {per_node[node]}" for node in group if per_node[node] != settings.ranks_per_node]
    if short and not errors:
        errors.append(f"complete ranks: {', '.join(short)}, expected {settings.ranks_per_node} each")
    gone = {
        node: f"launch failed: {_said(output.stderr)}"
        for node in _LAUNCH_FAILED.findall(output.stderr)
        if node in missing
    }
    gone.update(
        {node: states[node] for node in missing if node in states and ("down" in states[node] or "*" in states[node])}
    )
    if output.rc is None:
        errors.append(f"not finished after {settings.deadline_seconds} s, cancelled")
    elif output.rc != 0:
        # What ranks say is clearer than how srun ended them.
        errors.append(f"srun ended with {output.rc}" + ("" if errors else f": {_said(output.stderr)}"))
    return {
        "group": list(group),
        "ok": not errors,
        "started": True,
        "error": "; ".join(errors)[:2000],
        "ranks": sorted(ranks, key=lambda rank: rank["rank"]),
        "missing": missing,
        "unavailable": gone,
    }


def _checked_sizes(sizes: Any, settings: Settings) -> tuple[list[dict[str, Any]], str]:
    """Return the sizes that can be read and the first thing that is wrong with them."""
    kept: list[dict[str, Any]] = []
    fault = ""
    for size in sizes if isinstance(sizes, list) else []:
        seconds = size.get("seconds") if isinstance(size, dict) else None
        if (
            not isinstance(seconds, list)
            or not isinstance(size.get("bytes"), int)
            or not all(isinstance(value, (int, float)) and math.isfinite(value) and value > 0 for value in seconds)
        ):
            fault = fault or f"unreadable measurement {str(size)[:80]}"
            continue
        correct = size.get("correct") is True
        if len(seconds) != settings.iterations:
            fault = fault or f"{len(seconds)} iterations of {size['bytes']} bytes, expected {settings.iterations}"
        elif not correct:
            fault = fault or f"{size.get('wrong', 'some')} wrong elements in {size['bytes']} bytes"
        kept.append({"bytes": size["bytes"], "seconds": seconds, "correct": correct, "wrong": size.get("wrong", 0)})
    found = [size["bytes"] for size in kept]
    if not fault and found != list(settings.sizes):
        fault = f"sizes {found}, expected {list(settings.sizes)}"
    return kept, fault


def _versions(said: Any) -> dict[str, str]:
    """Return the versions of the libraries that a rank used, without what is no version of one."""
    items = said.items() if isinstance(said, dict) else ()
    return {name: text[:80] for name, text in items if name in LIBRARIES and isinstance(text, str)}


def _said(stderr: str) -> str:
    """Return the end of what srun printed, in one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return "; ".join(lines[-3:])[:400] or "nothing printed"
