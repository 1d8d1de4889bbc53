"""A program's phases by what runs them: PyTorch on the hosts, PyTorch in the declared image, or nccl-tests.

Each is a step of its own, one after the other; a job's observations become one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..collectives.collective_program import GROUPS, INSIDE, Phase, read_program
from .collective_job import CollectiveCodec, runs
from .nccl_tests_job import NcclTestsCodec
from .round_job import RoundJob
from .slurm_round import NO_PATIENCE, Job, Patience, Slurm, run_round, unavailable_nodes

TORCH, NCCL_TESTS = "torch", "nccl_tests"
DRIVERS = (TORCH, NCCL_TESTS)
# Beside what nccl-tests may measure: its start, and NCCL's.
NCCL_TESTS_START_SECONDS = 120
# More nodes in service than these a campaign needs at no time.
MOST_IDLE = 64
# A step that could only begin after the round's end is not begun.
LEAST_SECONDS = 5


@dataclass(frozen=True)
class CollectiveRequest:
    """What a round is asked to do in each job, all of it as PyTorch on the hosts would, and what else runs a part."""

    driver: str
    container: str | None
    container_python: str
    partition: str
    gpus_per_node: int
    deadline_seconds: int
    torch: CollectiveCodec

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> CollectiveRequest:
        """Return what a module's arguments ask for; raises KeyError, TypeError or ValueError."""
        collective = given["collective"]
        if collective["driver"] not in DRIVERS:
            raise ValueError(f"driver is {collective['driver']!r}, expected one of {', '.join(DRIVERS)}")
        torch = CollectiveCodec(
            python=given["python"],
            executable=given["executable"],
            backend=str(collective["backend"]),
            tasks_per_node=int(collective["ranks_per_node"]),
            program=given["program"],
            timeout_seconds=given["timeout_seconds"],
            links=tuple(given.get("links", ())),
            groups=tuple(map(tuple, given["groups"])),
        )
        image = collective["container"], str(collective["container_python"])
        place = given["partition"], given["gpus_per_node"], given["deadline_seconds"]
        return cls(collective["driver"], *image, *place, torch)

    def check(self, group: Sequence[str]) -> None:
        """Raise ProgramError unless the program can be run by a group's job."""
        self.torch.program_for(group)

    def torch_job(self, phases: Sequence[Mapping[str, Any]], container: str | None = None) -> RoundJob:
        """Return the work of the jobs in which PyTorch runs a part of the program: the hosts', or that of an image."""
        python = self.torch.python if container is None else self.container_python
        codec = replace(self.torch, python=python, program={"moves": phases}, container=container)
        return RoundJob(self.partition, self.gpus_per_node, self.deadline_seconds, codec)

    def step(self, phases: Sequence[Mapping[str, Any]], jobs: Sequence[Job], container: str | None = None) -> Step:
        """Return the step in which PyTorch runs these phases, of those jobs that run any."""
        work = self.torch_job(phases, container)
        of = tuple(number for number, _job in enumerate(jobs) if any(runs(phase, number) for phase in phases))
        return Step(work, tuple(jobs[number] for number in of), of)


@dataclass(frozen=True)
class Step:
    """Jobs that run at the same time; ``of`` is, for each, which of the round's jobs it is a part of."""

    work: RoundJob
    jobs: tuple[Job, ...]
    of: tuple[int, ...]


def steps(asked: CollectiveRequest, jobs: Sequence[Job]) -> Iterator[Step]:
    """Yield the steps that run the program: what is inside nodes first, then all that PyTorch runs on the hosts."""
    apart: list[Mapping[str, Any]] = []
    together: list[Mapping[str, Any]] = []
    inside: list[Mapping[str, Any]] = []
    for phase in asked.torch.program["moves"]:
        if asked.driver == NCCL_TESTS and phase["kind"] in (INSIDE, GROUPS):
            apart.append(phase)
        elif asked.container is not None and phase["kind"] == INSIDE:
            inside.append(phase)
        else:
            together.append(phase)
    if inside:
        yield asked.step(inside, jobs, asked.container)
    for data in [phase for phase in apart if phase["kind"] == INSIDE]:
        yield _nccl_tests(asked, data, jobs)
    if together:
        yield asked.step(together, jobs)
    for data in [phase for phase in apart if phase["kind"] == GROUPS]:
        yield _nccl_tests(asked, data, jobs)


def _nccl_tests(asked: CollectiveRequest, data: Mapping[str, Any], jobs: Sequence[Job]) -> Step:
    mine = [(number, job) for number, job in enumerate(jobs) if runs(data, number)]
    (phase,) = read_program({"moves": [data]}, max(len(job.group) for _number, job in mine))
    parts: list[Job] = []
    of: list[int] = []
    for number, job in mine:
        for positions in _groups(phase, len(job.group)):
            name = f"{job.name}-{phase.name}-{len(parts)}"
            parts.append(replace(job, name=name, group=tuple(job.group[position] for position in positions)))
            of.append(number)
    seconds = min(asked.deadline_seconds, int(phase.seconds) + NCCL_TESTS_START_SECONDS)
    container = asked.container if phase.kind == INSIDE else None
    codec = NcclTestsCodec(asked.torch.tasks_per_node, phase, asked.torch.executable, asked.torch.links, container)
    return Step(RoundJob(asked.partition, asked.gpus_per_node, seconds, codec), tuple(parts), tuple(of))


def _groups(phase: Phase, nodes: int) -> Sequence[Sequence[int]]:
    return phase.groups if phase.kind == GROUPS else [(position,) for position in range(nodes)]


def run_phases(
    slurm: Slurm, jobs: list[Job], asked: CollectiveRequest, start_seconds: int, patience: Patience = NO_PATIENCE
) -> list[dict[str, Any]]:
    """Run the program in as many steps as it needs and return one observation per job; raises SlurmError.

    A job that ended early in one step is in none after it. A node whose links no step watched told nothing of them.
    """
    end = time.monotonic() + asked.deadline_seconds + start_seconds + patience.seconds
    merged: list[dict[str, Any] | None] = [None] * len(jobs)
    watched: list[set[str]] = [set() for job in jobs]
    for step in steps(asked, jobs):
        left = min(asked.deadline_seconds, int(end - time.monotonic()) - start_seconds)
        chosen = [index for index, of in enumerate(step.of) if not _ended(merged[of])]
        if not chosen:
            continue
        if left < LEAST_SECONDS:
            for index in chosen:
                _add(merged, step.of[index], jobs, {"ok": False, "error": "no time was left for all of the program"})
            continue
        work = replace(step.work, deadline_seconds=min(left, step.work.deadline_seconds))
        seen = run_round(slurm, [step.jobs[index] for index in chosen], work, start_seconds, patience)
        for index, item in zip(chosen, seen):
            _add(merged, step.of[index], jobs, _spread(item, jobs[step.of[index]].group))
            if "links" in item:
                watched[step.of[index]].update(item["group"])
    found = []
    for whole, nodes in zip(merged, watched):
        if whole is not None:
            unwatched: dict[str, Any] = {node: [] for node in whole["group"] if node not in nodes}
            found.append({**whole, "links": {**whole["links"], **unwatched}})
    return found


def idle_of(nodes: Sequence[str], states: Mapping[str, str]) -> list[str]:
    """Return the first of these nodes that an exclusive job could start on at once, in their order."""
    busy = unavailable_nodes(nodes, states)
    return [node for node in nodes if node not in busy][:MOST_IDLE]


def _ended(item: Mapping[str, Any] | None) -> bool:
    return item is not None and (not item["started"] or bool(item["missing"]) or bool(item.get("reached")))


def _spread(item: dict[str, Any], group: Sequence[str]) -> dict[str, Any]:
    """Return a part's observation with its results by the positions of the whole job."""
    if list(group) == item["group"]:
        return item
    at = {node: position for position, node in enumerate(item["group"])}
    spread = []
    for result in item.get("results", ()):
        rows = {key: [result[key][at[node]] if node in at else None for node in group] for key in ("ns", "ns_p99")}
        spread.append({**result, **rows})
    return {**item, "results": spread}


def _add(merged: list[dict[str, Any] | None], number: int, jobs: Sequence[Job], item: Mapping[str, Any]) -> None:
    """Add what one step showed of a job to what those before did."""
    before = merged[number]
    group = list(jobs[number].group)
    if before is None:
        before = {"group": group, "ok": True, "started": False, "error": "", "ranks": [], "results": []}
        before.update(links={}, missing=[], unavailable={})
    reached = {**before.get("reached", {}), **item.get("reached", {})}
    stalls = [each["stalls"] for each in (before, item) if "stalls" in each]
    missing = {*before["missing"], *item.get("missing", ())}
    links = {node: list(told) for node, told in before["links"].items()}
    for node, told in item.get("links", {}).items():
        links[node] = [*links.get(node, ()), *told]
    merged[number] = {
        "group": group,
        "ok": before["ok"] and item["ok"],
        "started": bool(before["started"] or item.get("started")),
        "error": "; ".join(text for text in (before["error"], item["error"]) if text)[:2000],
        "ranks": item.get("ranks") or before["ranks"],
        "results": _joined(before["results"], item.get("results", ())),
        # Absent where no step told of any: that is not the same as none.
        **({"stalls": [stall for told in stalls for stall in told]} if stalls else {}),
        "links": links,
        "missing": [node for node in group if node in missing],
        "unavailable": {**before["unavailable"], **item.get("unavailable", {})},
        **({"reached": reached} if reached else {}),
    }


def _joined(before: list[dict[str, Any]], added: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all results; those of one measurement by several groups become one."""
    found = {(each["move"], each["step"], each["bytes"]): each for each in before}
    for each in added:
        key = (each["move"], each["step"], each["bytes"])
        if key in found:
            held = found[key]
            rows = {
                name: [a if a is not None else b for a, b in zip(held[name], each[name])] for name in ("ns", "ns_p99")
            }
            found[key] = {**held, **rows, "wrong": {**held["wrong"], **each["wrong"]}}
        else:
            found[key] = each
    return list(found.values())
