"""One Slurm job per group of a fabric round: how it is started, and what its output says about the group."""

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
    """What all jobs of a round share; ``test`` and ``nodes`` as ``muster fabric`` takes them."""

    partition: str
    program: str
    nodes: Mapping[str, Mapping[str, Any]]
    test: Mapping[str, Any]
    deadline_seconds: int
    timeout_seconds: int

    def argv(self, job: Job) -> list[str]:
        """Return the command that starts one end on each node of the group."""
        spec = {**self.test, "nodes": {node: self.nodes[node] for node in job.group}}
        command = [
            self.program,
            "fabric",
            f"--spec={json.dumps(spec, sort_keys=True, separators=(',', ':'))}",
            f"--port={job.port}",
            f"--timeout={self.timeout_seconds}",
            f"--deadline={self.deadline_seconds}",
        ]
        return srun_argv(job, self.partition, 1, self.deadline_seconds, command)

    def observe(self, group: Sequence[str], output: Output, states: Mapping[str, str]) -> dict[str, Any]:
        """Return what one group's job showed.

        ``ok`` means that every node gave one whole answer of a walk that came to its end, and that srun ended with 0;
        what the tests measured is judged elsewhere. A node without an answer that Slurm has lost is ``unavailable``.
        """
        records, errors = unpack(output.stdout)
        answers: dict[str, dict[str, Any]] = {}
        for record in records:
            node = record.get("node")
            if not isinstance(node, str) or node not in group or node in answers:
                errors.append(f"an answer of {node!r} that nobody asked for")
                continue
            fault = _fault(record)
            if record.get("error") or fault:
                errors.append(f"{node}: {record.get('error') or fault}")
            if not fault:
                answers[node] = {key: record[key] for key in ("node", "tests", "servers", "counters")}
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


_TEST = {"phase": str, "tool": str, "device": str, "server": str, "client": str, "error": str, "bytes": int}


def _fault(record: Mapping[str, Any]) -> str:
    """Return what cannot be read in a node's answer, empty if all can."""
    tests, counters = record.get("tests"), record.get("counters")
    if not isinstance(tests, list) or not isinstance(record.get("servers"), list) or not isinstance(counters, dict):
        return "an answer without tests, servers and counters"
    for test in tests:
        if not isinstance(test, dict) or not all(isinstance(test.get(key), kind) for key, kind in _TEST.items()):
            return f"a test that cannot be read: {str(test)[:80]}"
        if "value" not in test:
            return f"a test without a value: {str(test)[:80]}"
    for device, phases in counters.items():
        for phase, grown in phases.items() if isinstance(phases, dict) else (("", None),):
            if not isinstance(grown, dict) or not _is_growth(grown):
                return f"counters of {device} that cannot be read ({phase})"
    return ""


def _is_growth(grown: Mapping[str, Any]) -> bool:
    counts, missing = grown.get("grown"), grown.get("missing")
    return (
        isinstance(counts, dict)
        and all(isinstance(count, int) and count >= 0 for count in counts.values())
        and isinstance(missing, list)
    )
