"""The program of a fabric round, ``muster fabric``: how it is called for a group, and how its answers are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..collectives.link_changes import Told
from ..words.reader import Count
from .round_job import Reading, muster_command, read_answers
from .slurm_round import Job


@dataclass(frozen=True)
class _Test:
    phase: str
    tool: str
    rail: str
    server: str
    client: str
    error: str
    bytes: int
    value: Any


@dataclass(frozen=True)
class _Growth:
    grown: Mapping[str, Count]
    missing: tuple[Any, ...]


@dataclass(frozen=True)
class FabricAnswer:
    """What one end tells: its tests, its servers, by rail and phase what counters did, and what links did."""

    tests: tuple[_Test, ...]
    servers: tuple[Any, ...]
    counters: Mapping[str, Mapping[str, _Growth]]
    links: Told


@dataclass(frozen=True)
class FabricCodec:
    """``test`` and ``nodes`` as ``muster fabric`` takes them; one end runs on each node of a group."""

    program: str
    nodes: Mapping[str, Mapping[str, Any]]
    test: Mapping[str, Any]
    timeout_seconds: int
    tasks_per_node: int = 1

    def command(self, job: Job, deadline_seconds: int) -> list[str]:
        """Return the command of one end, which is told of its group's nodes alone."""
        spec = {**self.test, "nodes": {node: self.nodes[node] for node in job.group}}
        return muster_command(self.program, "fabric", spec, job, (self.timeout_seconds, deadline_seconds))

    def read(self, group: Sequence[str], stdout: str) -> Reading:
        """Return the ends' answers; one of a sweep that ended early has an error."""
        return read_answers(group, stdout, FabricAnswer)
