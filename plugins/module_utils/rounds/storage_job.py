"""The program of a storage round, ``muster storage``: how it is called on all nodes, and how its answers are read."""

from __future__ import annotations

# ruff: noqa: UP045 -- hints are read at run time, by Python 3.9 too
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..collectives.link_changes import Told
from ..words.reader import ReadError
from .round_job import Reading, muster_command, read_answers
from .slurm_round import Job


@dataclass(frozen=True)
class _Written:
    bytes: int
    seconds: float
    direct: bool


@dataclass(frozen=True)
class _Read:
    """What its reader, or a second one, found in the shards ``of`` another node; why instead where it could not."""

    of: str
    error: str = ""
    wrong: Optional[int] = None
    fault: Optional[str] = None

    def __post_init__(self) -> None:
        for key in ("wrong", "fault"):
            if not self.error and getattr(self, key) is None:
                raise ReadError(key, "nothing", "a value, as there is no error")


@dataclass(frozen=True)
class _Own:
    wrong: int
    fault: str


@dataclass(frozen=True)
class _Metadata:
    operations: int
    p99_ms: Mapping[str, Any]
    # Of the clocks: below 0 where the other one is ahead.
    skew_seconds: Optional[float]
    seconds: float


@dataclass(frozen=True)
class _Made:
    error: str


@dataclass(frozen=True)
class StorageAnswer:
    """What one node tells; null for a part of the way to which it did not come."""

    phase: str
    error: str
    code: str
    blocked: tuple[Any, ...]
    nodes: int
    elapsed_seconds: float
    write: Optional[_Written]
    read: Optional[_Read]
    own: Optional[_Own]
    second: Optional[_Read]
    metadata: Optional[_Metadata]
    checkpoint: Optional[_Made]
    links: Told


@dataclass(frozen=True)
class StorageCodec:
    """``test`` as ``muster storage`` takes it; one process on each node, and the first node is where all meet."""

    program: str
    test: Mapping[str, Any]
    timeout_seconds: int
    tasks_per_node: int = 1

    def command(self, job: Job, deadline_seconds: int) -> list[str]:
        """Return the command of one node. What a job leaves on the storage has that job's name."""
        hub = job.group[0]
        own = {
            "program": self.program,
            "run": job.name,
            "hub": hub,
            "hub_address": job.addresses.get(hub, hub),
        }
        seconds = self.timeout_seconds, deadline_seconds
        # When a node leaves early the others go on.
        return ["--wait=0", *muster_command(self.program, "storage", {**self.test, **own}, job, seconds)]

    def read(self, group: Sequence[str], stdout: str) -> Reading:
        """Return the nodes' answers; one that did not come to the end of its way has an error."""
        return read_answers(group, stdout, StorageAnswer)
