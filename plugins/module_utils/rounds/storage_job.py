"""The program of a storage round, ``muster storage``: how it is called on all nodes, and how its answers are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .round_job import Reading, muster_command, read_answers
from .slurm_round import Job


@dataclass(frozen=True)
class StorageCodec:
    """``test`` as ``muster storage`` takes it; one process on each node, and the first node is where all meet."""

    program: str
    test: Mapping[str, Any]
    timeout_seconds: int
    tasks_per_node: int = 1

    def command(self, job: Job, deadline_seconds: int) -> list[str]:
        """Return the command of one node. What a job leaves on the storage has that job's name."""
        rendezvous = job.group[0]
        own = {
            "program": self.program,
            "run": job.name,
            "rendezvous": rendezvous,
            "rendezvous_address": job.addresses.get(rendezvous, rendezvous),
        }
        seconds = self.timeout_seconds, deadline_seconds
        # When a node is lost, or leaves early, the others go on.
        options = ["--wait=0", "--no-kill", "--kill-on-bad-exit=0"]
        return options + muster_command(self.program, "storage", {**self.test, **own}, job, seconds)

    def read(self, group: Sequence[str], stdout: str) -> Reading:
        """Return the nodes' answers; one that did not come to the end of its way has an error."""
        return read_answers(group, stdout, tuple(_ANSWER), _fault)


_NUMBER = (int, float)
_NOTHING = type(None)
_ANSWER: dict[str, Any] = {
    "phase": str,
    "error": str,
    "code": str,
    "blocked": list,
    "nodes": int,
    "elapsed_seconds": _NUMBER,
    **dict.fromkeys(("write", "read", "own", "metadata", "checkpoint"), (dict, _NOTHING)),
}
# What must be in a part that is there; a read that was not possible says why instead.
_PARTS: dict[str, dict[str, Any]] = {
    "write": {"bytes": int, "seconds": _NUMBER, "direct": bool},
    "read": {"of": str},
    "own": {"wrong": int, "fault": str},
    "metadata": {"operations": int, "p99_ms": dict, "skew_seconds": (*_NUMBER, _NOTHING), "seconds": _NUMBER},
    "checkpoint": {"error": str},
}
_READ: dict[str, Any] = {"wrong": int, "fault": str}


def _fault(record: Mapping[str, Any]) -> str:
    """Return what cannot be read in a node's answer, empty if all can."""
    for key, kind in _ANSWER.items():
        if key not in record or not isinstance(record[key], kind):
            return f"an answer whose {key} is {str(record.get(key))[:40]!r}"
    for name, keys in _PARTS.items():
        part = record[name]
        if part is None:
            continue
        wanted = {**keys, **(_READ if name == "read" and not part.get("error") else {})}
        for key, kind in wanted.items():
            if not isinstance(part.get(key), kind) or (isinstance(part[key], bool) and kind is not bool):
                return f"an answer whose {name}.{key} is {str(part.get(key))[:40]!r}"
    return ""
