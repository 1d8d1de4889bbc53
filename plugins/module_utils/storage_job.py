"""The Slurm job of a storage round: how it is started on all nodes at once, and what its output says about each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .answer_lines import unpack
from .host import Output
from .slurm_round import Job, ending_of, srun_argv, trouble_of


@dataclass(frozen=True)
class Settings:
    """What a round's job is given; ``test`` as ``muster storage`` takes it, ``python`` is the one that has torch."""

    partition: str
    program: str
    test: Mapping[str, Any]
    deadline_seconds: int
    timeout_seconds: int

    def argv(self, job: Job) -> list[str]:
        """Return the command that starts one process on each node of the group; the first is where all meet."""
        hub = job.group[0]
        # An attempt's job has a name of its own, and so has what it leaves on the storage.
        spec = {
            **{**self.test, "program": self.program, "run": job.name},
            **{"hub": hub, "hub_address": job.addresses.get(hub, hub)},
        }
        command = [
            # When a node is lost, or leaves early, the others go on.
            *("--wait=0", "--no-kill", "--kill-on-bad-exit=0"),
            self.program,
            "storage",
            f"--spec={json.dumps(spec, sort_keys=True, separators=(',', ':'))}",
            f"--port={job.port}",
            f"--timeout={self.timeout_seconds}",
            f"--deadline={self.deadline_seconds}",
        ]
        return srun_argv(job, self.partition, 1, self.deadline_seconds, command)

    def observe(self, group: Sequence[str], output: Output, states: Mapping[str, str]) -> dict[str, Any]:
        """Return what the job showed of each node; ``ok`` if every one came to the end of its way.

        A node without an answer that Slurm has lost is ``unavailable``.
        """
        records, errors = unpack(output.stdout)
        answers: dict[str, dict[str, Any]] = {}
        for record in records:
            node = record.get("node")
            if not isinstance(node, str) or node not in group or node in answers:
                errors.append(f"an answer of {node!r} that nobody asked for")
                continue
            fault = _fault(record)
            if fault:
                errors.append(f"{node}: {fault}")
                continue
            if record["error"]:
                errors.append(f"{node}: {record['error']}")
            answers[node] = {key: record[key] for key in ("node", *_ANSWER)}
        missing = [node for node in group if node not in answers]
        if missing:
            errors.append(f"no result from {', '.join(missing)}")
        gone = trouble_of(output, missing, states)
        errors += ending_of(output, self.deadline_seconds, bool(errors))
        return {
            "group": list(group),
            "ok": not errors,
            "started": True,
            "error": "; ".join(errors)[:2000],
            "answers": [answers[node] for node in group if node in answers],
            "missing": missing,
            "unavailable": gone,
        }


_NUMBER = (int, float)
_NOTHING = type(None)
_ANSWER: dict[str, Any] = {
    **{"phase": str, "error": str, "code": str, "blocked": list, "nodes": int, "elapsed_seconds": _NUMBER},
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
