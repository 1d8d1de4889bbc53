"""What the jobs of a round do: one program on every node of a group, and what its output says about the group.

A codec knows one kind of program: how it is called, and how its answers are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from ..host.host import Output
from ..words.answer_lines import unpack
from ..words.reader import ReadError, read
from .slurm_round import Job, NodeShare, ending_of, srun_argv, trouble_of


@dataclass(frozen=True)
class Reading:
    """What a program's output says: the observation's own keys, the nodes without an answer, what is wrong.

    ``explained``: the program says more about its end than srun could.
    """

    found: Mapping[str, Any]
    missing: Sequence[str]
    errors: Sequence[str] = field(default_factory=tuple)
    explained: bool = True


class Codec(Protocol):
    """One kind of program."""

    @property
    def tasks_per_node(self) -> int:
        """How many processes each node runs."""

    def command(self, job: Job, deadline_seconds: int) -> list[str]:
        """Return what srun runs on the group's nodes, with options of srun before it."""

    def read(self, group: Sequence[str], stdout: str) -> Reading:
        """Return what the group's processes printed in all, as values."""


@dataclass(frozen=True)
class RoundJob:
    """What each job of a round is: a program that has ``deadline_seconds`` and these GPUs on the nodes of its group."""

    partition: str
    gpus_per_node: int
    deadline_seconds: int
    codec: Codec

    def argv(self, job: Job) -> list[str]:
        """Return the whole command of one group's job, beginning with srun."""
        command = self.codec.command(job, self.deadline_seconds)
        each = NodeShare(self.codec.tasks_per_node, self.gpus_per_node)
        return srun_argv(job, self.partition, each, self.deadline_seconds, command)

    def observe(self, group: Sequence[str], output: Output, states: Mapping[str, str]) -> dict[str, Any]:
        """Return what one group's job showed. ``output`` is srun's, with ``rc`` None when it was ended at its deadline.

        ``ok`` means that every node gave all whole answers that were expected, and that srun ended with 0; what was
        measured is judged elsewhere. ``states`` are the nodes' Slurm states after the job: a node without an answer
        that Slurm has lost is ``unavailable``, gone rather than slow.
        """
        reading = self.codec.read(group, output.stdout)
        errors = list(reading.errors)
        errors += ending_of(output, self.deadline_seconds, reading.explained and bool(errors))
        return {
            "group": list(group),
            "ok": not errors,
            "started": True,
            "error": "; ".join(errors)[:2000],
            **reading.found,
            "missing": list(reading.missing),
            "unavailable": trouble_of(output, reading.missing, states),
        }


def muster_command(program: str, name: str, spec: Mapping[str, Any], job: Job, seconds: tuple[int, int]) -> list[str]:
    """Return a command of the ``muster`` program that takes a spec; ``seconds``: its timeout and its deadline."""
    return [
        program,
        name,
        f"--spec={json.dumps(spec, sort_keys=True, separators=(',', ':'))}",
        f"--port={job.port}",
        f"--timeout={seconds[0]}",
        f"--deadline={seconds[1]}",
    ]


def read_answers(group: Sequence[str], stdout: str, kind: type[Any]) -> Reading:
    """Read one answer of each node as the dataclass ``kind``, whose keys are kept as they came."""
    keys = [each.name for each in fields(kind)]
    records, errors = unpack(stdout)
    answers: dict[str, dict[str, Any]] = {}
    for record in records:
        node = record.get("node")
        if not isinstance(node, str) or node not in group or node in answers:
            errors.append(f"an answer of {node!r} that nobody asked for")
            continue
        unreadable = ""
        try:
            read(kind, record, extra=True)
        except ReadError as exc:
            unreadable = f"an answer that cannot be read: {exc}"
        if record.get("error") or unreadable:
            errors.append(f"{node}: {record.get('error') or unreadable}")
        if not unreadable:
            answers[node] = {key: record[key] for key in ("node", *keys)}
    missing = [node for node in group if node not in answers]
    if missing:
        errors.append(f"no result from {', '.join(missing)}")
    return Reading({"answers": [answers[node] for node in group if node in answers]}, missing, errors)
